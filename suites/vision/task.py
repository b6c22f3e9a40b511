"""VisionTask: the data half of a task of images or clips, which its suites share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

from framework.data import BatchSampler, DataLoader, FixedBatches, ShuffledSampler
from framework.errors import AttributeValueError
from framework.nn import Layer
from suites.engine.contract.batch import Batch
from suites.engine.contract.data_task import DataTask
from suites.engine.contract.processor import Processor
from suites.vision.augmentation.pipeline import Augmented, Transform
from suites.vision.classes import TRAINING, ClassNames, expect_same_classes, open_dataset
from suites.vision.ordering import LikeShapes
from suites.vision.settings import EvalData, TrainData


class VisionTask(DataTask[TrainData, EvalData]):
    """A network with its data; data sets that are factories are opened when they are first needed.

    Attributes:
        wrong_classes: what a user does about a data set with other classes than wanted; `{path}` is the data set's
            place in a config.

    Args:
        model: the network.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        num_classes: how many classes the data sets must have; None for as many as the model predicts.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.

    Raises:
        AttributeValueError: the network predicts another number of classes than `num_classes`.
    """

    wrong_classes: ClassVar[str] = "correct data.num_classes"
    _named: tuple[str, tuple[str, ...]] | None = None  # what says the classes of evaluation sets, and their names

    def __init__(
        self,
        model: Layer,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        num_classes: int | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(train, eval, more_eval)
        self.model = model
        found: int | None = getattr(model, "num_classes", None)
        if num_classes is not None and found is not None and num_classes != found:
            raise AttributeValueError(
                f"{type(self).__name__}: data.num_classes is {num_classes} but {type(model).__name__} predicts "
                f"{found}; set it to {found} and choose classes of the data, or take a model whose classes can be set"
            )
        self._num_classes = found if num_classes is None else num_classes

    @cached_property
    def _eval_set(self) -> Any:
        found = self._open(self.eval_data.dataset, "data.eval.dataset")
        if self._named is not None:
            self._expect_classes("data.eval.dataset", found.class_names, *self._named)
        return found

    def adopt(self, processor: Processor) -> None:
        """Takes up which classes the run was trained with, for the sets that it is evaluated on."""
        names = tuple(processor.metadata().get("class_names", ()))
        self._named = ("the run", names) if names else None

    def with_eval(self, data: EvalData) -> Self:
        """Return this task with another evaluation set and the same model."""
        other = super().with_eval(data)
        if self._named is None and self._eval is not None:
            other._named = "data.eval.dataset", tuple(self.names_of_classes())
        return other

    def _expect_classes(self, place: str, names: Sequence[str], other: str, others: Sequence[str]) -> None:
        """Raises ConfigError where classes of the network are other ones in two sets; see `expect_same_classes`."""
        if self._num_classes is not None and len(names) == len(others) > 1:
            expect_same_classes(place, names, other, others)

    def names_of_classes(self) -> Sequence[str]:
        """Names of the classes, as the evaluation set has them."""
        names: Sequence[str] = self._eval_set.class_names
        return names

    def name_classes(self, names: Sequence[str]) -> None:
        """Lets these names stand for the evaluation set, where nothing else is asked of it."""
        vars(self)["_eval_set"] = ClassNames(tuple(names))

    def _open(self, dataset: Any, path: str) -> Any:
        found = open_dataset(dataset, self._num_classes, path, self.wrong_classes.format(path=path))
        if path == TRAINING and self._eval is not None:
            self._expect_classes(path, found.class_names, "data.eval.dataset", self.names_of_classes())
        return found

    @abstractmethod
    def collate(self, dataset: Any) -> Callable[[list[Any]], Batch]:
        """Returns what makes a batch of the samples of `dataset`."""

    def augmented(self, dataset: Any, transforms: Sequence[Transform], *, training: bool) -> Augmented:
        """Returns the data set with its transforms; a suite may choose otherwise in training."""
        return Augmented(dataset, transforms)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled, augmented batches; a short last batch is left out."""
        data = self.train_data
        dataset = self._open(data.dataset, "data.train.dataset")
        return DataLoader(
            self.augmented(dataset, data.transforms, training=True),
            data.batch_size,
            shuffle=True,
            seed=seed,
            workers=workers,
            drop_last=len(dataset) >= data.batch_size,
            batch_transforms=data.batch_transforms,
            collate=self.collate(dataset),
            batch_sampler=self._batches(dataset, seed),
        )

    def _batches(self, dataset: Any, seed: int) -> BatchSampler | None:
        """The batches of an epoch; None for each sample once, at random."""
        data = self.train_data
        if data.order is None and not data.like_shapes:
            return None
        whole = ShuffledSampler(len(dataset), seed=seed)
        sampler = whole if data.order is None else data.order.sampler(dataset, seed)
        if data.like_shapes:
            return LikeShapes(sampler, dataset.wide_samples(), data.batch_size, seed)
        return FixedBatches(sampler, data.batch_size, drop_last=len(dataset) >= data.batch_size)

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order."""
        return DataLoader(
            self.augmented(self._eval_set, self.eval_data.transforms, training=False),
            self.eval_data.batch_size,
            workers=workers,
            collate=self.collate(self._eval_set),
        )


def unprepared(samples: list[Any]) -> Batch:
    """The samples as they are, for a task that makes the `parts` of its batches of evaluation."""
    return {"samples": samples}
