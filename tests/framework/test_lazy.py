"""Packages whose names are imported when they are asked for."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from framework.lazy import Later, exports

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    str(path.parent.relative_to(ROOT)).replace("/", ".")
    for room in ("framework", "suites")
    for path in (ROOT / room).rglob("__init__.py")
    if "= exports(" in path.read_text(encoding="utf-8")
)


def test_there_are_such_packages():
    assert {"framework", "suites.engine", "suites.engine.config", "suites.engine.weights"} <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_gives_what_its_types_say_and_no_name_hides_behind_a_module(name):
    package = importlib.import_module(name)
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    typed = {
        alias.name: str(node.module)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(typed) == dir(package)
    for public, module in typed.items():
        value = getattr(package, public)
        if module == name:  # a module of the package
            assert value is importlib.import_module(f"{name}.{public}")
        else:
            assert value is getattr(importlib.import_module(module), public)
            assert not (ROOT / name.replace(".", "/") / f"{public}.py").exists(), "importing the module would hide it"


def test_a_name_that_a_package_does_not_have_is_an_attribute_error():
    get, names = exports("framework", {"Tensor": "tensors"})
    assert names() == ["Tensor"]
    with pytest.raises(AttributeError, match="module 'framework' has no attribute 'Tensr'"):
        get("Tensr")


def test_an_error_and_a_list_of_weights_import_no_operator_and_the_first_gradient_imports_all_rules():
    code = """
import sys
import framework.errors
import suites.engine.weights.records.shelf as shelf
assert shelf.read_brief("mobilenetv2_imagenet").files
assert not {"numpy", "framework._core", "framework.ops"} & set(sys.modules), "a list must be quick"
from framework.tensors import tensor
assert "framework.autograd.rules" not in sys.modules
x = tensor([2.0], requires_grad=True)
(x * x).backward()
assert x.grad.tolist() == [4.0]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_room_that_does_not_fill_what_it_owes_is_named():
    with pytest.raises(AttributeError, match=r"framework\.errors gives no 'words'"):
        _ = Later("framework.errors").words
