"""What an evaluation set of clicks shares with the training set: later times, the same groups, the same rows."""

from __future__ import annotations

import numpy as np

from suites.ctr.clicks import Clicks


def leaks(train: Clicks, held: Clicks) -> list[str]:
    """A sentence for each way in which training knows what an evaluation is asked; none where it knows nothing.

    Args:
        train: rows that are learned from.
        held: rows that are evaluated on.
    """
    return [said for said in (_by_time(train.time, held.time), _by_group(train.group, held.group)) if said]


def _by_time(train: np.ndarray | None, held: np.ndarray | None) -> str:
    if train is None or held is None or not len(train) or not len(held):
        return ""
    later = int((train > held.min()).sum())
    if not later:
        return ""
    return (
        f"{later / len(train):.0%} of the training rows are later than the first evaluation row, so the figures are "
        "not those of predicting the future; rows: {type: TimeSpan, ...} divides by time"
    )


def _by_group(train: np.ndarray | None, held: np.ndarray | None) -> str:
    if train is None or held is None:
        return ""
    groups = np.unique(held)
    shared = int(np.isin(groups, train).sum())
    if not shared:
        return ""
    return (
        f"{shared} of {len(groups)} groups of the evaluation rows are in the training rows too, so the figures are not "
        "those of new groups"
    )
