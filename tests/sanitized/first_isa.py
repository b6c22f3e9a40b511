"""A plugin of pytest for `scripts/sanitize`: the tests run on the sanitized build, from a given instruction set on."""

import os
from pathlib import Path

from framework import _core

TREE = Path(__file__).resolve().parents[2]


def pytest_configure() -> None:
    """Look at the build, and choose PADDOCK_FIRST_ISA, where it is given, for all that no test chooses a set for."""
    assert Path(_core.__file__).is_relative_to(TREE), f"{_core.__file__} is not the sanitized build"
    if isa := os.environ.get("PADDOCK_FIRST_ISA"):
        _core.use_isa(isa)
