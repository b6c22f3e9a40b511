"""What a system may lack is asked for in framework/system alone, and what stands there has a second way that works."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "msvcrt", "winreg", "psutil", "portalocker"}
NAMES = {
    ("os", name) for name in ("memfd_create", "posix_fallocate", "register_at_fork", "sched_getaffinity", "getuid",
                              "prlimit", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
} | {("signal", name) for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGPIPE")}  # fmt: skip
NAMES |= {("sys", "platform"), ("os", "name")}
# Each has its second way beside it, under `hasattr` or in an `except OSError`.
ALLOWED = {
    ("framework/forks.py", "os.register_at_fork"),
    ("framework/data/blocks.py", "os.memfd_create"),
    ("framework/data/blocks.py", "os.posix_fallocate"),
    ("suites/engine/run/environment.py", "os.sched_getaffinity"),
    ("suites/engine/run/environment.py", "/proc/cpuinfo"),
    ("suites/engine/run/ownership.py", "/proc/self/fd/"),
    ("suites/vision/videos/camera.py", "sys.platform"),
}


def asked(tree):
    """Modules, names and files of one system that a source asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node.module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in NAMES:
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/proc/"):
            yield node.value


def sources():
    files = [f for top in ("framework", "suites") for f in (ROOT / top).rglob("*.py")]
    return [f for f in files if f.parent != ROOT / "framework/system"]


def test_only_the_room_of_systems_asks_for_what_a_system_may_lack():
    found = {(f.relative_to(ROOT).as_posix(), what) for f in sources() for what in asked(ast.parse(f.read_text()))}
    assert found - ALLOWED == set()
    assert ALLOWED - found == set()  # nothing is allowed that is not there


def test_the_rule_finds_what_it_is_for():
    text = "import fcntl\nfrom pwd import getpwuid\nsignal.SIGHUP\nopen('/proc/self/maps')\nos.O_NOFOLLOW\n"
    assert set(asked(ast.parse(text))) == {"fcntl", "pwd", "signal.SIGHUP", "/proc/self/maps", "os.O_NOFOLLOW"}


# As on Windows, so far as a module can tell when it is imported. Libraries are imported before: they have ways of their
# own there. An extra that is not installed is left out, and so is a library that needs what is taken away.
WITHOUT_POSIX = """
import asyncio, http.server, importlib, multiprocessing.util, os, selectors, signal, subprocess, sys, tempfile
import traceback, numpy
from pathlib import Path
GONE = ("fcntl", "resource", "pwd", "grp", "termios")
for name in GONE:
    sys.modules[name] = None
del signal.SIGHUP, signal.SIGKILL, os.register_at_fork, os.memfd_create, os.posix_fallocate, os.sched_getaffinity
del os.O_NOFOLLOW, os.O_NONBLOCK, os.O_CLOEXEC
count = 0
for top in ("framework", "suites"):
    for path in sorted(Path(top).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(name)
            count += 1
        except ImportError as error:
            asking = traceback.extract_tb(error.__traceback__)[-1].filename
            ours = any(f"/{top}/" in asking and "site-packages" not in asking for top in ("framework", "suites"))
            assert not (ours and error.name in GONE), (name, error)
            assert (error.name or "").partition(".")[0] not in ("framework", "suites"), (name, error)
print(count)
"""


def test_everything_is_imported_where_posix_is_missing():
    words = [sys.executable, "-c", WITHOUT_POSIX]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > 800


AS_ON_A_MAC = """
import multiprocessing, os, sys
del os.memfd_create, os.posix_fallocate, os.sched_getaffinity
import resource
del resource.prlimit
multiprocessing.get_all_start_methods = lambda: ["spawn"]
from pathlib import Path
real = Path.read_text
def read_text(self, *a, **k):
    if str(self).startswith("/proc/"):
        raise FileNotFoundError(str(self))
    return real(self, *a, **k)
Path.read_text = read_text
import framework.system.memory as memory
memory.REFUSES = False
if __name__ == "__main__":
    from suites.engine.cli import main
    sys.exit(main(sys.argv[1:]))
"""


def test_a_run_is_trained_with_workers_where_linuxs_own_calls_are_missing(tmp_path):
    script = tmp_path / "mac.py"
    script.write_text(AS_ON_A_MAC)
    words = [
        "train",
        "classification/resnet18_digits",
        "--runs",
        str(tmp_path / "runs"),
        "--name",
        "r",
        "-o",
        "runtime.epochs=1",
    ]
    words += ["-o", "runtime.workers=2", "-o", "runtime.threads=1"]
    done = subprocess.run(
        [sys.executable, str(script), *words], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "runs/r/weights/last.safetensors").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="another system has its own way in use already")
def test_on_linux_the_systems_own_ways_are_in_use():
    from framework.system import file_locks, memory

    assert memory.REFUSES and file_locks.fcntl is not None
