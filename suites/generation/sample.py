"""The noun of the suite: a picture, its class, and the picture that belongs to it.

Letters: N pictures, H W their size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.vision.geometry import Move
from suites.vision.sample import ImageSample


@dataclass(frozen=True, kw_only=True)
class Picture(ImageSample):
    """A picture.

    Attributes:
        image: uint8 RGB [H, W, 3].
        other: a picture of the other kind, uint8 RGB [H, W, 3]; None where there is one kind.
        label: its class.
        number: in its data set.
        name: the file, for messages.
        counts: whether `image` and `other` count in figures; of two kinds the shorter one is gone through again.
    """

    other: np.ndarray | None = None
    label: int = 0
    number: int = 0
    name: str = ""
    counts: tuple[bool, bool] = (True, True)

    def belongings(self, by: Move) -> dict[str, Any]:
        """The other picture, moved alike."""
        return {} if self.other is None else {"other": by.image(self.other)}

    def reclassed(self, classes: Mapping[int, int]) -> Picture:
        """The sample; classes never change."""
        return self


def to_array(picture: np.ndarray) -> np.ndarray:
    """Uint8 to float32 in [-1, 1]."""
    return picture.astype(np.float32) / np.float32(127.5) - np.float32(1)


def to_picture(array: np.ndarray) -> np.ndarray:
    """Float32 in [-1, 1] to uint8; what lies outside is cut."""
    return ((np.asarray(array) + 1) * 127.5).round().clip(0, 255).astype(np.uint8)


def collate(samples: Sequence[Picture], size: tuple[int, int] | None = None) -> Batch:
    """Pictures as a batch; `size` is the (H, W) that they must have, None for any.

    Returns:
        `images` float32 [N, H, W, 3] in [-1, 1]; `others` likewise where there are some; `labels` and `numbers` int64
        [N]; `counts` bool [N, 2], see `Picture`; the list `name`.

    Raises:
        DataError: pictures differ in size, or are of another size than the model's.
    """
    wanted = size or samples[0].size
    for sample in samples:
        for picture in (sample.image, sample.other):
            if picture is not None and picture.shape[:2] != wanted:
                raise DataError(
                    f"{sample.name}: the transforms make {picture.shape[0]}x{picture.shape[1]} of it, but "
                    f"{'model.size' if size else 'the first of the batch'} is {wanted[0]}x{wanted[1]} "
                    "(height x width); end the transforms with Resize of that size"
                )
    batch = {
        "images": np.stack([to_array(sample.image) for sample in samples]),
        "labels": np.array([sample.label for sample in samples], np.int64),
        "numbers": np.array([sample.number for sample in samples], np.int64),
        "counts": np.array([sample.counts for sample in samples]),
        "name": [sample.name for sample in samples],
    }
    if samples[0].other is not None:
        batch["others"] = np.stack([to_array(s.other) for s in samples if s.other is not None])
    return batch
