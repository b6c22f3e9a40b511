"""What an evaluation set of clicks shares with the training set: later times, the same groups, the same rows."""

from __future__ import annotations

import numpy as np

from suites.ctr.datasets.clicks import Clicks
from suites.engine.data.copies import copies_text

_PRIME = np.uint64(0x9E3779B185EBCA87)


def leaks(train: Clicks, held: Clicks) -> list[str]:
    """A sentence for each way in which training knows what an evaluation is asked; none where it knows nothing.

    `paddock data check`, the log of a run and its report say these.

    Args:
        train: rows that are learned from.
        held: rows that are evaluated on.
    """
    found = (_by_time(train.time, held.time), _by_group(train.group, held.group), _by_row(train, held))
    return [said for said in found if said]


def row_digests(clicks: Clicks) -> np.ndarray:
    """uint64 [N] of all that is read of a row, its labels too; equal rows have equal ones."""
    parts = [clicks.sparse.view(np.uint64), clicks.dense.view(np.uint32).astype(np.uint64)]
    parts += [part.view(np.uint64)[:, None] for part in (clicks.group, clicks.time) if part is not None]
    parts += [part.view(np.uint32).astype(np.uint64).reshape(len(clicks), -1) for part in _floats(clicks)]
    found = np.zeros(len(clicks), np.uint64)
    for part in parts:
        for column in part.T:
            found = _mixed(found, column)
    for values, offsets in clicks.ragged.values():
        found = _mixed(found, _of_lists(values, offsets))
    return found


def repeated_rows(clicks: Clicks) -> np.ndarray:
    """Places of rows that equal an earlier one in all that is read."""
    _, first = np.unique(row_digests(clicks), return_index=True)
    return np.setdiff1d(np.arange(len(clicks)), first)


def _floats(clicks: Clicks) -> list[np.ndarray]:
    return [np.ascontiguousarray(part) for part in (clicks.labels, clicks.weight) if part is not None]


def _mixed(found: np.ndarray, column: np.ndarray) -> np.ndarray:
    mixed = (found ^ column) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


def _of_lists(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A digest of each list, by the values and their places in it."""
    lengths = np.diff(offsets)
    places = (np.arange(len(values)) - np.repeat(offsets[:-1], lengths)).astype(np.uint64)
    each = _mixed(values.view(np.uint64), (places + np.uint64(1)) * _PRIME)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
    return sums[offsets[1:]] - sums[offsets[:-1]] + lengths.astype(np.uint64)


def _by_row(train: Clicks, held: Clicks) -> str:
    shared = int(np.isin(row_digests(held), row_digests(train)).sum())
    if not shared:
        return ""
    return f"{copies_text(shared, 'the evaluation rows', 'the training rows')}, in all that the schema reads"


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
