"""What is wrong with a set of labelled images, for `paddock data check`; every image is read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from suites.engine.registry import register
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.inspection import RecognitionInspector, Seen
from suites.vision.recognition.processor import put_classes
from suites.vision.recognition.sample import LabelledImage


@register("inspector", "classification")
class ImageInspector(RecognitionInspector):
    """Reads every image; copies are those of equal pixels."""

    noun: ClassVar[str] = "images"

    def look(self, dataset: RecognitionDataset, at: int) -> Seen:
        """The digest of an image's pixels, its classes and its size."""
        sample = dataset[at]
        pixels = sample.pixels
        content = f"{pixels.shape}".encode() + pixels.tobytes()
        labels = tuple(dataset.class_names[k] for k in sample.labels.tolist())
        return Seen(hashlib.sha256(content).hexdigest(), labels, size=(pixels.shape[0], pixels.shape[1]))

    def picture(self, sample: LabelledImage, class_names: Sequence[str]) -> np.ndarray:
        """The image with its classes."""
        canvas = sample.pixels.copy()
        put_classes(canvas, [{"class": class_names[k]} for k in sample.labels.tolist()], class_names)
        return canvas
