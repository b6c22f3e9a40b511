"""What stands around an image classifier when it predicts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from suites.vision.processor import ImageProcessor
from suites.vision.recognition.processor import RecognitionProcessor


class ClassificationProcessor(ImageProcessor, RecognitionProcessor):
    """Image files to batches, scores to class names; an item is an image, uint8 [H, W, 3]."""

    suite: ClassVar[str] = "classification"
    key: ClassVar[str] = "images"

    def frames_of(self, item: np.ndarray) -> np.ndarray:
        """The image as a clip of one frame."""
        return item[None]

    def picture(self, item: np.ndarray) -> np.ndarray:
        """The image itself."""
        return item
