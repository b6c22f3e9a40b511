"""Digits: scikit-learn's copy of the UCI optical digits, real handwriting of 8x8 pixels (Alpaydin and Kaynak 1998)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from suites.engine.registry import register
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.sample import LabelledImage

# Share of the 1,797 digits, which lie in writers' order, at which each split starts and ends: writers differ.
_SPLITS = {"train": (0.0, 0.8), "val": (0.8, 1.0)}


@register("dataset")
class Digits(RecognitionDataset):
    """Handwritten digits, 8x8 pixels, classes "0" to "9"; 1,438 to train with and 359 of other writers.

    Args:
        split: "train" or "val".
    """

    def __init__(self, split: Literal["train", "val"] = "train") -> None:
        from sklearn.datasets import load_digits  # a second to import: only who asks for digits waits

        digits = load_digits()
        first, last = (round(share * len(digits.images)) for share in _SPLITS[split])
        self.class_names = tuple("0123456789")
        self.labels = digits.target[first:last].astype(np.int64)
        self._images = np.clip(digits.images[first:last] * (255 / 16), 0, 255).astype(np.uint8)
        self._split = split
        self.say(f"Digits {split}")

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledImage:
        """Digit `index`, three equal channels."""
        image = np.repeat(self._images[index][:, :, None], 3, axis=2)
        return LabelledImage.of(image, int(self.labels[index]), self.name_of(index))

    def name_of(self, index: int) -> str:
        """What identifies the digit."""
        return f"digit_{self._split}_{index}"
