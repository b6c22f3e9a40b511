"""Axes by their numbers, as the formats of others count them."""

from __future__ import annotations


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis of a tensor of `rank` axes; 0 of one that has none.

    Raises:
        ValueError: there is no such axis.
    """
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} of {rank} axes")
    return axis % rank if rank else 0
