"""Samples of one size into the arrays of a batch, with boxes padded to a common count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.detection.sample import Sample
from suites.engine.registry import register
from suites.vision.pipeline import BatchTransform, Transform
from suites.vision.structures import ImageList

BOXES_MULTIPLE = 16  # box counts are rounded up to it, so that few different shapes are planned for


@register("batch_transform")
class Each(BatchTransform):
    """Applies a transform to each sample of a batch: `Normalize` after `RandomShape`, for example.

    Args:
        transform: What is applied.
    """

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __call__(self, samples: list[Sample], rng: np.random.Generator) -> list[Sample]:
        """Returns the changed samples."""
        return [self._transform(sample, rng) for sample in samples]


def collate(samples: Sequence[Sample], multiple: int = BOXES_MULTIPLE, padded_to: int | None = None) -> dict[str, Any]:
    """The batch of some samples; crowd boxes are left out, as they are no training targets.

    Args:
        samples: N of them.
        multiple: Of boxes an image.
        padded_to: For a network that takes images of different size in a batch: they are padded to the largest, with
            sides that are multiples of this. None asks for images of one size.

    Returns:
        Arrays by name; N samples, M the largest count of boxes, rounded up to a multiple of `multiple`:
        images [N, H, W, 3], float32 or uint8 as the samples have it, and sizes int64 [N, 2], the true (H, W) of each;
        boxes float32 [N, M, 4], classes int64
        [N, M] and scores float32 [N, M], all 0 where a row has no box; counts int64 [N], the boxes of each row;
        image_ids int64 [N]; original_sizes int64 [N, 2], (H, W); placements float64 [N, 4], where
        the original images lie.

    Raises:
        DataError: The images differ in size or type.
    """
    images = [sample.image for sample in samples]
    for sample in samples if padded_to is None else ():
        if sample.image.shape != images[0].shape or sample.image.dtype != images[0].dtype:
            raise DataError(
                f"collate: image {sample.image_id} is {sample.image.dtype} {list(sample.image.shape)} but the first "
                f"of the batch is {images[0].dtype} {list(images[0].shape)}; end the transforms with Resize or "
                "Letterbox, or use RandomShape"
            )
    listed = ImageList.of(images, padded_to or 1)
    kept = [sample.instances[~sample.instances.crowd] for sample in samples]
    counts = np.array([len(instances) for instances in kept], np.int64)
    width = max(1, -(-int(counts.max()) // multiple)) * multiple
    fill = partial(_padded, count=width)
    return {
        "images": listed.images,
        "sizes": listed.sizes,
        "boxes": fill([instances.boxes.array for instances in kept]),
        "classes": fill([instances.classes for instances in kept]),
        "scores": fill([instances.scores for instances in kept]),
        "counts": counts,
        "image_ids": np.array([sample.image_id for sample in samples], np.int64),
        "original_sizes": np.array([sample.original_size for sample in samples], np.int64),
        "placements": np.array([sample.placement for sample in samples], np.float64),
    }


def _padded(rows: list[np.ndarray], count: int) -> np.ndarray:
    """Arrays [M_i, ...] as one [N, count, ...], zeros behind each."""
    out = np.zeros((len(rows), count, *rows[0].shape[1:]), rows[0].dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out
