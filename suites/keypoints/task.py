"""The task of points: what the engine calls to build, train, evaluate and draw a network that finds them.

Letters: N objects, H W image size, s stride of the heatmaps, L points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from framework import ops, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.decoding import Reader, drawn
from suites.keypoints.metrics import Figures, PoseMetric
from suites.keypoints.models.base import PoseModel
from suites.keypoints.processor import PoseProcessor
from suites.keypoints.sample import PoseSample
from suites.vision.pose import expect_points
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask


@dataclass(frozen=True)
class Targets:
    """What heatmaps are learnt, and how points are read from them.

    Args:
        sigma: of the Gaussian around a point, in cells of the map.
        flip: whether evaluation takes the mean of the maps of a picture and of its mirror image.
    """

    sigma: float = 2.0
    flip: bool = True

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise AttributeValueError(f"targets: sigma is {self.sigma}; it must be positive")


@register("task", "keypoints")
class KeypointsTask(VisionTask):
    """A network of points with its data.

    Args:
        model: the network.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        targets: what heatmaps are learnt, and how points are read from them.
        figures: what evaluation measures.
        num_classes: 1, or None.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
    """

    train_inputs: tuple[str, ...] = ("images", "heatmaps", "weights")
    eval_inputs: tuple[str, ...] = ("images",)
    processor_class = PoseProcessor
    main_metric = "AP"
    model: PoseModel

    def __init__(
        self,
        model: PoseModel,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        targets: Targets | None = None,
        figures: Figures | None = None,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, num_classes, more_eval)
        if model.gives_points and train is not None:
            name = type(model).__name__
            raise ConfigError(f"data.train: {name} gives points of its own and is not trained; leave it out")
        self._targets, self._figures = targets or Targets(), figures or Figures()
        self._reader = Reader(model.stride, self._targets.sigma)

    def _open(self, dataset: Any, path: str) -> Any:
        found = super()._open(dataset, path)
        expect_points(path, found.pose, self.model.pose, "set model.points or model.pose")
        return found

    def collate(self, dataset: Any) -> Callable[[list[PoseSample]], Batch]:
        """Returns what makes a batch."""
        return partial(collate, stride=self.model.stride, sigma=self._targets.sigma, multiple=self.model.multiple)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """`heatmap`: the mean over labelled points of the mean square error of their maps."""
        error = self.model(inputs["images"]) - inputs["heatmaps"]
        each = ops.mean(ops.square(error), axes=(1, 2)) * inputs["weights"]  # [N, L]
        asked = ops.maximum(ops.sum(inputs["weights"]), 1.0)
        return {"heatmap": Loss(ops.sum(each) / asked, asked)}

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`heatmaps` float32 [N, H/s, W/s, L]; of a network that gives points, `points` float32 [N, L, 3]."""
        images = inputs["images"]
        if self.model.gives_points:
            return {"points": self.model.points(images)}
        maps = self.model(images)
        if self._targets.flip:
            mirrored = ops.flip(self.model(ops.flip(images, axes=(2,))), axes=(2,))
            maps = (maps + ops.gather(mirrored, tensor(np.array(self.model.pose.order)), axis=3)) * 0.5
        return {"heatmaps": maps}

    def look_once(self, inputs: dict[str, Tensor]) -> Tensor:
        """The maps of the pictures alone, whatever `targets.flip` says, float32 [N, H/s, W/s, L]."""
        return self.model(inputs["images"])

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return PoseMetric(self._figures, len(self.model.pose.names), self._reader)

    def processor(self) -> PoseProcessor:
        """What stands around the network."""
        names = self.names_of_classes()
        return PoseProcessor(self.eval_data.transforms, names, self.model.pose, self._reader)

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """The first objects of the evaluation set that can be read."""
        return readable(range(len(self._eval_set)), self.example, count)

    def example(self, index: int) -> tuple[str, Any]:
        """An object of the evaluation set, cut out."""
        dataset = self._eval_set
        return f"{index}_{dataset.name_of(index).rpartition('/')[2]}", dataset.part(index)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """What was left out when the set was opened."""
        tally.merge(getattr(dataset, "dataset", dataset).skipped().state())

    def names(self, batch: Batch) -> list[str]:
        """What messages call the objects of a batch."""
        return [f"object {number}" for number in batch.get("numbers", ())]


def collate(samples: Sequence[PoseSample], *, stride: int, sigma: float, multiple: int = 1) -> Batch:
    """Objects as a batch.

    Raises ConfigError where H or W is no `multiple`: the maps would reach beyond the crops, and a mirror shift them.

    Returns:
        `images` [N, H, W, 3]; `heatmaps` float32 [N, H/s, W/s, L]; `weights` float32 [N, L], 1 of points that are
        labelled and inside of the image, else 0; `truth` [N, L, 3], `areas`, `sides` and `image_ids` as the files have
        them; `matrices` [N, 2, 3]; `numbers` of the objects in their set.
    """
    maps, weights, truths = [], [], []
    height, width = samples[0].size
    if height % multiple or width % multiple:
        raise ConfigError(
            f"the transforms make pictures of {height}x{width} (height x width); give ObjectCrop sides that are "
            f"multiples of {multiple}, which the network's maps fit"
        )
    for sample in samples:
        points = sample.instances.keypoints
        assert points is not None and sample.truth is not None
        truths.append(sample.truth)
        places, seen = points[0, :, :2], points[0, :, 2] > 0
        inside = ((places >= 0) & (places < [width, height])).all(axis=1)
        weights.append((seen & inside).astype(np.float32))
        maps.append(drawn(places, (height // stride, width // stride), stride, sigma) * weights[-1])
    return {
        "images": np.stack([sample.image for sample in samples]),
        "heatmaps": np.stack(maps),
        "weights": np.stack(weights),
        "truth": np.stack(truths),
        "areas": np.array([sample.area for sample in samples]),
        "sides": np.array([sample.sides for sample in samples]),
        "image_ids": np.array([sample.image_id for sample in samples], np.int64),
        "matrices": np.stack([sample.matrix for sample in samples]),
        "numbers": [sample.number for sample in samples],
    }
