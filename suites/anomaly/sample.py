"""The noun of the suite: a picture, whether it is good, and where it is not.

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

IGNORE = 255  # of a mask: borders that transforms add


@dataclass(frozen=True, kw_only=True)
class Inspectable(ImageSample):
    """A picture that is good or has a defect.

    Attributes:
        image: RGB [H, W, 3]: uint8 from a data set, float32 after `Normalize`.
        mask: uint8 [H, W], 1 where the defect is; all 0 of a good picture, and where nobody says.
        label: 1 of a picture with a defect, else 0.
        number: in its data set.
        name: the file, for messages.
        original: (H, W) of the file.
    """

    mask: np.ndarray
    label: int = 0
    number: int = 0
    name: str = ""
    original: tuple[int, int] = (0, 0)

    def belongings(self, by: Move) -> dict[str, Any]:
        """The mask, moved; borders are to be ignored."""
        return {"mask": by.labels(self.mask, IGNORE)}

    def reclassed(self, classes: Mapping[int, int]) -> Inspectable:
        """The sample; good and bad never change places."""
        return self


def collate(samples: Sequence[Inspectable], size: tuple[int, int] | None = None) -> Batch:
    """Pictures as a batch; `size` is the (H, W) that they must have, None for any.

    Returns:
        `images` [N, H, W, 3]; `masks` uint8 [N, H, W], 1 of defects, `IGNORE` of borders; `labels` int64 [N]; `numbers`
        int64 [N] in their set; `placements` [N, 4] and `originals` [N, 2], (H, W) of the files; the list `name`.

    Raises:
        DataError: the pictures differ in size or type, or are of another size than the model.
    """
    first = samples[0].image
    for sample in samples:
        if sample.image.shape != first.shape or sample.image.dtype != first.dtype:
            raise DataError(
                f"collate: {sample.name} is {sample.image.dtype} {list(sample.image.shape)} but the first of the batch "
                f"{first.dtype} {list(first.shape)}; end the transforms with Resize, then Normalize"
            )
    if size is not None and first.shape[:2] != size:
        raise DataError(
            f"{first.shape[0]}x{first.shape[1]} is what the transforms make of {samples[0].name}, but model.size is "
            f"{size[0]}x{size[1]} (height x width); let Resize have the same size"
        )
    return {
        "images": np.stack([sample.image for sample in samples]),
        "masks": np.stack([sample.mask for sample in samples]),
        "labels": np.array([sample.label for sample in samples], np.int64),
        "numbers": np.array([sample.number for sample in samples], np.int64),
        "placements": np.array([sample.placement for sample in samples], np.float64),
        "originals": np.array([sample.original for sample in samples], np.int64),
        "name": [sample.name for sample in samples],
    }
