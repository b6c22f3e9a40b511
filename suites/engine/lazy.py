"""A suite's package whose public names are imported when somebody asks for them, so that a command starts at once."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from suites.engine.names import did_you_mean


def components(suite: str, data: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a suite's package: every class that its configs can name, and its task.

    >>> __getattr__, __dir__ = components("detection", data="suites.vision.settings")       # doctest: +SKIP

    Args:
        suite: its name.
        data: the module of its `TrainData` and `EvalData`.
    """

    others = ("EvalData", "TrainData")

    def known() -> dict[str, Any]:
        from suites.engine.registry import REGISTRY, load_suites

        load_suites([suite])
        seen = REGISTRY.seen_by(suite)
        parts = [(name, seen.get(role, name)) for role in seen.roles() for name in seen.names(role)]
        # Functions under another name are the engine's to call, such as a translator of configs.
        return {part.__name__: part for name, part in parts if isinstance(part, type) or part.__name__ == name}

    def get(name: str) -> Any:
        if name in others:
            return getattr(importlib.import_module(data), name)
        if name.startswith("_") or importlib.util.find_spec(f"suites.{suite}.{name}") is not None:
            raise AttributeError(f"module 'suites.{suite}' has no attribute {name!r}")  # a module: the import goes on
        found = known()
        if name not in found:
            raise AttributeError(f"suite {suite!r} has no {name!r}{did_you_mean(name, found) or '.'}")
        return found[name]

    return get, lambda: sorted({*others, *known()})
