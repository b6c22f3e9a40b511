"""The video classification task."""

from __future__ import annotations

from suites.engine.registry import register
from suites.video.datasets import VideoDataset
from suites.video.processor import VideoProcessor
from suites.vision.recognition.task import RecognitionTask


@register("task", "video")
class VideoTask(RecognitionTask):
    """A video classifier with its data."""

    train_inputs: tuple[str, ...] = ("clips", "targets")
    eval_inputs: tuple[str, ...] = ("clips",)
    processor_class = VideoProcessor
    _eval_set: VideoDataset

    def processor(self) -> VideoProcessor:
        """Preprocessing of evaluation, class names and segments of the evaluation set."""
        chosen = self._eval_set.segments
        return VideoProcessor(self.eval_data.transforms, self._eval_set.class_names, (chosen.count, chosen.length))
