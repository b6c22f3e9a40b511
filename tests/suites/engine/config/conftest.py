"""Fixtures that write and load configs of the small world in `world.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from suites.engine.config import Config, Rules, load_config
from suites.engine.registry import Registry
from tests.suites.engine.config.world import make_registry


@pytest.fixture
def registry() -> Registry:
    return make_registry()


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Write files of a config folder, which is also the working folder; gives the path of the last one."""
    monkeypatch.chdir(tmp_path)

    def write_files(**files: str) -> Path:
        path = tmp_path
        for name, text in files.items():
            path = tmp_path / f"{name}.yml"
            path.write_text(dedent(text))
        return path

    return write_files


@pytest.fixture
def load(write: Callable[..., Path], registry: Registry, rules: Rules) -> Callable[..., Config]:
    """Load config text (named x.yml in errors) or, with files=, several files of which the last is loaded."""

    def load_text(text: str = "", *overrides: str, check: bool = True, **files: str) -> Config:
        path = write(**files) if files else write(x=text)
        return load_config(path, overrides, check=check, registry=registry, rules=rules)

    return load_text
