"""Gradients that a traced function leaves in `grad`, or finds there: inputs and results of its Program.

So `grad` holds after a run what it would hold after the same calls run eagerly, and gradients can be gathered over
runs. One exception saves memory: what an optimizer's step in the Program used is not kept, and asking for it is an
error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.context import gradients
from framework.errors import GradientError
from framework.tensors import USED_UP, Tensor, UsedUp, used_up

if TYPE_CHECKING:
    from framework.graph.ir import Value


@dataclass
class _Gradient:
    """The gradient of one leaf while a function is traced.

    Attributes:
        leaf: whose it is: a tensor from outside, or the stand-in of an argument.
        found: how it was found before it was first set: "" where nobody looked, "none" or "some".
        now: what `grad` holds.
        used: whether an optimizer's step used it.
    """

    leaf: Tensor
    found: str = ""
    now: Tensor | None = None
    used: bool = False


class Gradients:
    """What a trace knows of `grad` of each leaf.

    Args:
        add_input: gives the Program one more input of a tensor's type and a stand-in for it.
    """

    def __init__(self, add_input: Callable[[Tensor], Tensor]) -> None:
        self._add_input = add_input
        self._known: dict[int, _Gradient] = {}
        self._inputs: list[Tensor] = []
        self._stand_ins: list[Tensor] = []

    def begin(self, inputs: Sequence[Tensor], stand_ins: Sequence[Tensor]) -> None:
        """Notes which arguments the function's stand-ins stand for."""
        self._inputs, self._stand_ins = list(inputs), list(stand_ins)

    def get(self, leaf: Tensor) -> Tensor | None:
        """What `leaf.grad` holds at this point of the function."""
        entry = self._known.get(id(leaf))
        if entry is None:
            before = _read(self._outside(leaf))
            entry = _Gradient(leaf, "none") if before is None else _Gradient(leaf, "some", self._add_input(before))
            self._known[id(leaf)] = entry
        return entry.now

    def set(self, leaf: Tensor, value: Tensor | None) -> None:
        """`leaf.grad = value`."""
        entry = self._known.setdefault(id(leaf), _Gradient(leaf))
        entry.now, entry.used = value, False

    def use_up(self, leaves: Sequence[Tensor]) -> None:
        """Says that an optimizer's step used these gradients: they need not leave the Program."""
        for leaf in leaves:
            entry = self._known.get(id(leaf))
            if entry is not None and entry.now is not None:
                entry.used = True

    def _outside(self, leaf: Tensor) -> Tensor:
        return next((t for t, s in zip(self._inputs, self._stand_ins, strict=True) if s is leaf), leaf)

    def border(self, value_of: Callable[[Tensor], Value]) -> tuple[Border, list[Value]]:
        """How gradients cross the Program's border, and the values that leave it."""
        places = {id(s): i for i, s in enumerate(self._stand_ins)}
        lasting = [e for e in self._known.values() if id(e.leaf) in places or e.leaf._data is not None]
        holders = [(_Holder(places.get(id(e.leaf), e.leaf)), e) for e in lasting]
        left = [(h, e.now) for h, e in holders if e.now is not None and not e.used]
        border = Border(
            expected=[(h, e.found == "some") for h, e in holders if e.found],
            results=[h for h, _ in left],
            dropped=[(h, USED_UP if e.used else None) for h, e in holders if e.now is None or e.used],
        )
        return border, [value_of(g) for _, g in left]


@dataclass(frozen=True)
class _Holder:
    """Whose `grad` is meant: a tensor's, or that of an argument of the call, by its number."""

    whose: Tensor | int

    def of(self, arguments: Sequence[Tensor]) -> Tensor:
        """The tensor in a call with these arguments."""
        return self.whose if isinstance(self.whose, Tensor) else arguments[self.whose]


@dataclass(frozen=True)
class Border:
    """Gradients that a Program takes and gives beside its arguments and results.

    Attributes:
        expected: whose gradient was looked at, and whether there was one: it is one more input then.
        results: whose gradient the last results are.
        dropped: whose gradient is gone after a run, and what stands in its place.
    """

    expected: Sequence[tuple[_Holder, bool]] = ()
    results: Sequence[_Holder] = ()
    dropped: Sequence[tuple[_Holder, UsedUp | None]] = ()

    def fits(self, arguments: Sequence[Tensor]) -> bool:
        """Whether gradients are there where they were when the function was traced.

        Raises:
            GradientError: one was used up by an optimizer's step.
        """
        return all((_read(h.of(arguments)) is not None) == there for h, there in self.expected)

    def inputs(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """The gradients that the Program takes."""
        return [g for h, there in self.expected if there and (g := _read(h.of(arguments))) is not None]

    def leave(self, arguments: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Puts the Program's last results where `backward()` leaves gradients.

        An argument that is itself a result has no gradient of its own: that goes on to what the argument came from.
        """
        behind: list[tuple[Tensor, Tensor]] = []
        for holder, g in zip(self.results, results, strict=True):
            t = holder.of(arguments)
            if t.node is None:
                t._grad = g
            else:
                behind.append((t, g))
        for holder, instead in self.dropped:
            holder.of(arguments)._grad = instead
        if behind:
            gradients.backward_from([t for t, _ in behind], [g for _, g in behind])


def _read(leaf: Tensor) -> Tensor | None:
    if leaf._grad is USED_UP:
        raise GradientError(used_up(leaf))
    return leaf._grad  # type: ignore[return-value]
