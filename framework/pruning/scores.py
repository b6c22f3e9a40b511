"""How much channels matter, by their weights alone: what is least is cut first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from framework.errors import AttributeValueError
from framework.pruning.channels import Group

_TINY = 1e-30


def _sizes(filters: np.ndarray) -> np.ndarray:
    """The sum of a filter's absolute weights (Li et al. 2017, section 3.1).  filters: [K, elements]."""
    return np.abs(filters).sum(axis=1)


def _distances(filters: np.ndarray) -> np.ndarray:
    """A filter's distance to all others of its layer, summed: the least are near the geometric median (FPGM, He 2019).

    filters: [K, elements].
    """
    squares = (filters**2).sum(axis=1)
    between = squares[:, None] + squares[None, :] - 2 * filters @ filters.T
    return np.asarray(np.sqrt(np.maximum(between, 0)).sum(axis=1))


CRITERIA: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {"l1": _sizes, "fpgm": _distances, "norm": None}


def scores(group: Group, arrays: Mapping[str, np.ndarray], criterion: str = "l1") -> np.ndarray | None:
    """How much each set of channels of a group matters, float64 [sets]; None where the criterion says nothing.

    Several weights that make the same channels count alike: each one's scores are divided by their mean.

    Args:
        group: of `channels_of`.
        arrays: parameters by name.
        criterion: "l1", "fpgm", or "norm": the size of the factors of the batch norms behind (Liu et al. 2017), which
            says nothing of a group without batch norm.

    Raises:
        AttributeValueError: there is no such criterion.
    """
    if criterion not in CRITERIA:
        raise AttributeValueError(f"prune: criterion is '{criterion}'; takes {', '.join(map(repr, CRITERIA))}")
    measure = CRITERIA[criterion]
    total = np.zeros(len(group.sets))
    places = group.made if measure else [p for p in group.places if p[0].rpartition(".")[2] == "scale"]
    for place in places:
        array = arrays[place[0]].astype(np.float64)
        each = measure(array.reshape(len(array), -1)) if measure else np.abs(array)
        total += _by_set(group, group.places[place], each / max(float(each.mean()), _TINY))
    return total / len(places) if places else None


def _by_set(group: Group, sets: np.ndarray, each: np.ndarray) -> np.ndarray:
    """The mean over the places of each set."""
    own = sets >= 0
    at = np.searchsorted(group.sets, sets[own])
    count = np.bincount(at, minlength=len(group.sets))
    return np.asarray(np.bincount(at, weights=each[own], minlength=len(group.sets)) / np.maximum(count, 1))
