"""What tests of the core share: each instruction set in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework import _core


@pytest.fixture(params=_core.supported_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """An instruction set of this machine, active for the test."""
    before = _core.active_isa()
    _core.use_isa(request.param)
    yield request.param
    _core.use_isa(before)
