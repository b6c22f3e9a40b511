"""What stands around a detector when it predicts: preprocessing, boxes back in the image's pixels, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import CheckpointError
from suites.detection.sample import Sample, boxes_to_original
from suites.detection.transforms import Transform, collate
from suites.detection.visualize import draw_boxes
from suites.engine.config import build_value
from suites.engine.task import Batch
from suites.vision.processor import ImageProcessor


class DetectionProcessor(ImageProcessor):
    """Images to batches, detections to boxes with class names.

    Args:
        transforms: as configs write them; the transforms of evaluation.
        class_names: K names.
        min_score: detections below it are left out.
    """

    def __init__(self, transforms: list[dict[str, Any]], class_names: Sequence[str], min_score: float) -> None:
        self._written = transforms
        self._transforms: list[Transform] = build_value(transforms, list[Transform], suite="detection")
        self._class_names = tuple(class_names)
        self._min_score = min_score

    def metadata(self) -> dict[str, Any]:
        """Transforms, class names and least score."""
        return {
            "transforms": self._written,
            "class_names": list(self._class_names),
            "min_score": self._min_score,
        }

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> DetectionProcessor:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        try:
            return cls(metadata["transforms"], metadata["class_names"], metadata["min_score"])
        except KeyError as error:
            raise CheckpointError(f"DetectionProcessor: the exported model's metadata lack {error}") from error

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """Images [H, W, 3] as a batch, exactly as in evaluation."""
        rng = np.random.default_rng(0)
        samples = []
        for i, image in enumerate(items):
            sample = Sample(image, np.zeros((0, 4), np.float32), np.zeros(0, np.int64), image_id=i)
            for transform in self._transforms:
                sample = transform(sample, rng)
            samples.append(sample)
        return collate(samples)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each image, its detections: class name, score and box in the image's own pixels, best first."""
        found = []
        for boxes, scores, labels in original_detections(outputs, batch):
            rows = zip(boxes.tolist(), scores.tolist(), labels.tolist(), strict=True)
            found.append(
                [
                    {"class": self._class_names[label], "score": round(score, 5), "box": [round(v, 2) for v in box]}
                    for box, score, label in rows
                    if score >= self._min_score
                ]
            )
        return found

    def draw(self, item: np.ndarray, result: list[dict[str, Any]]) -> np.ndarray:
        """The image with the boxes of `result`."""
        boxes = np.array([r["box"] for r in result], np.float32).reshape(-1, 4)
        labels = np.array([self._class_names.index(r["class"]) for r in result], np.int64)
        scores = np.array([r["score"] for r in result], np.float32)
        return draw_boxes(item, boxes, labels, self._class_names, scores)


def original_detections(
    outputs: Mapping[str, np.ndarray], batch: Batch
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each image: boxes [P, 4] in pixels of the original, scores [P], labels int64 [P].

    Args:
        outputs: `detections` [N, D, 6] (label, score, x1, y1, x2, y2) and `counts` [N].
        batch: `placements` [N, 4] and `original_sizes` [N, 2].
    """
    found = []
    columns = (outputs["detections"], outputs["counts"], batch["placements"], batch["original_sizes"])
    for rows, count, placement, size in zip(*columns, strict=True):
        rows = rows[: int(count)]
        boxes = boxes_to_original(rows[:, 2:], placement, (int(size[0]), int(size[1])))
        found.append((boxes, rows[:, 1].copy(), rows[:, 0].astype(np.int64)))
    return found
