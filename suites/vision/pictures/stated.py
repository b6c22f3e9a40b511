"""Sizes that annotations state, against the size of the picture that is there."""

from __future__ import annotations

import logging
from typing import Any

import cv2
import numpy as np

from framework.errors import DataError

_log = logging.getLogger(__name__)
_ROUNDING = 1  # pixels by which a scaled side may be off
Size = tuple[int, int]  # (H, W)


def stated_size(height: Any, width: Any) -> Size:
    """(H, W) that a file states in numbers or texts; (0, 0) where it does not."""
    try:
        sides = int(height), int(width)
    except (TypeError, ValueError, OverflowError):
        return 0, 0
    return sides if min(sides) > 0 else (0, 0)


def scale_to(stated: Size, actual: Size) -> float | None:
    """What the picture that was annotated is scaled by to be the one that is there; None where it is another shape.

    Args:
        stated: (H, W) of the annotation.
        actual: (H, W) of the picture as it is shown, so after its EXIF rotation.

    >>> scale_to((480, 640), (240, 320)), scale_to((480, 640), (640, 480))
    (0.5, None)
    """
    if stated == actual:
        return 1.0
    low = max((side - _ROUNDING) / own for side, own in zip(actual, stated, strict=True))
    high = min((side + _ROUNDING) / own for side, own in zip(actual, stated, strict=True))
    return (low + high) / 2 if low <= high and min(actual) > 2 * _ROUNDING else None


def checked_scale(stated: Size, actual: Size, name: str) -> float:
    """`scale_to`; DataError where the annotation is of a picture of another shape."""
    scale = scale_to(stated, actual)
    if scale is None:
        remedy = "correct the annotation or the image (an EXIF rotation counts)"
        if stated == actual[::-1]:
            remedy = "it seems to be of the picture before its EXIF rotation: annotate it again, or remove the EXIF tag"
        raise DataError(
            f"{name}: the image is {actual[1]}x{actual[0]} but its annotation says {stated[1]}x{stated[0]} (width x "
            f"height), so its boxes would not fit; {remedy}"
        )
    return scale


class Fitter:
    """Fits pictures to the sizes that their annotations state; says once that it scales some."""

    def __init__(self) -> None:
        self._said = False

    def scale(self, stated: Size, actual: Size, name: str) -> float:
        """`checked_scale`, and 1 where the annotation states no size, (0, 0)."""
        if not all(stated) or stated == actual:
            return 1.0
        scale = checked_scale(stated, actual, name)
        if not self._said:
            self._said = True
            _log.warning(
                "%s: the image is %dx%d, but %dx%d in its annotation (width x height). It is taken for a scaled copy, "
                "and so are others like it",
                name, actual[1], actual[0], stated[1], stated[0],
            )  # fmt: skip
        return scale

    def as_stated(self, image: np.ndarray, stated: Size, name: str) -> np.ndarray:
        """The picture, uint8 [H, W, 3], in the size of its annotation; raises as `checked_scale` does."""
        scale = self.scale(stated, (image.shape[0], image.shape[1]), name)
        if not all(stated) or stated == image.shape[:2]:
            return image
        way = cv2.INTER_AREA if scale > 1 else cv2.INTER_LINEAR
        return cv2.resize(image, (stated[1], stated[0]), interpolation=way)
