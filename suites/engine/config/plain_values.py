"""From objects back to what a config would say of them: the inverse of building."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import ConfigError
from suites.engine.config.schema.factory import Factory
from suites.engine.recording import given
from suites.engine.registry import REGISTRY, Registry


def plain(value: Any, *, suite: str | None = None, registry: Registry = REGISTRY) -> Any:
    """Plain data from which `build_value` makes `value` again: `{"type": "Resize", "size": 320}` of a `Resize(320)`.

    Args:
        value: objects of registered classes, factories, dataclasses, numbers, texts, and lists and mappings of them.
        suite: whose names count besides the shared ones.
        registry: where classes are looked up.

    Raises:
        ConfigError: something is of a class that is not registered; the message names it.
    """
    seen = registry if suite is None else registry.seen_by(suite)
    return _plain(value, seen)


def _plain(value: Any, registry: Registry) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(item, registry) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, registry) for item in value]
    if isinstance(value, Factory):
        return _component(value.target, value.arguments, registry)
    name = registry.name_of(type(value))
    if name is None and dataclasses.is_dataclass(value):
        fields = (f.name for f in dataclasses.fields(value) if f.init)
        return {field: _plain(getattr(value, field), registry) for field in fields}
    return _component(type(value), given(value), registry)


def _component(target: Any, arguments: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    name = registry.name_of(target)
    if name is None:
        raise ConfigError(
            f"config: {getattr(target, '__qualname__', target)} is not registered, so no config can name it; put "
            "@register(ROLE, suite=SUITE) before it"
        )
    return {"type": name, **{key: _plain(item, registry) for key, item in arguments.items()}}
