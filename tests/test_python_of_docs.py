"""The Python of the docs: each page's blocks compile, what they import is there, and their calls fit the signatures.

Blocks that need nothing from outside run too; those of other pages run beside the tests of what they show.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
OURS = ("framework", "suites")
RUNNING = ["docs/tutorial/core.md", "docs/howto/training.md", "docs/howto/writing.md", "docs/howto/devices.md"]


def trees(page: Path) -> list[ast.Module]:
    """The blocks of a page, one behind the other; a SyntaxError names the page."""
    return [ast.parse(block, str(page)) for block in BLOCK.findall(page.read_text())]


def imported(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """The names that a block gives to modules and objects of ours; an error names what is not there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in OURS:
                    module = importlib.import_module(alias.name)
                    yield alias.asname or alias.name, module
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            module = importlib.import_module(node.module)
            for alias in node.names:
                try:
                    found = getattr(module, alias.name)
                except AttributeError:
                    found = importlib.import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, found


def called(node: ast.expr, names: dict[str, Any]) -> Any:
    """What an expression such as `nn.Linear` stands for; None where it is no name of ours."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = called(node.value, names)
        return getattr(owner, node.attr) if owner is not None else None
    return None


def misfits(page: Path) -> list[str]:
    """The calls of a page whose arguments the called does not take."""
    names: dict[str, Any] = {}
    wrong = []
    for tree in trees(page):
        names.update(imported(tree))
        for node in ast.walk(tree):
            function = called(node.func, names) if isinstance(node, ast.Call) else None
            if not callable(function):
                continue
            try:
                signature = inspect.signature(function)
            except ValueError:  # built in C++
                continue
            if any(isinstance(each, ast.Starred) for each in node.args) or any(k.arg is None for k in node.keywords):
                continue
            try:
                signature.bind_partial(*node.args, **{keyword.arg: keyword.value for keyword in node.keywords})
            except TypeError as error:
                wrong.append(f"{page.relative_to(ROOT)}: {ast.unparse(node)}: {error}")
    return wrong


WITH_PYTHON = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_imports_is_there_and_takes_what_it_is_given(page):
    assert misfits(page) == []


@pytest.mark.parametrize("page", RUNNING)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "docs"}
    for block in BLOCK.findall((ROOT / page).read_text()):
        exec(compile(block, page, "exec"), scope)


FOLDERS = "suites|framework|tests|benchmarks|tools|scripts|examples|configs"
FILE = re.compile(rf"(?<![\w/.-])((?:{FOLDERS})/[\w./-]*\w)(?![\w*{{<])")
INSTALLED = "framework/lib"
READERS_OWN = {"configs/x.yml", "configs/video/actions.yml", "configs/classification/flowers.yml", "tests/some/test.py"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_ours_that_a_page_names_are_there(page):
    text = re.sub(r"https?://\S+|\[[^]]*\]\(https?://[^)]*\), `[^`]*`", "", page.read_text())
    named = {name.rstrip(".") for name in FILE.findall(text)} - READERS_OWN - {INSTALLED}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("from framework import no_such", "No module named 'framework.no_such'"),
        ("from framework import nn\nnn.Linear(2, 3, biass=True)", "unexpected keyword argument 'biass'"),
        ("from framework import nn\nnn.Liner(2)", "has no attribute 'Liner'"),
    ],
)
def test_what_is_not_there_would_be_found(block, said, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_python_of_docs.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(f"```python\n{block}\n```\n")
    try:
        found = "".join(misfits(tmp_path / "page.md"))
    except (ImportError, AttributeError) as error:
        found = str(error)
    assert said in found
