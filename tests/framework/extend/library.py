"""Compiles libraries of operators with the system's compiler, against the installed headers only."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "custom_operator"


def compile_library(source: str, folder: Path, name: str, *flags: str) -> Path:
    """Compiles C++ text as a user does, in a folder outside of the tree; skips where there is no compiler."""
    compiler = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    (folder / f"{name}.cc").write_text(source)
    root = str(EXAMPLE.parents[1])
    printed = subprocess.run(
        [sys.executable, "-m", "framework.extend"], cwd=root, capture_output=True, text=True, check=True
    )
    own = [f for f in shlex.split(printed.stdout) if f != "-O2"]
    library = folder / f"lib{name}.so"
    made = subprocess.run(
        [compiler, f"{name}.cc", "-O0", "-Wall", "-Werror", "-o", str(library), *own, *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    return library


def text(*operators: str) -> str:
    """C++ text with the header and some operators."""
    return '#include "paddock/operator.h"\nusing namespace paddock;\n' + "\n".join(operators)
