"""What the processors of image suites share: an item is an image, from a file or from a request."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.engine.task import Processor
from suites.vision.images import decode_image, encode_image, read_image


class ImageProcessor(Processor):
    """Items are images, uint8 RGB [H, W, 3]; in JSON they are the base64 text of an image file."""

    files_in_json: ClassVar[bool] = True

    def read(self, path: Path) -> np.ndarray:
        """An image file as uint8 RGB [H, W, 3]."""
        return read_image(path)

    def from_json(self, value: Any) -> np.ndarray:
        """The image whose file `value` is in base64."""
        if not isinstance(value, str):
            raise DataError(f"takes an image file as base64 text, got {type(value).__name__}")
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError(f"takes an image file as base64 text; this is no base64 ({error})") from None
        return decode_image(data, "of the request")

    def example(self) -> str:
        """A black image."""
        return base64.b64encode(encode_image(np.zeros((64, 64, 3), np.uint8))).decode()
