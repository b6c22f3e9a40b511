"""Which ONNX operators an export writes for each of ours.

Found by looking through the functions of the exporters' table, so that the reference pages cannot fall behind it. The
package `onnx` is not needed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from framework.onnx import exporters as exporters  # fills EXPORTERS
from framework.onnx import operators as operators  # fills the table of ONNX's names
from framework.onnx.registry import known
from framework.onnx.writer import EXPORTERS


def written_as(operator: str) -> list[str]:
    """ONNX operators that `export` may write for one of ours, in the order of its code; none where it refuses."""
    exporter = EXPORTERS.get(operator)
    if exporter is None:
        return []
    names = {name for _, name in known()}
    found = [t for f in _functions(exporter) for t in _texts(f, operator) if t in names]
    return list(dict.fromkeys(found))


def _functions(exporter: Callable[..., Any]) -> Iterator[FunctionType]:
    """An exporter, the functions that it closes over, and those of the exporters that it mentions."""
    pending: list[Any] = [exporter]
    seen: set[FunctionType] = set()
    while pending:
        f = pending.pop(0)
        if not isinstance(f, FunctionType) or f in seen:
            continue
        seen.add(f)
        yield f
        pending += [c.cell_contents for c in f.__closure__ or ()]
        named = [f.__globals__.get(name) for code in _codes(f.__code__) for name in code.co_names]
        pending += [g for g in named if isinstance(g, FunctionType) and g.__module__.startswith(exporters.__name__)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _texts(f: FunctionType, operator: str) -> Iterator[str]:
    """Texts in a function, in what it closes over, and in tables by operator that it mentions."""
    yield from (c.cell_contents for c in f.__closure__ or () if isinstance(c.cell_contents, str))
    for code in _codes(f.__code__):
        tables = [f.__globals__.get(name) for name in code.co_names]
        yield from (t[operator] for t in tables if isinstance(t, dict) and isinstance(t.get(operator), str))
        yield from _texts_in(code.co_consts)


def _texts_in(value: Any) -> Iterator[str]:
    """Texts in nested tuples, in order."""
    if isinstance(value, str):
        yield value
    for item in value if isinstance(value, tuple) else ():
        yield from _texts_in(item)
