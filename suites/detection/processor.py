"""What stands around a detector when it predicts: preprocessing, boxes back in the image's pixels, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from suites.detection.pasting import pasted
from suites.detection.sample import Sample
from suites.detection.transforms import Transform, collate
from suites.detection.visualize import draw_instances
from suites.engine.task import Batch
from suites.vision.geometry import Placement
from suites.vision.processor import ImageProcessor
from suites.vision.structures import Boxes, Instances, Masks


class DetectionProcessor(ImageProcessor):
    """Images to batches, detections to boxes with class names.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        min_score: detections below it are left out.
        padded_to: see `collate`.
    """

    suite: ClassVar[str] = "detection"

    def __init__(
        self,
        transforms: Sequence[Transform],
        class_names: Sequence[str],
        min_score: float,
        padded_to: int | None = None,
    ) -> None:
        super().__init__(transforms, class_names)
        self._min_score = min_score
        self._padded_to = padded_to

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {**super().metadata(), "min_score": self._min_score, "padded_to": self._padded_to}

    def sample_of(self, item: np.ndarray, number: int) -> Sample:
        """An image [H, W, 3] without objects."""
        return Sample(image=item, image_id=number)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The batch."""
        return collate(samples, padded_to=self._padded_to)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each image, its detections, best first: class name, score, box in the image's own pixels, mask if any.

        A mask is COCO's compressed run-length code: size [H, W] and counts, which pycocotools reads.
        """
        return [self._rows(objects) for objects in found_on_originals(outputs, batch)]

    def _rows(self, objects: Instances) -> list[dict[str, Any]]:
        kept = objects[objects.scores >= self._min_score]
        rows = zip(kept.boxes.array.tolist(), kept.scores.tolist(), kept.classes.tolist(), strict=True)
        found: list[dict[str, Any]] = [
            {"class": self._class_names[label], "score": round(score, 5), "box": [round(v, 2) for v in box]}
            for box, score, label in rows
        ]
        for row, code in zip(found, kept.masks.codes() if kept.masks else (), strict=bool(kept.masks)):
            row["mask"] = {"size": list(code["size"]), "counts": code["counts"].decode()}
        return found

    def draw(self, item: np.ndarray, result: list[dict[str, Any]]) -> np.ndarray:
        """The image with the boxes, and the masks if there are any, of `result`."""
        boxes = Boxes(np.array([r["box"] for r in result], np.float32))
        classes = np.array([self._class_names.index(r["class"]) for r in result], np.int64)
        scores = np.array([r["score"] for r in result], np.float32)
        masks = Masks(tuple(r["mask"] for r in result), item.shape[:2]) if result and "mask" in result[0] else None
        return draw_instances(item, Instances(boxes, classes, scores, masks=masks), self._class_names)


def found_on_originals(outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Instances]:
    """What a detector found on each image, in pixels of the original and cut to it.

    Args:
        outputs: `boxes` [N, D, 4] in pixels of the input, `scores` and `classes` [N, D], `counts` [N], and perhaps
            `masks` [N, D, S, S].
        batch: `placements` [N, 4] and `original_sizes` [N, 2].
    """
    found = []
    for i, count in enumerate(outputs["counts"].tolist()):
        boxes, scores, classes = (outputs[name][i, :count].copy() for name in ("boxes", "scores", "classes"))
        back = Placement(*batch["placements"][i].tolist()).inverse()
        height, width = batch["original_sizes"][i].tolist()
        objects = Instances(Boxes(boxes), classes, scores).placed(back).clipped((height, width))
        if "masks" in outputs:
            grids = outputs["masks"][i, :count, :: _sign(back.ay), :: _sign(back.ax)]
            objects = replace(objects, masks=pasted(grids, objects.boxes, (height, width)))
        found.append(objects)
    return found


def _sign(scale: float) -> int:
    """Which way an axis runs: -1 where the input is the picture mirrored."""
    return -1 if scale < 0 else 1
