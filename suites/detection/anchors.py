"""Anchors for a data set: k-means over box sizes with the distance 1 - IoU (Redmon & Farhadi, YOLO9000, 2017)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.detection.sample import GroundTruth


class AnchorFit(NamedTuple):
    """How well anchors cover boxes: mean over boxes of the best shape IoU, and the share with at least 0.5."""

    mean_iou: float
    recall: float


def box_sizes(truth: GroundTruth, size: int | tuple[int, int] | None = None, keep_ratio: bool = False) -> np.ndarray:
    """Widths and heights [T, 2] in pixels of all boxes that are no crowd regions.

    Args:
        truth: Of any detection data set.
        size: (H, W), or the side of a square, that images are resized to; None leaves them.
        keep_ratio: Whether they are fitted into `size` (Letterbox) rather than stretched (Resize).

    Raises:
        DataError: There is no such box.
    """
    sides = truth.boxes[:, 2:] - truth.boxes[:, :2]
    if size is not None:
        target = np.array([size, size] if isinstance(size, int) else size, np.float64)
        scale = target / truth.sizes  # [I, 2], of height and width
        if keep_ratio:
            scale = np.broadcast_to(scale.min(axis=1, keepdims=True), scale.shape)
        sides = sides * scale[truth.owners()][:, ::-1]
    sides = sides[~truth.crowd]
    if not len(sides):
        raise DataError("anchors: the data set has no boxes to take sizes from")
    return sides


def shape_iou(sides: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """IoU [T, A] of sizes [T, 2] with anchors [A, 2], all with one common centre."""
    inner = np.minimum(sides[:, None], anchors[None]).prod(axis=2)
    return inner / (sides.prod(axis=1)[:, None] + anchors.prod(axis=1)[None] - inner)


def fit(sides: np.ndarray, anchors: np.ndarray) -> AnchorFit:
    """How well `anchors` [A, 2] cover box sizes [T, 2]."""
    best = shape_iou(sides, anchors).max(axis=1)
    return AnchorFit(float(best.mean()), float((best >= 0.5).mean()))


def kmeans_anchors(sides: np.ndarray, count: int, seed: int = 0, restarts: int = 5, rounds: int = 100) -> np.ndarray:
    """Anchors [count, 2] (width, height), sorted by area, for box sizes [T, 2].

    k-means++ chooses the start; of several starts the one with the best mean IoU wins.

    Raises:
        AttributeValueError: `count` is below 1, or above the number of different sizes.
    """
    distinct = len(np.unique(sides, axis=0))
    if not 1 <= count <= distinct:
        raise AttributeValueError(
            f"anchors: {count} anchors were asked for; the boxes have {distinct} different sizes, so 1 to {distinct}"
        )
    rng = np.random.default_rng(seed)
    candidates = [_kmeans(sides, _spread_start(sides, count, rng), rounds) for _ in range(restarts)]
    best = max(candidates, key=lambda anchors: fit(sides, anchors).mean_iou)
    return best[np.argsort(best.prod(axis=1), kind="stable")]


def _spread_start(sides: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++ (Arthur & Vassilvitskii 2007): each start is drawn with weight distance^2 to those before."""
    chosen = [sides[rng.integers(len(sides))]]
    while len(chosen) < count:
        distance = 1 - shape_iou(sides, np.array(chosen)).max(axis=1)
        weight = np.maximum(distance, 0) ** 2
        chosen.append(sides[rng.choice(len(sides), p=weight / weight.sum())])
    return np.array(chosen)


def _kmeans(sides: np.ndarray, anchors: np.ndarray, rounds: int) -> np.ndarray:
    """Assigns each size to its nearest anchor and moves anchors to the median of theirs, until nothing changes."""
    nearest = np.full(len(sides), -1)
    for _ in range(rounds):
        previous, nearest = nearest, shape_iou(sides, anchors).argmax(axis=1)
        if np.array_equal(previous, nearest):
            break
        # The median suits IoU better than the mean; an anchor that lost all its boxes stays where it is.
        groups = [sides[nearest == at] for at in range(len(anchors))]
        anchors = np.array([np.median(g, axis=0) if len(g) else a for g, a in zip(groups, anchors, strict=True)])
    return anchors
