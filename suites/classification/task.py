"""The image classification task."""

from __future__ import annotations

from typing import Any

from suites.classification.processor import ClassificationProcessor
from suites.engine.registry import register
from suites.vision.recognition.task import RecognitionTask


@register("task", "classification")
class ClassificationTask(RecognitionTask):
    """An image classifier with its data."""

    train_inputs: tuple[str, ...] = ("images", "targets")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = ClassificationProcessor

    def processor(self) -> ClassificationProcessor:
        """Preprocessing of evaluation, class names of the evaluation set."""
        transforms: Any = self._config["data.eval.transforms"]
        return ClassificationProcessor(transforms, self._eval_set.class_names)
