"""The house rules that code can break unseen: who imports whom, what is never imported, what never runs code."""

import ast
import graphlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SUITES = {p.name for p in (ROOT / "suites").iterdir() if p.is_dir() and not p.name.startswith("_")}
SHARED = {"engine", "vision"}
PEERS = {"torch", "torchvision", "tensorflow", "paddle", "jax", "onnxruntime", "openvino", "mxnet"}
CODE_LOADERS = {"pickle", "dill", "cloudpickle", "marshal", "shelve"}
# Batches that travel between our own processes, never through a file.
BETWEEN_PROCESSES = {"framework/data/blocks.py"}
ACCELERATORS = "framework/xla/"  # the only room that knows JAX, as a compiler
FILES = sorted(p for top in ("framework", "suites", "tools") for p in (ROOT / top).rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_calls_go_down_only(path):
    parts = path.relative_to(ROOT).parts
    for module in imported_modules(path):
        top, *rest = module.split(".")
        if parts[0] == "framework":
            assert top not in ("suites", "tools"), f"framework imports {module}"
        if parts[0] == "suites":
            assert top != "tools", f"a suite imports {module}"
            if top == "suites" and rest and rest[0] in SUITES - SHARED:
                assert parts[1] == rest[0], f"suites/{parts[1]} imports {module}"
            if top == "suites" and rest[:1] == ["vision"]:
                assert parts[1] != "engine", f"the engine imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_peer_and_no_code_loader_is_imported(path):
    tops = {m.split(".")[0] for m in imported_modules(path)}
    assert not tops & (PEERS - {"jax"} if str(path.relative_to(ROOT)).startswith(ACCELERATORS) else PEERS)
    if str(path.relative_to(ROOT)) not in BETWEEN_PROCESSES:
        assert not tops & CODE_LOADERS


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NATIVE = "framework._core"


def imports_among(path: Path, modules: set[str]) -> set[str]:
    """Which of `modules` a file imports, also late, inside of a function, or for type checkers only."""

    def imports(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    yield whole if whole in modules or whole == NATIVE else child.module
            yield from imports(child)

    return {name for name in imports(ast.parse(path.read_text())) if name in modules} - {module_name(path)}


def expect_no_circle(imports: dict[str, set[str]]) -> None:
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as e:
        pytest.fail("modules import each other in a circle: " + " <- ".join(e.args[1]))


def test_modules_know_each_other_in_no_circle_not_even_for_types():
    files = {module_name(p): p for p in FILES if p.relative_to(ROOT).parts[0] in ("framework", "suites")}
    expect_no_circle({name: imports_among(path, set(files)) for name, path in files.items()})


def test_the_engine_knows_no_pixels():
    found = [path for path in (ROOT / "suites" / "engine").rglob("*.py") if "cv2" in path.read_text()]
    assert found == []


def test_importing_the_core_loads_nothing_heavy():
    heavy = "('cv2', 'jax', 'ml_dtypes', 'onnx', 'pycocotools', 'rich', 'sklearn', 'yaml')"
    code = f"import sys, framework; print(*[m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def native_types():
    """(namespace, type) of each type that the native core defines outside of unnamed namespaces, with its files."""
    found = defaultdict(set)
    for path in (ROOT / "framework" / "native").rglob("*.*"):
        text = path.read_text()
        for unnamed in re.findall(r"^namespace \{\n.*?^\}  // namespace\n", text, re.MULTILINE | re.DOTALL):
            text = text.replace(unnamed, "")
        namespace = re.search(r"^namespace (\S+) \{", text, re.MULTILINE)
        for name in re.findall(
            r"^(?:struct|class) (?:PADDOCK_API )?(\w+)(?: final)?(?: :[^{;]*)? \{", text, re.MULTILINE
        ):
            found[namespace and namespace[1], name].add(path.name)
    return found


def test_a_native_type_is_defined_once():
    """Two of one name in a library are undefined behaviour: the linker takes the functions of one for both."""
    types = native_types()
    assert len(types) > 100 and ("paddock", "Shape") in types
    assert {key: files for key, files in types.items() if len(files) > 1} == {}


DECODERS = {"suites/vision/pictures/images.py", "suites/vision/pictures/apart_child.py"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pictures_are_decoded_in_one_place(path):
    if str(path.relative_to(ROOT)) not in DECODERS:
        assert not re.search(r"\bim(?:decode|read)\w*\(|\bimport PIL\b|\bfrom PIL\b", path.read_text())


STARTING = re.compile(r"system|popen|startfile|fork|forkpty|posix_spawnp?|exec[lv]\w*|spawn[lv]\w*")  # of the module os
STARTERS = {"subprocess", "pty", "webbrowser", "pexpect", "commands"}
PROGRAMS = "framework/programs.py"


def attribute_names(path: Path) -> Iterator[tuple[str, str]]:
    """Each `module.name` of a file, by the module's own name also where it is imported under another."""
    tree = ast.parse(path.read_text())
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield imported.get(node.value.id, node.value.id), node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            module, name, *_ = [*node.args, ast.Constant(""), ast.Constant("")]
            if isinstance(module, ast.Name) and isinstance(name, ast.Constant):
                yield imported.get(module.id, module.id), str(name.value)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_programs_are_started_in_one_place(path):
    if str(path.relative_to(ROOT)) == PROGRAMS:
        return
    assert not {module.split(".")[0] for module in imported_modules(path)} & STARTERS
    for module, name in attribute_names(path):
        assert not (module == "os" and STARTING.fullmatch(name)), f"{path}: os.{name} starts a program"
        assert not (module == "asyncio" and name.startswith("create_subprocess")), f"{path}: {name}"


def is_of_our_source(node: ast.expr) -> bool:
    """Whether an expression is words that stand in our source: literals, constants, `programs.module` of them."""
    if isinstance(node, ast.Starred):
        return is_of_our_source(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(is_of_our_source, node.elts))
    if isinstance(node, ast.JoinedStr):  # a value may be from outside where its option stands before it
        first = node.values[0]
        return isinstance(first, ast.Constant) and re.match(r"--[a-z-]+=", str(first.value)) is not None
    if isinstance(node, ast.Subscript):
        return is_of_our_source(node.value)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "programs.module" and all(map(is_of_our_source, node.args))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def programs_started() -> list[tuple[Path, ast.Call]]:
    calls = [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    wanted = ("programs.run", "programs.start", "programs.start_child", "programs.line")
    return [(p, n) for p, n in calls if isinstance(n, ast.Call) and ast.unparse(n.func) in wanted]


def test_options_of_programs_stand_in_our_source():
    found = programs_started()
    assert len(found) >= 6
    for path, call in found:
        options = call.args[1] if len(call.args) > 1 else next(k.value for k in call.keywords if k.arg == "options")
        if isinstance(options, ast.Name) and options.id == "options":  # of the same function
            tree = ast.parse(path.read_text())
            made = [
                n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "options"
            ]
            assert made and all(map(is_of_our_source, made)), f"{path}:{call.lineno}"
        else:
            assert is_of_our_source(options), f"{path}:{call.lineno}: {ast.unparse(options)}"


# Files that are opened without `framework.outside`, and why that may be. All others go through it: it refuses devices
# and pipes, and what is over its limit.
OPENERS = {
    "framework/data/logs/files.py": "click logs, opened by `LogFile`, which looks at their size and reads pieces",
    "framework/data/logs/tail.py": "a log that grows while it is read",
    "framework/extras.py": "our pyproject.toml",
    "framework/system/memory.py": "/proc",
    "framework/table/remote/log.py": "a shard's own log",
    "framework/table/remote/process.py": "the specification that a parent writes for its child",
    "framework/table/snapshot.py": "a table's snapshot, whose header and digest are checked piece by piece",
    "suites/ctr/cluster/head.py": "a file of the job itself",
    "suites/ctr/cluster/places.py": "a log of the job itself",
    "suites/ctr/cluster/trainer.py": "the specification that a parent writes for its child",
    "suites/ctr/demo/board.py": "files of the demo itself",
    "suites/ctr/demo/page.py": "a page of the package",
    "suites/ctr/demo/parts.py": "files of the demo itself",
    "suites/ctr/demo/plan.py": "files of the demo itself",
    "suites/ctr/inspection/guess.py": "pieces of a click log, of a fixed size",
    "suites/detection/datasets/digits.py": "pictures of the package",
    "suites/detection/datasets/writing.py": "a file that is about to be written",
    "suites/engine/cli/__init__.py": "our own modules",
    "suites/engine/cli/zoo.py": "records of the package",
    "suites/engine/hosts/agreement.py": "a plug-in that the user named",
    "suites/engine/reporting/gallery.py": "pictures of a run",
    "suites/engine/reporting/lines.py": "a run's own lines",
    "suites/engine/reporting/reading.py": "a run's own files",
    "suites/engine/reporting/tally.py": "a run's own counts",
    "suites/engine/run/environment.py": "/proc",
    "suites/engine/run/ownership.py": "a run's lock",
    "suites/engine/serving/web/page.py": "a page of the package",
    "suites/engine/serving/web/server.py": "the server's own secret",
    "suites/engine/weights/fetching.py": "archives whose digest is known",
    "suites/engine/weights/records/record.py": "classes beside a record, whose digest is known",
    "suites/video/features/store.py": "features that the package wrote, read by their places",
}


def opens_files(path: Path) -> Iterator[str]:
    """The calls of a file that open another for reading by themselves."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        of = node.func
        name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
        modes = [a.value for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)]
        writes = any(isinstance(mode, str) and mode[:1] in "wax" and len(mode) < 4 for mode in modes)
        reads = name == "open" and any(mode in ("r", "rb", "rt") for mode in modes)
        plain = name == "open" and isinstance(of, ast.Name) and not writes
        own = name in ("read_bytes", "read_text") and isinstance(of, ast.Attribute)  # those of a Path
        by_path = name in ("fromfile", "memmap", "genfromtxt", "loadtxt") and "file" not in ast.unparse(node.args[0])
        if reads or plain or own or by_path or ast.unparse(of) == "np.load":
            yield f"{node.lineno}: {ast.unparse(node)[:80]}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_from_outside_are_opened_in_one_place(path):
    name = str(path.relative_to(ROOT))
    if name.startswith("tools/") or name in OPENERS:
        return
    assert not list(opens_files(path)), f"{name}: open it by framework.outside"


def test_readers_of_data_sets_end_lines_in_one_way():
    """`intake.texts.lines_of` does; `str.splitlines` also cuts at U+2028, form feeds and Latin-1's 0x85."""
    readers = [path for path in (ROOT / "suites").rglob("*.py") if "datasets" in path.parts]
    assert [str(path) for path in readers if "splitlines" in path.read_text()] == [] and len(readers) > 40


def test_no_opener_is_listed_that_opens_nothing():
    assert not [name for name in OPENERS if not list(opens_files(ROOT / name))]


def test_a_room_of_the_engine_has_at_most_fifteen_loose_modules():
    rooms = defaultdict(list)
    for path in (ROOT / "suites" / "engine").rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            rooms[str(path.parent.relative_to(ROOT))].append(path.stem)
    assert len(rooms) > 12
    assert {room: names for room, names in rooms.items() if len(names) > 15} == {}
