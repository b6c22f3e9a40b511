"""The text of a tape, as the operator `chain` takes it: element-wise operators applied one after another.

`sigmoid(x0); sub(t0, x1); clip(t1, min=0.0, max=1.0)`: x<i> is input i, t<i> the result of statement i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framework.ops import registry


@dataclass(frozen=True)
class Statement:
    """One application of an operator; `arguments` are the names of values."""

    operator: str
    arguments: tuple[str, ...]
    attrs: dict[str, Any]

    def __str__(self) -> str:
        given = [f"{name}={_text(value)}" for name, value in self.attrs.items()]
        return f"{self.operator}({', '.join([*self.arguments, *given])})"


def tape_text(statements: Sequence[Statement]) -> str:
    """The tape of these statements."""
    return "; ".join(map(str, statements))


def parse_tape(tape: str) -> list[Statement]:
    """The statements of a tape that the operator `chain` accepts: this does not check it again."""
    return [_parse(text.strip()) for text in tape.split(";") if text.strip()]


def _parse(text: str) -> Statement:
    name, _, rest = text.removesuffix(")").partition("(")
    words = [w.strip() for w in rest.split(",") if w.strip()]
    types = {a["name"]: a["type"] for a in registry.OPS[name].attrs}
    pairs = [w.partition("=")[::2] for w in words if "=" in w]
    return Statement(name, tuple(w for w in words if "=" not in w), {k: _value(v, types[k]) for k, v in pairs})


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _value(text: str, kind: str) -> Any:
    return {"bool": lambda: text == "true", "int": lambda: int(text), "float": lambda: float(text)}.get(
        kind, lambda: text
    )()
