"""What stands around a network of vectors when it predicts: pictures to vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.contract.batch import Batch
from suites.vision.alignment import aligned
from suites.vision.drawing import enlarged
from suites.vision.objects import CutObjects, Row, cut_out
from suites.vision.pose import FACE_POINTS
from suites.vision.processor import ImageProcessor
from suites.vision.recognition.sample import LabelledImage, collate

_SHOWN = 6  # numbers of a vector in a line


class RetrievalProcessor(CutObjects, ImageProcessor):
    """Pictures to vectors; an item is an image, uint8 RGB [H, W, 3]. Faces with five points are brought upright.

    Args:
        transforms: those of evaluation.
        class_names: none; a vector is of no class.
    """

    suite: ClassVar[str] = "retrieval"
    poolings: tuple[str, ...] = ("vector",)

    def sample_of(self, item: np.ndarray, number: int) -> LabelledImage:
        """Pixels with some class."""
        return LabelledImage.of(item, name=f"input {number}")

    def objects_in(self, item: np.ndarray, rows: Sequence[Row]) -> list[np.ndarray]:
        """Objects cut out; faces that come with their five points, upright as ArcFace's pictures are."""
        return [_face(item, row) for row in rows]

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


def _face(image: np.ndarray, row: Row) -> np.ndarray:
    """A face upright where a detector gives its five points that differ; else what the box shows."""
    named = row.get("keypoints", {})
    points = [named[name] for name in FACE_POINTS.names] if set(FACE_POINTS.names) <= set(named) else None
    if points is None or np.ptp(points, axis=0).max() < 1:
        return cut_out(image, row["box"])
    return aligned(image, np.array(points))
