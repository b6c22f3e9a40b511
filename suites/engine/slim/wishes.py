"""What `paddock slim prune` was asked for, as its command line says it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wishes:
    """What is to stay of a model; each pruner takes what means something for its kind of model.

    Attributes:
        width: share of the width that stays.
        heads, neurons: the same of one kind of parts alone.
        layers: how many layers stay, or which, as it was written; None for all.
        batches: of the evaluation set, to measure importance by; None for all.
    """

    width: float | None = None
    heads: float | None = None
    neurons: float | None = None
    layers: str | None = None
    batches: int | None = None
