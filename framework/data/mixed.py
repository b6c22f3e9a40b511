"""Mixed: several data sets as one, each with its share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from framework.data.dataset import Dataset, RandomDataset, describe
from framework.errors import AttributeValueError


class Mixed:
    """Samples of several data sets, in fixed shares of every epoch.

    Which data set an index draws from depends on the index alone; which of its samples, on the draw. So a small data
    set is repeated and a large one is seen in parts, another one each epoch.

    Args:
        parts: the data sets.
        weights: their shares, in any unit; None for as many samples as each has.
        size: samples of an epoch; None for those of all data sets together.

    Raises AttributeValueError for weights that do not fit, or an empty data set.
    """

    def __init__(
        self,
        parts: Sequence[Dataset | RandomDataset],
        weights: Sequence[float] | None = None,
        size: int | None = None,
    ) -> None:
        self._parts = list(parts)
        lengths = [len(part) for part in parts]
        shares = np.array(lengths if weights is None else weights, np.float64)
        if not lengths or min(lengths) < 1 or len(shares) != len(lengths) or not (shares > 0).all():
            raise AttributeValueError(
                f"Mixed: data sets of {lengths} samples with weights {shares.tolist()}; each needs a sample or "
                "more and a weight above 0"
            )
        total = sum(lengths) if size is None else size
        # Sample i belongs to the part in whose share of [0, total) it lies.
        self._ends = np.round(np.cumsum(shares) / shares.sum() * total).astype(np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def part_of(self, index: int) -> int:
        """Number of the data set that sample `index` is drawn from."""
        return int(np.searchsorted(self._ends, index, side="right"))

    def sample(self, index: int, rng: np.random.Generator) -> Any:
        """A sample of the data set of `index`."""
        part = self._parts[self.part_of(index)]
        place = int(rng.integers(len(part)))
        draw = getattr(part, "sample", None)
        return part[place] if draw is None else draw(place, rng)  # type: ignore[index]

    def name_of(self, index: int) -> str:
        """The data set, for messages."""
        part = self.part_of(index)
        return f"drawn from data set {part}, which begins with {describe(self._parts[part], 0)}"
