"""Feature sequences as samples, and batches of them laid end to end.

Letters: N samples, T rows of a sample or of a batch, C columns, L labels of a sample, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import Transform
from suites.vision.recognition.sample import targets_of


@dataclass(frozen=True, kw_only=True)
class FeatureSequence:
    """What networks say of the frames of a clip, with the classes it shows.

    Attributes:
        features: float32 [T, C] of each modality; all have the same T, 1 or more.
        labels: int64 [L], from 0 to K - 1.
        weights: float32 [L], their shares.
        name: the clip, for messages.
        number: see `Labelled`.
    """

    features: Mapping[str, np.ndarray]
    labels: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    weights: np.ndarray = field(default_factory=lambda: np.ones(1, np.float32))
    name: str = ""
    number: int = -1

    @property
    def rows(self) -> int:
        """T."""
        return len(next(iter(self.features.values())))


def collate_sequences(samples: Sequence[FeatureSequence], num_classes: int) -> dict[str, Any]:
    """The batch of some samples.

    Returns:
        Arrays by name: each modality, float32 [T, C]; "offsets" int64 [N + 1]; "targets" float32 [N, K]; "labels" int64
        [N], the first of each, -1 where it has none; "numbers" int64 [N]; and the list "name".

    Raises:
        DataError: the samples differ in what their rows hold.
    """
    first = {name: rows.shape[1] for name, rows in samples[0].features.items()}
    for sample in samples:
        found = {name: rows.shape[1] for name, rows in sample.features.items()}
        if found != first:
            raise DataError(f"collate: {sample.name} has features {found} but the first of the batch {first}")
    joined = {name: np.concatenate([sample.features[name] for sample in samples]) for name in first}
    return {
        **joined,
        "offsets": np.cumsum([0, *(sample.rows for sample in samples)], dtype=np.int64),
        **targets_of(samples, num_classes),
    }


@register("transform")
@dataclass(frozen=True)
class SampleRows(Transform):
    """Takes `count` rows of a sequence: the middle of each of as many equal parts, or a random one. Shorter ones stay.

    Args:
        count: rows at most.
        random: draw the row of each part; in training only.
    """

    count: int
    random: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise AttributeValueError(f"SampleRows: count is {self.count}; it must be 1 or more")

    def __call__(self, sample: FeatureSequence, rng: np.random.Generator) -> FeatureSequence:
        """The shortened sequence."""
        if sample.rows <= self.count:
            return sample
        place = rng.random(self.count) if self.random else 0.5
        rows = ((np.arange(self.count) + place) * sample.rows / self.count).astype(np.int64)
        return replace(sample, features={name: values[rows] for name, values in sample.features.items()})
