"""Features: sequences of vectors in place of pixels, such as a network's of each second of a video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError, ShapeError


@dataclass(frozen=True)
class Features:
    """One sequence of T steps, with one vector or several a step, by the name of what they tell of.

    Attributes:
        values: float32 [T, D] by name, such as "rgb" and "audio"; T is the same for all.

    Raises:
        ShapeError: a sequence is not [T, D], or they differ in T.
    """

    values: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        shapes = {name: value.shape for name, value in self.values.items()}
        if not shapes or any(len(shape) != 2 for shape in shapes.values()):
            raise ShapeError(f"Features: {shapes}; each must be [T, D], and there must be one at least")
        if len({shape[0] for shape in shapes.values()}) > 1:
            raise ShapeError(f"Features: the sequences differ in length: {shapes}")

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def __getitem__(self, steps: slice | np.ndarray) -> Features:
        """The steps that a slice, or indices, select."""
        return Features({name: value[steps] for name, value in self.values.items()})


def ragged(sequences: Sequence[Features]) -> dict[str, np.ndarray]:
    """Sequences of different length without padding: `values` [total, D] by name, and "offsets" int64 [N + 1].

    Raises:
        DataError: they differ in their names.
    """
    names = list(sequences[0].values)
    for at, sequence in enumerate(sequences):
        if list(sequence.values) != names:
            raise DataError(f"Features: sequence {at} has {', '.join(sequence.values)}, the first {', '.join(names)}")
    offsets = np.cumsum([0, *map(len, sequences)]).astype(np.int64)
    return {name: np.concatenate([s.values[name] for s in sequences]) for name in names} | {"offsets": offsets}
