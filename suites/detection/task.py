"""The detection task: what the engine calls to build, train, evaluate and draw a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.tensor import Tensor
from suites.detection.datasets import DetectionDataset
from suites.detection.losses import Targets
from suites.detection.metrics import BoxEvaluator, VocEvaluator
from suites.detection.models.yolov3 import Detector
from suites.detection.processor import DetectionProcessor, original_detections
from suites.detection.sample import Sample
from suites.detection.transforms import collate
from suites.engine.losses import Loss, count_of
from suites.engine.registry import register
from suites.engine.task import Batch, Metric, readable
from suites.vision.task import VisionTask


class BoxMetric(Metric):
    """Feeds detections, mapped back to the original images, to an evaluator."""

    def __init__(self, evaluator: BoxEvaluator, image_ids: np.ndarray) -> None:
        self._evaluator = evaluator
        self._image_ids = image_ids  # [N] of the data set's images

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in the detections of one batch."""
        for image_id, found in zip(batch["image_ids"], original_detections(outputs, batch), strict=True):
            self._evaluator.add(int(image_id), *found)

    def leave_out(self, indices: Sequence[int]) -> None:
        """Images that could not be read count as images in which nothing was found."""
        for index in indices:
            self._evaluator.add(int(self._image_ids[index]), np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))

    def result(self) -> dict[str, float]:
        """The evaluator's figures."""
        return self._evaluator.compute()


@register("task", "detection")
class DetectionTask(VisionTask):
    """A detector with its data.

    Args:
        config: of suite `detection`.
    """

    train_inputs: tuple[str, ...] = ("images", "boxes", "labels", "scores")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = DetectionProcessor
    wrong_classes = "correct data.num_classes, or choose classes with {path}.classes"
    model: Detector

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """AP of COCO, mAP of VOC."""
        return "mAP" if self._config.get("metric.type") == VocEvaluator.__name__ else "AP"

    def collate(self, dataset: DetectionDataset) -> Callable[[list[Sample]], Batch]:
        """Returns what makes a batch."""
        return collate

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name, each a mean over images."""
        targets = Targets(inputs["boxes"], inputs["labels"], inputs["scores"])
        images = count_of(inputs["labels"])
        return {name: Loss(mean, images) for name, mean in self.model.losses(inputs["images"], targets).items()}

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`detections` [N, D, 6] in pixels of the input, `counts` [N]."""
        detections, counts = self.model.detect(inputs["images"])
        return {"detections": detections, "counts": counts}

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        truth = self._eval_set.ground_truth()
        return BoxMetric(self._config.build("metric", truth=truth), truth.image_ids)

    def processor(self) -> DetectionProcessor:
        """Preprocessing of evaluation, class names of the evaluation set."""
        transforms: Any = self._config["data.eval.transforms"]
        return DetectionProcessor(transforms, self._eval_set.class_names, self._config["min_score"])

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first images of the evaluation set that can be read."""
        dataset = self._eval_set
        return readable(range(len(dataset)), lambda i: (_short_name(dataset, i), dataset[i].image), count)

    def names(self, batch: Batch) -> list[str]:
        """What messages call the images of a batch."""
        return [f"image {image_id}" for image_id in batch.get("image_ids", ())]


def _short_name(dataset: DetectionDataset, index: int) -> str:
    path = Path(dataset.name_of(index))
    return path.name if path.suffix else f"{index:04d}.jpg"
