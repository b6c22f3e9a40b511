"""The scripts that developers run work outside of a git checkout and with the tools of the Python environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """A tree with the scripts and one C++ file, which git does not know."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / ".clang-format", tmp_path)
    for folder in ("framework/native", "examples", "benchmarks", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "framework/native/x.cc").write_text("int  x ;\n")
    return tmp_path


def call(tree, script, *words, **variables):
    return subprocess.run(
        [f"scripts/{script}", *words], cwd=tree, env={**os.environ, **variables}, capture_output=True, text=True
    )


def test_lint_checks_cpp_outside_of_a_checkout(tree):
    if not (Path(sys.executable).parent / "clang-format").exists():
        pytest.skip("the package clang-format is not installed")
    done = call(tree, "lint", PYTHON=sys.executable)
    assert done.returncode != 0 and "x.cc:1" in done.stdout + done.stderr


def test_lint_that_finds_no_cpp_fails(tree):
    (tree / "framework/native/x.cc").unlink()
    done = call(tree, "lint", PYTHON=sys.executable)
    assert done.returncode != 0 and "lint: found no C++ sources" in done.stderr


def test_a_relative_interpreter_becomes_absolute_and_its_link_is_not_followed(tree):
    (tree / "env/bin").mkdir(parents=True)
    (tree / "env/bin/python").symlink_to(sys.executable)
    assert call(tree, "which_python", PYTHON="env/bin/python").stdout.strip() == str(tree / "env/bin/python")


def test_the_native_build_uses_the_environments_cmake_and_ninja(tree):
    (tree / "env/bin").mkdir(parents=True)
    (tree / "env/bin/python").symlink_to(sys.executable)
    for tool in ("cmake", "ninja"):
        (tree / f"env/bin/{tool}").write_text(f'#!/bin/sh\necho {tool} "$@" >> {tree}/called\n')
        (tree / f"env/bin/{tool}").chmod(0o755)
    done = call(tree, "dev_build", PYTHON="env/bin/python", BUILD="build/mine")
    assert done.returncode == 0, done.stderr
    configure, build = (tree / "called").read_text().splitlines()
    assert configure.startswith("cmake -S . -B build/mine")
    assert f"-DPython_EXECUTABLE={tree}/env/bin/python" in configure
    assert build == "ninja -C build/mine"
