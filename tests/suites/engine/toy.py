"""A whole suite in one file: learns how bright small images are. For tests of the engine and its tools."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import suites.engine.parts  # noqa: F401 (its roles)
from framework import Tensor, nn, ops
from framework.data import DataLoader
from framework.errors import DataError
from suites.engine.config.sections import RunConfig
from suites.engine.contract.batch import Batch
from suites.engine.contract.gathering import ArrayMetric
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.contract.task import Task
from suites.engine.registry import register

SIZE = 4  # pixels a side
_log = logging.getLogger("suites.toy")


@dataclass
class Data:
    """Made images.

    Args:
        samples: How many there are.
        batch_size: Images a step.
        bad: Index of an image whose label is no number; -1 for none.
        kill: Index of an image whose reading kills the worker; -1 for none.
        damaged: Indices of images that cannot be read, also in evaluation.
        seconds: That reading an image takes.
    """

    samples: int = 20
    batch_size: int = 4
    bad: int = -1
    kill: int = -1
    damaged: list[int] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class ModelSettings:
    """The network.

    Args:
        width: Hidden numbers.
        dropout: Share of hidden numbers that is dropped.
    """

    width: int = 8
    dropout: float = 0.25


@register("config", "toy")
@dataclass(kw_only=True)
class ToyConfig(RunConfig):
    """What the toy takes."""

    model: ModelSettings = field(default_factory=ModelSettings)
    data: Data = field(default_factory=Data)


class Images:
    """Grey images of different brightness; the label is the brightness."""

    def __init__(self, data: Data) -> None:
        self.data = data
        if data.damaged:
            _log.info("toy: %d images, %d of them damaged", data.samples, len(data.damaged))

    def __len__(self) -> int:
        return self.data.samples

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index in self.data.damaged:
            raise DataError(f"{self.name_of(index)}: cut off")
        time.sleep(self.data.seconds)
        if index == self.data.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        brightness = np.nan if index == self.data.bad else index / len(self)
        return {**prepare(image(index, len(self))), "label": np.float32(brightness), "name": self.name_of(index)}

    def name_of(self, index: int) -> str:
        return f"grey{index}.png"


def image(index: int, count: int) -> np.ndarray:
    """A grey image, uint8 [SIZE, SIZE, 3]."""
    return np.full((SIZE, SIZE, 3), 255 * index // count, np.uint8)


def prepare(picture: np.ndarray) -> dict[str, Any]:
    return {"image": picture.reshape(-1).astype(np.float32) / 255}


def noise(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**sample, "image": sample["image"] + rng.normal(0, 0.05, sample["image"].shape).astype(np.float32)}


class Net(nn.Layer):
    """Two linear layers with everything that has a state: batch norm and dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(SIZE * SIZE * 3, width)
        self.norm = nn.BatchNorm(width)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return ops.squeeze(self.out(self.drop(ops.relu(self.norm(self.hidden(x))))), axis=1)


class Error(ArrayMetric):
    """1 - mean absolute error."""

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        self.gather(errors=np.abs(outputs["brightness"] - batch["label"]))

    def result(self) -> dict[str, float]:
        return {"score": 1 - float(np.mean(self.gathered("errors")))}


class ToyProcessor(Processor):
    """Reads small images and paints the prediction."""

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def metadata(self) -> dict[str, Any]:
        return {"unit": self.unit}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> ToyProcessor:
        return cls(**metadata)

    def read(self, path: Path) -> np.ndarray:
        picture = cv2.imread(str(path))
        if picture is None:
            raise DataError(f"{path}: no image, or a damaged one")
        return cv2.resize(picture, (SIZE, SIZE))

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        return {"image": np.stack([prepare(item)["image"] for item in items])}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        return [{"brightness": float(value), "unit": self.unit} for value in outputs["brightness"]]

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        return cv2.imencode(ending, drawing)[1].tobytes()

    def draw(self, item: np.ndarray, result: dict[str, Any]) -> np.ndarray:
        return np.full((32, 32, 3), int(255 * np.clip(result["brightness"], 0, 1)), np.uint8)


@register("task", "toy")
class ToyTask(Task):
    """Brightness by squared error, in two terms so that their names can be seen."""

    train_inputs = ("image", "label")
    eval_inputs = ("image",)
    main_metric = "score"
    processor_class = ToyProcessor

    def __init__(self, model: ModelSettings | None = None, data: Data | None = None) -> None:
        self.data = data or Data()
        settings = model or ModelSettings()
        self.model = Net(settings.width, settings.dropout)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        return DataLoader(
            Images(self.data), self.data.batch_size, shuffle=True, seed=seed, workers=workers, transforms=[noise]
        )

    def eval_loader(self, *, workers: int) -> DataLoader:
        return DataLoader(
            Images(Data(self.data.samples, damaged=self.data.damaged)), self.data.batch_size, workers=workers
        )

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        error = self.model(inputs["image"]) - inputs["label"]
        terms = {"square": ops.mean(ops.square(error)), "size": ops.mean(ops.abs(error)) * 0.1}
        return {name: Loss(mean, count_of(inputs["label"])) for name, mean in terms.items()}

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"brightness": self.model(inputs["image"])}

    def metric(self) -> Metric:
        return Error()

    def processor(self) -> Processor:
        return ToyProcessor("share")

    def examples(self, count: int) -> list[tuple[str, Any]]:
        return [(f"grey{i}.png", image(i, self.data.samples)) for i in range(min(count, self.data.samples))]
