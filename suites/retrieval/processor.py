"""What stands around a network of vectors when it predicts: pictures to vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.contract.batch import Batch
from suites.vision.drawing import enlarged
from suites.vision.processor import ImageProcessor
from suites.vision.recognition.sample import LabelledImage, collate

_SHOWN = 6  # numbers of a vector in a line


class RetrievalProcessor(ImageProcessor):
    """Pictures to vectors; an item is an image, uint8 RGB [H, W, 3].

    Args:
        transforms: those of evaluation.
        class_names: none; a vector is of no class.
    """

    suite: ClassVar[str] = "retrieval"
    poolings: tuple[str, ...] = ("vector",)

    def sample_of(self, item: np.ndarray, number: int) -> LabelledImage:
        """Pixels with some class."""
        return LabelledImage.of(item, name=f"input {number}")

    def collate(self, samples: Sequence[LabelledImage]) -> Batch:
        """The batch."""
        return collate(samples, 1)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
        """The vector of each item, float32 [D] of length 1."""
        return [np.array(vector, np.float32) for vector in outputs["vectors"]]

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """The vectors, float32 [N, D]."""
        return np.asarray(outputs["vectors"], np.float32)

    def summary(self, result: np.ndarray) -> dict[str, Any]:
        """The numbers of the vector."""
        return {"vector": [round(float(x), 6) for x in result]}

    def lines(self, result: np.ndarray) -> list[str]:
        """How many numbers, and the first of them."""
        return [f"{len(result)} numbers: {' '.join(f'{x:.4f}' for x in result[:_SHOWN])} ..."]

    def draw(self, item: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The picture."""
        canvas, _ = enlarged(item)
        return canvas
