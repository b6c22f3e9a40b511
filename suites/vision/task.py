"""VisionTask: the data half of a task of images or clips, which its suites share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

from framework.data import DataLoader
from suites.engine.config import Config
from suites.engine.task import Batch, Task
from suites.vision.classes import open_dataset
from suites.vision.pipeline import Augmented, Transform


class VisionTask(Task):
    """A network with its data; data sets are opened when they are first needed.

    Attributes:
        wrong_classes: what a user does about a data set with other classes than the config says; `{path}` is the
            data set's place in the config.

    Args:
        config: with the sections of `suites.vision.settings`.
    """

    wrong_classes: ClassVar[str] = "correct data.num_classes"

    def __init__(self, config: Config) -> None:
        self._config = config
        self.model = config.build("model")

    @cached_property
    def _eval_set(self) -> Any:
        return self._open("data.eval.dataset")

    def _open(self, path: str) -> Any:
        return open_dataset(self._config, path, self.wrong_classes.format(path=path))

    @abstractmethod
    def collate(self, dataset: Any) -> Callable[[list[Any]], Batch]:
        """Returns what makes a batch of the samples of `dataset`."""

    def augmented(self, dataset: Any, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """Returns the data set with its transforms; a suite may choose otherwise in training."""
        return Augmented(dataset, transforms)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled, augmented batches; a short last batch is left out."""
        dataset = self._open("data.train.dataset")
        batch_size = self._config["data.train.batch_size"]
        return DataLoader(
            self.augmented(dataset, self._config.build("data.train.transforms"), training=True),
            batch_size,
            shuffle=True,
            seed=seed,
            workers=workers,
            drop_last=len(dataset) >= batch_size,
            batch_transforms=self._config.build("data.train.batch_transforms"),
            collate=self.collate(dataset),
        )

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order."""
        return DataLoader(
            self.augmented(self._eval_set, self._config.build("data.eval.transforms"), training=False),
            self._config["data.eval.batch_size"],
            workers=workers,
            collate=self.collate(self._eval_set),
        )
