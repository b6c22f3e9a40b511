"""Samples of one size into the arrays of a batch, with boxes padded to a common count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.detection.sample import Sample
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.pose import outside
from suites.vision.structures import ImageList, Instances, runs_of

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


def padded_size(sample: Sample, padded_to: int | None) -> tuple[int, int]:
    """(H, W) of a sample that stands alone in its batch; see `collate`."""
    multiple = padded_to or 1
    height, width = (-(-side // multiple) * multiple for side in sample.size)
    return height, width


def collate(
    samples: Sequence[Sample],
    multiple: int = BOXES_MULTIPLE,
    padded_to: int | None = None,
    masks: bool = False,
    landmarks: int = 0,
) -> dict[str, Any]:
    """The batch of some samples; crowd regions stand behind the objects, marked, as they are no training targets.

    Args:
        samples: N of them.
        multiple: Of boxes an image.
        masks: Whether the objects' shapes are wanted.
        landmarks: L, how many points of each object are wanted.
        padded_to: Images are padded to the largest, with sides that are multiples of this. None asks for images of
            one size.

    Returns:
        Arrays by name; N samples, M the largest count of boxes, rounded up to a multiple of `multiple`:
        images [N, H, W, 3], float32 or uint8 as the samples have it, and sizes int64 [N, 2], the true (H, W) of each;
        boxes float32 [N, M, 4], classes int64 [N, M] and scores float32 [N, M], all 0 where a row has no box;
        ignored bool [N, M], the crowd regions, whose score is 0; counts int64 [N], the objects of each row;
        image_ids int64 [N]; original_sizes int64 [N, 2], (H, W); placements float64 [N, 4], where
        the original images lie; with `masks`, mask_runs int32 [T] and mask_offsets int64 [N * M + 1], see
        `MaskTargets`; with `landmarks`, landmarks float32 [N, M, L, 3], (x, y, visible), all 0 of objects without.

    Raises:
        DataError: The images differ in size or type, or an object has no mask where masks are wanted.
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
    kept = [_crowd_last(sample.instances) for sample in samples]
    width = max(1, -(-max(len(instances) for instances in kept) // multiple)) * multiple
    fill = partial(_padded, count=width)
    batch = {
        "images": listed.images,
        "sizes": listed.sizes,
        "boxes": fill([instances.boxes.array for instances in kept]),
        "classes": fill([instances.classes for instances in kept]),
        "scores": fill([instances.scores for instances in kept]),
        "ignored": fill([instances.crowd for instances in kept]),
        "counts": np.array([(~instances.crowd).sum() for instances in kept], np.int64),
        "image_ids": np.array([sample.image_id for sample in samples], np.int64),
        "original_sizes": np.array([sample.original_size for sample in samples], np.int64),
        "placements": np.array([sample.placement for sample in samples], np.float64),
    }
    if landmarks:
        pairs = zip(samples, kept, strict=True)
        batch["landmarks"] = fill([_points(instances, landmarks, sample.size) for sample, instances in pairs])
    return batch | _mask_runs(samples, kept, width) if masks else batch


def _points(instances: Instances, count: int, size: tuple[int, int]) -> np.ndarray:
    """The landmarks [M, count, 3] of objects in a picture of `size` (H, W).

    Zeros, not visible, of objects that have none, and of points outside of the picture, where a crop has put them.
    """
    points = instances.keypoints
    if points is None:
        return np.zeros((len(instances), count, 3), np.float32)
    if points.shape[1] != count:
        raise DataError(f"collate: objects have {points.shape[1]} landmarks, the network learns {count}")
    away = outside(points, np.broadcast_to(size, (len(points), 2)))
    return np.where(away[..., None], 0, points).astype(np.float32)


def _crowd_last(instances: Instances) -> Instances:
    if not instances.crowd.any():
        return instances
    ordered = instances[np.argsort(instances.crowd, kind="stable")]
    return replace(ordered, scores=np.where(ordered.crowd, np.float32(0), ordered.scores))


def _mask_runs(samples: Sequence[Sample], kept: Sequence[Instances], width: int) -> dict[str, np.ndarray]:
    """The shapes of all objects as `MaskTargets` wants them; crowd regions and padding have none."""
    runs: list[np.ndarray] = []
    lengths = np.zeros((len(kept), width), np.int64)
    for at, (sample, instances) in enumerate(zip(samples, kept, strict=True)):
        objects = instances[~instances.crowd]
        if not len(objects):
            continue
        if objects.masks is None:
            raise DataError(
                f"collate: image {sample.image_id} has objects without masks, which this network learns from; "
                "use a data set and transforms that keep them (CocoDetection with masks: true)"
            )
        found = [runs_of(code) for code in objects.masks.codes()]
        lengths[at, : len(found)] = [len(each) for each in found]
        runs += found
    total = int(lengths.sum())
    padded = np.zeros(_rounded(total), np.int32)
    if runs:
        padded[:total] = np.concatenate(runs)
    ends = np.cumsum(lengths.reshape(-1))
    ends[-1] = len(padded)  # runs without pixels, behind those of the last object
    return {"mask_runs": padded, "mask_offsets": np.concatenate([[0], ends])}


def _rounded(count: int) -> int:
    """`count` rounded up in steps of an eighth or less, so that few different lengths are planned for."""
    step = max(1024, 1 << max(0, count.bit_length() - 4))
    return max(1, -(-count // step)) * step


def _padded(rows: list[np.ndarray], count: int) -> np.ndarray:
    """Arrays [M_i, ...] as one [N, count, ...], zeros behind each."""
    out = np.zeros((len(rows), count, *rows[0].shape[1:]), rows[0].dtype)
    for place, row in zip(out, rows, strict=True):
        place[: len(row)] = row
    return out
