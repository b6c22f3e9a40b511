"""All that is written or removed goes through `framework.atomic`, which leaves no folder that is confined."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(p for top in ("framework", "suites") for p in (ROOT / top).rglob("*.py"))
THE_WRITERS = {"framework/atomic.py", "framework/confined.py"}
# Who may write by itself, and why. What it writes is neither a run, an export, an index nor a publication.
ALLOWED = {
    "framework/table/remote/join.py": "links into a folder that atomic_folder made",
    "framework/table/chained.py": "links into a folder that atomic_folder made",
    "suites/ctr/demo/drift.py": "makes logs to try things with, in a folder that the caller names",
    "suites/ctr/demo/children.py": "the demo's own folder, made anew",
    "suites/ctr/demo/parts.py": "the demo's own folder, made anew",
    "suites/ctr/demo/plan.py": "the demo's own folder, made anew",
    "suites/ctr/demo/show.py": "the demo's own folder, made anew",
    "suites/engine/train/hooks/events.py": "a library that writes a new file; its folder is asked about before",
    "suites/engine/run/ownership.py": "makes the run's folder itself, before it is confined",
    "suites/engine/run/screen.py": "the console",
    "suites/vision/videos/writing.py": "a library, into a file that atomic_file made, or into memory",
    "suites/engine/weights/wheels.py": "a temporary folder",
}
METHODS = {"write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "touch", "symlink_to", "hardlink_to"}
OF_OS = {"open", "remove", "unlink", "rename", "replace", "truncate", "link", "symlink", "mkdir", "makedirs", "rmdir"}
LIBRARIES = {"SummaryWriter", "imwrite", "save_file"}
READERS = {"which", "disk_usage"}  # of shutil
MAKERS = {"atomic_file", "atomic_folder", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"}


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def root_of(node: ast.AST) -> str:
    """The variable that a path begins with: `part` of `(part / "a").open`."""
    while not isinstance(node, ast.Name):
        below = [getattr(node, field, None) for field in ("left", "value", "func")]
        node = next((n for n in below if isinstance(n, ast.AST)), None)  # type: ignore[assignment]
        if node is None:
            return ""
    return node.id


def made_by_writers(function: ast.AST) -> set[str]:
    """Names of files and folders that are new, and so no links: `with atomic_file(path) as part`."""
    items = [item for node in ast.walk(function) if isinstance(node, ast.With) for item in node.items]
    found = {root_of(i.optional_vars) for i in items if i.optional_vars and name_of_call(i.context_expr) in MAKERS}
    for node in ast.walk(function):  # stack.enter_context(TemporaryDirectory())
        if isinstance(node, ast.Assign) and any(name_of_call(n) in MAKERS for n in ast.walk(node.value)):
            found |= {root_of(target) for target in node.targets}
    return found


def name_of_call(node: ast.AST) -> str:
    return name_of(node.func) if isinstance(node, ast.Call) else ""


def modes(call: ast.Call) -> str:
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    return "".join(
        a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str) and len(a.value) < 4
    )


def writes(call: ast.Call) -> bool:
    func, name = call.func, name_of(call.func)
    if name in LIBRARIES or (isinstance(func, ast.Attribute) and name_of(func.value) == "shutil"):
        return name not in READERS
    if isinstance(func, ast.Name):
        return name == "open" and bool(set(modes(call)) & set("wax+"))
    if isinstance(func, ast.Attribute) and name_of(func.value) == "os":
        return name in OF_OS and not (name == "open" and "O_RDONLY" in ast.dump(call))
    if name == "open":
        return bool(set(modes(call)) & set("wax+"))
    return name in METHODS or (name == "replace" and len(call.args) == 1 and not call.keywords)


def bypassing(tree: ast.AST) -> Iterator[ast.Call]:
    nodes = list(ast.walk(tree))
    calls = [node for node in nodes if isinstance(node, ast.Call) and writes(node)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)] if calls else []
    new = {id(node): names for f in functions if (names := made_by_writers(f)) for node in ast.walk(f)}
    for call in calls:
        target = call.func.value if isinstance(call.func, ast.Attribute) else (call.args or [call])[0]
        if name_of(target) in ("os", "shutil") or name_of_call(call) in LIBRARIES:
            target = (call.args or [call])[0]
        if root_of(target) not in new.get(id(call), ()):
            yield call


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_written_but_through_the_one_place(path):
    place = str(path.relative_to(ROOT))
    if place in THE_WRITERS | set(ALLOWED):
        return
    found = [f"{place}:{call.lineno}: {ast.unparse(call)[:90]}" for call in bypassing(ast.parse(path.read_text()))]
    assert not found, "\n".join([*found, "write with framework.atomic, which follows no link out of a confined folder"])


def test_who_is_allowed_still_writes():
    gone = [p for p in ALLOWED if not any(bypassing(ast.parse((ROOT / p).read_text())))]
    assert not gone, f"remove from ALLOWED: {gone}"


@pytest.mark.parametrize(
    "line",
    [
        "(run / 'log.txt').open('a')",
        "open(path, mode='w')",
        "path.write_text('x')",
        "shutil.rmtree(folder)",
        "os.replace(a, b)",
        "part.replace(path)",
        "os.open(path, os.O_WRONLY)",
        "cv2.imwrite(str(path), picture)",
        "path.unlink(missing_ok=True)",
    ],
)
def test_the_rule_sees(line):
    assert any(bypassing(ast.parse(f"def f():\n    {line}")))


@pytest.mark.parametrize("line", ["open(path)", "path.open('rb')", "text.replace('a', 'b')", "os.open(p, os.O_RDONLY)"])
def test_the_rule_leaves_readers_alone(line):
    assert not any(bypassing(ast.parse(f"def f():\n    {line}")))


def test_the_rule_leaves_alone_what_is_new():
    assert not any(bypassing(ast.parse("def f():\n    with atomic_file(p) as part:\n        part.write_text('x')")))
