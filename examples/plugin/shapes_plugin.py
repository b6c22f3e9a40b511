"""A plug-in in one module: a backbone, a loss, a data set and a hook, which shapes.yml beside it names.

    cd examples/plugin && paddock train shapes.yml

docs/howto/plugins.md explains it.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import cv2
import numpy as np

from framework import Tensor, nn, ops
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register
from suites.engine.train.hooks import Hook
from suites.engine.train.loop import TrainingLoop
from suites.vision.backbones import Backbone
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.recognition.sample import LabelledImage

SIDE = 24  # pixels


@register("backbone")  # for every suite
class TinyNet(Backbone):
    """Three convolutions of stride 2.

    Args:
        width: channels of the first; each has twice as many as the one before.
    """

    strides = (8,)

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.channels = (4 * width,)
        widths = (3, width, 2 * width, 4 * width)
        self.layers = nn.Sequential(*(nn.ConvBNAct(a, b, 3, stride=2) for a, b in pairwise(widths)))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; one map [N, H/8, W/8, 4 * width]."""
        return [self.layers(x)]


@register("loss", suite="classification")  # for one
@dataclass(frozen=True)
class Focal(CrossEntropy):
    """Focal loss (Lin et al. 2017, arXiv:1708.02002): samples that are right already count less.

    Args:
        gamma: how much less; 0 is cross entropy.
    """

    gamma: float = 2.0

    def __call__(self, logits: Tensor, targets: Tensor) -> dict[str, Loss]:
        """The loss by name. logits: [N, K]; targets: [N, K], rows that sum to 1."""
        right = ops.sum(ops.softmax(logits, axis=-1) * targets, axes=-1)
        loss = ops.pow(1.0 - right, self.gamma) * ops.soft_cross_entropy(logits, targets)
        return {"focal": Loss(ops.mean(loss), count_of(targets))}


@register("dataset", suite="classification")
class Shapes(RecognitionDataset):
    """Drawn discs and squares on noise.

    Args:
        split: "train" or "val", which are drawn from other seeds.
        count: how many.
    """

    def __init__(self, split: Literal["train", "val"] = "train", count: int = 64) -> None:
        self.class_names = ("disc", "square")
        self.labels = np.arange(count, dtype=np.int64) % 2
        self._seed = 0 if split == "train" else 1

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledImage:
        """Shape `index`, an image uint8 [SIDE, SIDE, 3]."""
        draw = np.random.default_rng((self._seed, index))
        image = draw.integers(0, 80, (SIDE, SIDE, 3), np.uint8)
        colour, radius = draw.integers(150, 255, 3).tolist(), int(draw.integers(5, 9))
        x, y = draw.integers(radius, SIDE - radius, 2).tolist()
        if self.labels[index]:
            cv2.rectangle(image, (x - radius, y - radius), (x + radius, y + radius), colour, -1)
        else:
            cv2.circle(image, (x, y), radius, colour, -1)
        return LabelledImage.of(image, int(self.labels[index]), self.name_of(index))

    def name_of(self, index: int) -> str:
        """What identifies the shape."""
        return f"shape_{index}"


@register("hook")
class CsvLog(Hook):
    """Writes the figures of each evaluation into `figures.csv` in the run's folder.

    Args:
        figure: which; a column besides the step.
    """

    def __init__(self, figure: str = "top1") -> None:
        self._figure = figure

    def after_evaluation(self, loop: TrainingLoop, metrics: Mapping[str, float]) -> None:
        """Add a row."""
        assert loop.folder is not None
        with (loop.folder / "figures.csv").open("a", newline="") as file:
            csv.writer(file).writerow([loop.step, metrics[self._figure]])
