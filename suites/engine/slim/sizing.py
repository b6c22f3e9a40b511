"""How many channels of each group stay: an even share, or by what the loss bears, down to a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError
from framework.pruning import Group

LEAST = 0.1  # share of each group that a budget leaves at least
SHARES = (0.25, 0.5, 0.75, 1 - LEAST)  # of a group that are cut to see what the loss bears
_STEPS = 30  # of the search for a budget that costs no measurement
_NEAR = 0.01  # a budget is met when it is undercut by so little


@dataclass(frozen=True)
class Ranked:
    """A group whose channels are in order.

    Attributes:
        group: the channels.
        order: its sets, least important first.
    """

    group: Group
    order: np.ndarray

    def cut(self, share: float, multiple: int) -> set[int]:
        """The sets to cut so that about `share` of them stays, and always one."""
        count = len(self.order)
        stay = max(1, round(count * share))
        if count >= 4 * multiple:
            stay = min(count, max(multiple, round(count * share / multiple) * multiple))
        return set(self.order[: count - stay].tolist())


def evenly(ranked: Sequence[Ranked], share: float, multiple: int) -> set[int]:
    """The sets to cut so that the same share of every group stays."""
    return set[int]().union(*(one.cut(share, multiple) for one in ranked))


def by_losses(
    ranked: Sequence[Ranked], losses: Mapping[str, Sequence[float]], bearable: float, multiple: int
) -> set[int]:
    """The sets to cut so that no group alone makes the loss grow by more than `bearable`.

    Args:
        ranked: the groups.
        losses: by a group's name how much the loss grows without `SHARES` of it.
        bearable: 0 or more.
        multiple: of which widths are.
    """
    cut: set[int] = set()
    for one in ranked:
        grown = np.maximum.accumulate([0.0, *losses[one.group.name]])
        grown = grown + np.arange(len(grown)) * 1e-12  # rising, to read it backwards
        share = float(np.interp(bearable, grown, [0.0, *SHARES]))
        cut |= one.cut(1 - share, multiple)
    return cut


def meet(
    wanted: float,
    cut_at: Callable[[float], set[int]],
    measure: Callable[[set[int]], float],
    name: str,
    *,
    steps: int = _STEPS,
) -> set[int]:
    """The sets to cut so that what is measured is at most `wanted`, and not much less.

    Args:
        wanted: share of what the whole network has.
        cut_at: the sets by strength, from 0 (none) to 1 (as many as may be).
        measure: that share without some sets.
        name: of the budget, for the error.
        steps: of the search.

    Raises:
        AttributeValueError: as many as may be are not enough.
    """
    best = cut_at(1.0)
    reached = measure(best)
    if reached > wanted:
        raise AttributeValueError(
            f"prune: --{name} {wanted:g} cannot be reached: with a tenth of each layer that can be narrower it is "
            f"{reached:.2f}; ask for more, or cut other layers too (--keep)"
        )
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        cut = cut_at(middle)
        share = measure(cut)
        if share <= wanted:
            best, high = cut, middle
            if share > wanted - _NEAR:
                break
        else:
            low = middle
    return best
