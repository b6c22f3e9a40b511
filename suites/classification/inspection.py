"""What is wrong with a set of labelled images, for `paddock data check`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from suites.engine.registry import register
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.inspection import RecognitionInspector, Seen, names_of
from suites.vision.recognition.processor import put_classes
from suites.vision.recognition.sample import LabelledImage


@register("inspector", "classification")
class ImageInspector(RecognitionInspector):
    """Copies are images of equal pixels, or where these are not decoded equal files."""

    noun: ClassVar[str] = "images"

    def look(self, dataset: RecognitionDataset, at: int) -> Seen:
        """The digest of an image, its classes and its size."""
        sample = dataset[at]
        pixels = sample.pixels
        content = f"{pixels.shape}".encode() + pixels.tobytes()
        height, width = pixels.shape[:2]
        return Seen(hashlib.sha256(content).hexdigest(), names_of(dataset, sample.labels), size=(height, width))

    def picture(self, sample: LabelledImage, class_names: Sequence[str]) -> np.ndarray:
        """The image with its classes."""
        canvas = sample.pixels.copy()
        put_classes(canvas, [{"class": class_names[k]} for k in sample.labels.tolist()], class_names)
        return canvas
