"""What stands around an image classifier when it predicts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from suites.vision.processor import ImageProcessor
from suites.vision.recognition.processor import RecognitionProcessor
from suites.vision.recognition.sample import LabelledImage


class ClassificationProcessor(ImageProcessor, RecognitionProcessor):
    """Image files to batches, scores to class names; an item is an image, uint8 [H, W, 3]."""

    suite: ClassVar[str] = "classification"
    sample_class = LabelledImage

    def shown(self, item: np.ndarray) -> np.ndarray:
        """The image itself."""
        return item
