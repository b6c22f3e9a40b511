"""The segmentation task: what the engine calls to build, train, evaluate and draw a segmentation network."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from framework.data import DataLoader
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch, Found, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Case, Matrix, Plot, Tally
from suites.segmentation.datasets import SegmentationDataset
from suites.segmentation.labelling import Labelling
from suites.segmentation.losses import ClassCounts, SegmentationLoss, WeightedLoss
from suites.segmentation.metrics import BoundaryF1, ConfusionMatrix
from suites.segmentation.models.base import Segmenter
from suites.segmentation.processor import SegmentationProcessor, SoftMapProcessor, label_maps
from suites.segmentation.sample import IGNORE, Sample
from suites.segmentation.transforms import Transform, collate
from suites.segmentation.windows import stitched
from suites.vision.augmentation.pipeline import Augmented
from suites.vision.drawing import class_colour
from suites.vision.pictures.sizes import EqualSizes
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask, unprepared

_log = logging.getLogger(__name__)
_LOOKED_AT = 20  # label maps that are counted where nothing is trained


@dataclass(frozen=True)
class Figures:
    """What evaluation measures beside the confusion matrix.

    Args:
        boundary: tolerance of `boundary_F1` as a share of an image's diagonal, such as 0.0075; 0 leaves it out, as it
            takes more time than all other figures.
    """

    boundary: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.boundary < 1:
            raise AttributeValueError(f"figures: boundary is {self.boundary}; it must be 0 or more and below 1")


class SegmentationMetric(Metric):
    """Compares label maps, mapped back to the original images, with those of the files."""

    def __init__(self, class_names: Sequence[str], figures: Figures | None = None) -> None:
        self._matrix = ConfusionMatrix(class_names)
        self._images: list[tuple[int, float]] = []  # each with its mIoU
        tolerance = figures.boundary if figures else 0.0
        self._boundary = BoundaryF1(len(class_names), tolerance) if tolerance else None

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in the label maps of one batch of whole images."""
        rows = zip(batch["image_ids"].tolist(), batch["truth"], label_maps(outputs, batch), strict=True)
        for image_id, truth, found in rows:
            self.add(truth, found, image_id)

    def update_joined(self, found: Iterable[Found]) -> None:
        """Takes in the label maps of some images, whole or in windows."""
        images: dict[int, tuple[int, np.ndarray]] = {}

        def windows() -> Iterator[Found]:
            for outputs, batch in found:
                if "owners" not in batch:
                    self.update(outputs, batch)
                    continue
                ((truth, owner),) = zip(batch["truth"], batch["wholes"], strict=True)
                images.setdefault(owner, (int(batch["image_ids"][0]), truth))
                yield outputs, batch

        maps = list(stitched(windows()))
        for (image_id, truth), labels in zip(images.values(), maps, strict=True):
            self.add(truth, labels, image_id)

    def add(self, truth: np.ndarray, found: np.ndarray, image_id: int = -1) -> None:
        """Takes in the true and predicted labels of one image, uint8 [H, W]."""
        own = ConfusionMatrix(self._matrix.class_names)
        own.add(truth, found)
        self._matrix.merge(own.counts)
        self._images.append((image_id, own.result()["mIoU"] if own.counts.any() else 1.0))
        if self._boundary:
            self._boundary.add(truth, found)

    def state(self) -> dict[str, Any]:
        """The counts."""
        more = {"boundary": self._boundary.counts.copy()} if self._boundary else {}
        images = np.array(self._images, np.float64).reshape(-1, 2)
        return {"counts": self._matrix.counts.copy(), "images": images, **more}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the other counts."""
        self._matrix.merge(state["counts"])
        self._images += [(int(image_id), float(iou)) for image_id, iou in state["images"]]
        if self._boundary:
            self._boundary.merge(state["boundary"])

    def worst(self, count: int) -> dict[str, list[Case]]:
        """The images of the least mIoU, over the classes that are seen or predicted in them."""
        ranked = sorted((iou, image_id) for image_id, iou in self._images if image_id >= 0)
        return {"Worst images": [Case(image_id, f"mIoU {iou:.3f}") for iou, image_id in ranked[:count]]}

    def plots(self) -> Sequence[Plot]:
        """The confusions of pixels."""
        counts = self._matrix.counts[:, : len(self._matrix.class_names)]
        return [Matrix("Pixels, % of each true class", self._matrix.class_names, counts.tolist())]

    def result(self) -> dict[str, float]:
        """The matrix's figures, and that of borders."""
        return self._matrix.result() | (self._boundary.result() if self._boundary else {})


@register("task", "segmentation")
class SegmentationTask(VisionTask):
    """A segmentation network with its data.

    Args:
        model: the network.
        losses: what is minimised: the sum of these, each with its weight.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        inference: how a label is found for every pixel.
        figures: what evaluation measures beside the confusion matrix.
        num_classes: how many classes the data sets must have; None for as many as the model predicts.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
    """

    train_inputs: tuple[str, ...] = ("images", "labels")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = SegmentationProcessor
    main_metric = "mIoU"
    wrong_classes = "correct data.num_classes, or the data set's classes"
    model: Segmenter

    def __init__(
        self,
        model: Segmenter,
        losses: Sequence[SegmentationLoss],
        train: TrainData | None = None,
        eval: EvalData | None = None,
        inference: Labelling | None = None,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
        figures: Figures | None = None,
    ) -> None:
        super().__init__(model, train, eval, num_classes, more_eval)
        self._losses = list(losses)
        self._inference = inference or Labelling()
        self._figures = figures or Figures()

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Counts the classes' pixels where a loss weighs them; of a few images where only a batch will be looked at."""

        @cache
        def counted() -> ClassCounts:
            dataset = self._open(self.train_data.dataset, "data.train.dataset")
            count = len(dataset) if run else min(len(dataset), _LOOKED_AT)
            say(f"counting the pixels of each class in {count} label maps")
            return ClassCounts(_label_maps(dataset, count), dataset.num_classes)

        for loss in self._losses:
            loss.prepare(counted)
            if run and isinstance(loss, WeightedLoss) and loss.by_class is not None:
                names = self._open(self.train_data.dataset, "data.train.dataset").class_names
                told = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(names, loss.by_class, strict=True))
                say(f"{type(loss).__name__}: pixels count {told}")

    def collate(self, dataset: SegmentationDataset) -> Callable[[list[Sample]], Batch]:
        """Returns what makes a batch."""
        return collate

    def augmented(self, dataset: Any, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """The data set with its transforms, those of training for the sizes of its images."""
        if training:
            sizes = cache(dataset.sizes)
            transforms = [transform.for_sizes(sizes) for transform in transforms]
        return Augmented(dataset, transforms)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name; those of further outputs end in their number."""
        terms: dict[str, Loss] = {}
        outputs = zip(self.model.outputs(inputs["images"]), self.model.loss_weights, strict=True)
        for number, (logits, weight) in enumerate(outputs):
            for place, loss in enumerate(self._losses):
                name = f"loss_{type(loss).__name__}" + (f"_{place}" if self._repeated(loss) else "")
                value = loss(logits, inputs["labels"])
                terms[name + (f"_output{number}" if number else "")] = value if weight == 1.0 else value * weight
        return terms

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`labels` uint8 [N, H, W], the class of every pixel of the input; or `scores` [N, H, W, K] of windows."""
        return self._inference.outputs(self.model, inputs["images"])

    def look_once(self, inputs: dict[str, Tensor]) -> Tensor:
        """The logits of the pictures alone, whatever `inference` says, float32 [N, H, W, K]."""
        return self.model(inputs["images"])

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order; where a window is slid the samples as they are, see `parts`.

        Images that the transforms leave at different sizes are in different batches.
        """
        windows, data = self._inference.windows, self.eval_data
        if windows is None:
            seen = self.augmented(self._eval_set, data.transforms, training=False)
            batches = self._equal_sizes(seen)
            options: dict[str, Any] = {"batch_size": data.batch_size} if batches is None else {"batch_sampler": batches}
            return DataLoader(seen, workers=workers, collate=self.collate(self._eval_set), **options)
        seen = self.augmented(self._eval_set, (), training=False)
        return DataLoader(seen, data.batch_size, workers=workers, collate=unprepared)

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """The batch; or the windows of its samples, at most `windows.together` at a time."""
        windows = self._inference.windows
        return (batch,) if windows is None else windows.batches(batch["samples"], self.eval_data.transforms)

    def _equal_sizes(self, seen: Augmented) -> EqualSizes | None:
        """Batches of images of one size; None where the transforms bring all to one, or all have one."""
        batch_size = self.eval_data.batch_size
        if batch_size == 1:
            return None
        sizes = self._eval_set.sizes()
        kinds, firsts = np.unique(sizes, axis=0, return_index=True)
        kinds, firsts = kinds[kinds.all(axis=1)], firsts[kinds.all(axis=1)]
        if len(firsts) < 2:
            return None
        ratio, area = kinds[:, 0] / kinds[:, 1], kinds.prod(axis=1)
        extremes = {int(firsts[at]) for at in (ratio.argmin(), ratio.argmax(), area.argmin(), area.argmax())}
        shapes = {shape for _, shape in readable(sorted(extremes), lambda at: ("", seen[at].image.shape))}
        if len(shapes) < 2:
            return None
        batches = EqualSizes(sizes, batch_size)
        _log.info("evaluation: images differ in size (%d sizes); a batch holds neighbours of one size", len(firsts))
        return batches

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return SegmentationMetric(self._eval_set.class_names, self._figures)

    def processor(self) -> SegmentationProcessor:
        """Preprocessing of evaluation, class names and palette of the evaluation set."""
        names = self._eval_set.class_names
        # Of published weights only the names are known.
        palette = getattr(self._eval_set, "palette", None) or [class_colour(i) for i in range(len(names))]
        if self._inference.soft:
            return SoftMapProcessor(self.eval_data.transforms, names, palette)
        return SegmentationProcessor(self.eval_data.transforms, names, palette, self._inference.windows)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first images of the evaluation set that can be read."""
        dataset = self._eval_set
        return readable(range(len(dataset)), lambda i: (Path(dataset.name_of(i)).name, dataset.image(i)), count)

    def example(self, index: int) -> tuple[str, Any]:
        """An image of the evaluation set."""
        return Path(self._eval_set.name_of(index)).name, self._eval_set.image(index)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """What was left out when the set was opened."""
        tally.merge(dataset.dataset.skipped().state())

    def count_batch(self, tally: Tally, batch: Batch, *, training: bool) -> None:
        """The classes of the pixels of the files, and their sizes."""
        names = self._eval_set.class_names
        maps = [sample.truth for sample in batch["samples"]] if "samples" in batch else batch["truth"]
        counts = np.sum([np.bincount(labels.reshape(-1), minlength=256) for labels in maps], axis=0)
        named = dict(zip(names, counts[: len(names)].tolist(), strict=True))
        tally.add("pixels by class", named | {"(ignored)": int(counts[IGNORE])}, len(maps))
        tally.measure("image, pixels a side", np.array([np.sqrt(labels.size) for labels in maps]), len(maps))

    def names(self, batch: Batch) -> list[str]:
        """What messages call the images of a batch."""
        return [f"image {image_id}" for image_id in batch.get("image_ids", ())]

    def _repeated(self, loss: SegmentationLoss) -> bool:
        return sum(type(other) is type(loss) for other in self._losses) > 1


def _label_maps(dataset: SegmentationDataset, count: int) -> Iterator[np.ndarray]:
    """Those of the first `count` samples that can be read, one at a time."""
    for i in range(count):
        with contextlib.suppress(DataError, OSError):
            yield dataset[i].labels
