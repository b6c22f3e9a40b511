"""Small pictures for the pages of runs."""

from __future__ import annotations

import cv2

from framework.errors import DataError
from suites.engine.registry import register
from suites.vision.pictures.images import decode

_WIDTH, _HIGHEST, _QUALITY = 480, 640, 75  # pixels of a picture at most, JPEG's quality
_WIDEST = 960  # of one that is wide, such as a strip of frames
_WIDE = 2.5  # width over height


@register("thumbnail", "jpeg")
def thumbnail(content: bytes) -> tuple[bytes, bool]:
    """Makes a JPEG of at most 480 x 640 pixels, or 960 wide of a strip, and says whether it is one.

    Args:
        content: a picture file's bytes.

    Raises DataError where they are no picture.
    """
    image = decode(content, "of a run", cv2.IMREAD_COLOR)
    height, width = image.shape[:2]
    wide = width > _WIDE * height
    factor = min((_WIDEST if wide else _WIDTH) / width, _HIGHEST / height)
    if factor < 1:
        small = max(1, round(width * factor)), max(1, round(height * factor))
        image = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
    done, written = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise DataError("it cannot be written as a JPEG")
    return written.tobytes(), wide
