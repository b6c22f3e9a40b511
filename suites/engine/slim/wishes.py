"""What `paddock slim prune` was asked for, as its command line says it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class Wishes:
    """What is to stay of a model; each pruner takes what means something for its kind of model.

    Attributes:
        width: share of the width that stays.
        heads, neurons: the same of one kind of parts alone.
        layers: how many layers stay, or which, as it was written; None for all.
        batches: by which importance is measured; None for the pruner's own number.
        macs, time: share of the multiply-adds, or of the time measured here, that stays.
        by: how channels are shared out among layers, "uniform" or "sensitivity".
        criterion: which channels go, a name of `framework.pruning.CRITERIA`.
        multiple: of which widths are, where layers are wide enough.
        keep: patterns of names of weights whose channels stay.
        threads: that compute while times are taken.
    """

    width: float | None = None
    heads: float | None = None
    neurons: float | None = None
    layers: str | None = None
    batches: int | None = None
    macs: float | None = None
    time: float | None = None
    by: str | None = None
    criterion: str | None = None
    multiple: int | None = None
    keep: tuple[str, ...] = ()
    threads: int = 1

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise AttributeValueError where one of these was asked for."""
        defaults = {field.name: field.default for field in fields(self)}
        given = [f"--{name}" for name in names if getattr(self, name) != defaults[name]]
        if given:
            raise AttributeValueError(f"prune: {', '.join(given)} {why}")
