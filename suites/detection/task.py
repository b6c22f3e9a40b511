"""The detection task: what the engine calls to build, train, evaluate and draw a detector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from framework.data import DataLoader
from framework.errors import ConfigError, DataError
from framework.tensors import Tensor
from suites.detection.datasets import DetectionDataset
from suites.detection.holdings import tally_objects
from suites.detection.metrics import CocoEvaluator, Evaluator
from suites.detection.models.base import Detector, MaskTargets, Targets
from suites.detection.processor import DetectionProcessor, found_on_originals
from suites.detection.sample import Sample
from suites.detection.transforms import Transform, collate, padded_size
from suites.detection.views import Sliceable, Views
from suites.detection.visualize import draw_finding
from suites.engine.config import Factory
from suites.engine.contract.batch import Batch, Found, readable
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Case, Plot, Tally
from suites.vision.alike import AlikeBatches, parts
from suites.vision.pose import Pose, expect_points
from suites.vision.settings import EvalData, TrainData
from suites.vision.structures import Instances
from suites.vision.task import VisionTask, unprepared


class BoxMetric(Metric):
    """Feeds detections, mapped back to the original images, to an evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        image_ids: np.ndarray,
        views: Views | None = None,
        min_score: float = 0.3,
        pose: Pose | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._min_score = min_score  # from which on a detection is a mistake, in plots and pictures
        self._image_ids = image_ids  # [N] of the data set's images
        self._pose = pose
        self._views = views

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in the detections of one batch."""
        self.update_joined([(outputs, batch)])

    def update_joined(self, found: Iterable[Found]) -> None:
        """Takes in the detections on all views of some images."""
        parts: dict[int, list[Instances]] = {}
        for outputs, batch in found:
            on_originals = found_on_originals(outputs, batch, self._pose)
            for image_id, objects in zip(batch["image_ids"].tolist(), on_originals, strict=True):
                parts.setdefault(image_id, []).append(objects)
        for image_id, several in parts.items():
            self._evaluator.add(image_id, several[0] if self._views is None else self._views.merged(several))

    def leave_out(self, indices: Sequence[int]) -> None:
        """Images that could not be read count as images in which nothing was found."""
        for index in indices:
            self._evaluator.add(int(self._image_ids[index]), Instances.none())

    def state(self) -> dict[str, Any]:
        """The detections added so far."""
        return self._evaluator.state()

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the detections on other images."""
        self._evaluator.merge(state)

    def result(self) -> dict[str, float]:
        """The evaluator's figures."""
        return self._evaluator.compute()

    def plots(self) -> Sequence[Plot]:
        """The evaluator's plots, and what was taken for what."""
        return [*self._evaluator.plots(), self._evaluator.mistakes(self._min_score).matrix()]

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The largest objects that were missed, and the most confident detections of what is not there."""
        mistakes = self._evaluator.mistakes(self._min_score)
        return {"Worst misses": mistakes.misses(count), "Worst inventions": mistakes.inventions(count)}


@register("task", "detection")
class DetectionTask(VisionTask):
    """A detector with its data.

    Args:
        model: the detector.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        metric: the figures of an evaluation, made anew from the ground truth for each; COCO's by default.
        min_score: lowest score that is drawn and written.
        num_classes: how many classes the data sets must have; None for as many as the model predicts.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
        views: several looks at each image in evaluation and prediction; None for one.
    """

    train_inputs: tuple[str, ...] = ("images", "boxes", "classes", "scores", "sizes", "ignored")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = DetectionProcessor
    wrong_classes = "correct data.num_classes, or choose classes with {path}.classes"
    model: Detector

    def __init__(
        self,
        model: Detector,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        metric: Factory[Evaluator] | None = None,
        min_score: float = 0.3,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
        views: Views | None = None,
    ) -> None:
        super().__init__(model, train, eval, num_classes, more_eval)
        self._metric = metric or Factory.of(CocoEvaluator)
        self._min_score = min_score
        self._views = views
        if model.needs_masks:
            self.train_inputs = (*self.train_inputs, "mask_runs", "mask_offsets")
        if model.landmarks:
            self.train_inputs = (*self.train_inputs, "landmarks")
        if model.takes_padding:
            self.eval_inputs = (*self.eval_inputs, "sizes")

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """That of the metric: AP of COCO, mAP of VOC."""
        evaluator: Any = self._metric.target
        return str(evaluator.main_figure)

    def _open(self, dataset: Any, path: str) -> Any:
        found = super()._open(dataset, path)
        if self.model.pose is not None and getattr(found, "pose", None) is not None:
            expect_points(path, found.pose, self.model.pose, "give the network's head them as its `pose`")
        return found

    def collate(self, dataset: DetectionDataset) -> Callable[[list[Sample]], Batch]:
        """Returns what makes a batch."""
        return self._collate(dataset, self.model.size_multiple if self.model.takes_padding else None)

    def _collate(self, dataset: DetectionDataset, padded_to: int | None) -> Callable[[list[Sample]], Batch]:
        masks = self.model.needs_masks and dataset.has_masks
        return partial(collate, padded_to=padded_to, masks=masks, landmarks=self.model.landmarks)

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order, in batches of one size; with several views the samples as they are, see `parts`.

        Raises DataError where the set holds nothing that a figure could be made of.
        """
        self.metric()  # it refuses such a set: now, and not after the first epochs
        if self._views is None:
            transforms: Sequence[Transform] = self.eval_data.transforms
            make: Callable[[list[Any]], Batch] = AlikeBatches(self._shown(), self._shape_of)
        else:
            transforms, make = [Sliceable(self._views)], unprepared
        seen = self.augmented(self._eval_set, transforms, training=False)
        return DataLoader(seen, self.eval_data.batch_size, workers=workers, collate=make)

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """The batches of one size; or the views of its samples, at most `views.together` at a time."""
        if self._views is None:
            return parts(batch)
        return self._views.batches(batch["samples"], self.eval_data.transforms, self._shown(), self._shape_of)

    def _shown(self) -> Callable[[list[Sample]], Batch]:
        return self._collate(self._eval_set, self._padded_to)

    @property
    def _shape_of(self) -> Callable[[Sample], tuple[int, int]]:
        return partial(padded_size, padded_to=self._padded_to)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled, augmented batches; a short last batch is left out.

        Raises DataError where the set has no object that could be learnt.
        """
        truth = self._open(self.train_data.dataset, "data.train.dataset").ground_truth()
        if truth.crowd.all():
            held = (
                f"its {len(truth.boxes)} objects are all crowd regions (iscrowd)" if len(truth.boxes) else "no objects"
            )
            raise DataError(f"data.train.dataset: nothing can be learnt from it: {held}")
        if self.model.needs_masks and not self._open(self.train_data.dataset, "data.train.dataset").has_masks:
            raise ConfigError(
                f"data.train.dataset: {type(self.model).__name__} learns from masks, and this data set reads none; "
                "take a CocoDetection with `masks: true`, or a model of boxes such as FasterRCNN"
            )
        return super().train_loader(seed=seed, workers=workers)

    @property
    def _padded_to(self) -> int | None:
        """What the sides of a picture are padded to in evaluation, so that one of any size can be looked at."""
        return self.model.size_multiple if self.model.takes_padding or self.model.size_multiple > 1 else None

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name; means over images where the model does not say otherwise."""
        masks = MaskTargets(inputs["mask_runs"], inputs["mask_offsets"]) if self.model.needs_masks else None
        boxes, classes, scores, sizes, ignored = (inputs[name] for name in self.train_inputs[1:6])
        targets = Targets(boxes, classes, scores, sizes, ignored, masks, inputs.get("landmarks"))
        terms = self.model.losses(inputs["images"], targets)
        images = count_of(classes)
        return {name: term if isinstance(term, Loss) else Loss(term, images) for name, term in terms.items()}

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`boxes` [N, D, 4] in pixels of the input, `scores` and `classes` [N, D], `counts` [N], perhaps `masks`."""
        return self.model.detect(inputs["images"], inputs.get("sizes")).by_name()

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        truth = self._eval_set.ground_truth()
        evaluator = self._metric(truth=truth)
        return BoxMetric(evaluator, truth.image_ids, self._views, self._min_score, self.model.pose)

    def processor(self) -> DetectionProcessor:
        """Preprocessing of evaluation, class names of the evaluation set."""
        names = self._eval_set.class_names
        args = self.eval_data.transforms, names, self._min_score, self._padded_to, self._views, self.model.pose
        return DetectionProcessor(*args)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first images of the evaluation set that can be read."""
        dataset = self._eval_set
        return readable(range(len(dataset)), lambda i: (_short_name(dataset, i), dataset[i].image), count)

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray]:
        """The part of an image where something was missed or invented."""
        dataset = self._eval_set
        image = dataset[case.index].image
        return _short_name(dataset, case.index), draw_finding(image, case.detail, dataset.class_names)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Objects by class and size, and what was changed or left out when the annotations were read."""
        opened = dataset.dataset
        truth = opened.ground_truth()
        tally_objects(tally, truth)
        tally.merge(opened.skipped().state())
        for why, count in opened.left_out().items():
            tally.skip("annotations", f"{count} {why}", count)

    def names(self, batch: Batch) -> list[str]:
        """What messages call the images of a batch."""
        return [f"image {image_id}" for image_id in batch.get("image_ids", ())]


def _short_name(dataset: DetectionDataset, index: int) -> str:
    path = Path(dataset.name_of(index))
    return path.name if path.suffix else f"{index:04d}.jpg"
