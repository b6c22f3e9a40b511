"""What a detection set holds, counted from its annotations: objects by class and size, images without objects."""

from __future__ import annotations

import numpy as np

from suites.detection.sample import GroundTruth
from suites.engine.reporting import Tally

_SMALL, _LARGE = 32**2, 96**2  # square pixels, where COCO's small objects end and its large ones begin


def tally_objects(tally: Tally, truth: GroundTruth) -> None:
    """Count all objects of a set by class, by COCO's sizes and by side, and its images by their number of objects."""
    images = len(truth.image_ids)
    ordinary = ~truth.crowd
    counts = np.bincount(truth.classes[ordinary], minlength=len(truth.class_names))
    tally.add("objects", dict(zip(truth.class_names, counts.tolist(), strict=True)), images, whole=True)
    areas = truth.areas[ordinary]
    small, large = int((areas < _SMALL).sum()), int((areas > _LARGE).sum())
    sizes = {"small, below 32 x 32": small, "medium": len(areas) - small - large, "large, above 96 x 96": large}
    tally.add("objects by size in pixels", sizes, images, whole=True)
    marked = {"crowd regions": int(truth.crowd.sum()), "difficult": int(truth.difficult.sum())}
    empty = int((np.diff(truth.offsets) == 0).sum())
    tally.add("images and marks", {"images": images, "images without objects": empty} | marked, images, whole=True)
    tally.measure("side of an object, pixels", np.sqrt(areas), images, whole=True)
