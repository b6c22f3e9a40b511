"""The image classification task."""

from __future__ import annotations

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
        least = 0.5 if self._loss.multi_label else None
        return ClassificationProcessor(self.eval_data.transforms, self._eval_set.class_names, least)
