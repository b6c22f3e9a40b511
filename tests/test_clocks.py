"""Nothing but stamps for people reads the wall clock: it jumps when a machine's time is set."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(p for top in ("framework", "suites", "tools", "deploy", "examples") for p in (ROOT / top).rglob("*.py"))
NATIVE = sorted(p for p in (ROOT / "framework").rglob("*") if p.suffix in (".h", ".cpp", ".cc", ".hpp"))
# Who may read it, how often, and why.
ALLOWED = {
    "framework/table/remote/store.py": (2, "the age of a checkpoint: a jump moves the next one by an interval at most"),
    "suites/engine/run/log.py": (1, "a stamp before each line"),
    "suites/engine/run/checkpoint.py": (1, "a file's time as a part of its identity; compared for equality only"),
    "suites/engine/data/remembered.py": (5, "times of files as a part of their identity; what is new is not kept"),
    "suites/engine/predict/gallery/files.py": (2, "times of files as a part of their identity; for equality only"),
    "suites/engine/weights/runs.py": (1, "a file's time as a part of its identity; compared for equality only"),
    "suites/engine/serving/versions.py": (1, "files' times as a part of their identity; compared for equality only"),
    "suites/engine/serving/web/app.py": (1, "when the server started, for clients that show it"),
    "suites/engine/serving/web/openai.py": (1, "when an answer was begun, for clients that show it"),
    "suites/nlp/writing/chats_child.py": (1, "the date that a chat template puts into its prompt"),
    "suites/ctr/cluster/work.py": (1, "incarnations of workers: one more than the last where the clock went back"),
}
OF_TIME = {"time", "time_ns", "strftime", "localtime", "gmtime", "ctime", "asctime", "CLOCK_REALTIME"}
OF_DATES = {"now", "utcnow", "today", "fromtimestamp"}
OF_FILES = {"st_mtime", "st_mtime_ns", "st_ctime", "st_ctime_ns", "st_atime", "st_atime_ns", "getmtime", "getctime"}


def reads(tree: ast.AST) -> Iterator[ast.AST]:
    """The places where a module reads a clock that may jump, or a time that was taken of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and OF_TIME & {a.name for a in node.names}:
            yield node
        elif isinstance(node, ast.Attribute):
            of = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if (
                node.attr in OF_FILES
                or (of == "time" and node.attr in OF_TIME)
                or (of in ("datetime", "date") and node.attr in OF_DATES)
            ):
                yield node


def test_each_read_of_the_wall_clock_has_its_reason():
    found = {}
    for path in FILES:
        if count := sum(1 for _ in reads(ast.parse(path.read_text()))):
            found[str(path.relative_to(ROOT))] = count
    assert found == {name: count for name, (count, _) in ALLOWED.items()}


def test_native_code_reads_steady_clocks_only():
    wall = re.compile(r"system_clock|gettimeofday|CLOCK_REALTIME|\btime\((?:nullptr|NULL|0)\)")
    assert len(NATIVE) > 20 and [str(p) for p in NATIVE if wall.search(p.read_text())] == []


@pytest.mark.parametrize(
    "line",
    [
        "time.time()",
        "from time import time",
        "clock = time.time_ns",
        "datetime.datetime.now()",
        "datetime.utcnow()",
        "date.today()",
        "path.stat().st_mtime",
        "os.path.getmtime(path)",
        "time.strftime('%F')",
    ],
)
def test_every_way_to_read_it_is_found(line):
    assert len(list(reads(ast.parse(line)))) == 1


@pytest.mark.parametrize("line", ["time.monotonic()", "then.strftime('%F')", "time.sleep(1)", "from time import sleep"])
def test_other_clocks_are_not(line):
    assert list(reads(ast.parse(line))) == []
