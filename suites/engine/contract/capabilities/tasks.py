"""What single suites' tasks offer beyond `Task`, and what the engine does where one does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from framework.errors import NotSupportedError

if TYPE_CHECKING:
    from framework import Tensor
    from suites.engine.config import Config
    from suites.engine.contract.batch import Batch
    from suites.engine.contract.capabilities.generating import CacheSettings, TextGenerator
    from suites.engine.contract.processor import Processor
    from suites.engine.contract.task import Task
    from suites.engine.reporting import Case, Marked, Plot, Tally


@runtime_checkable
class ScalesRates(Protocol):
    """Learning rates of its own for some parameters."""

    def lr_factors(self) -> dict[str, float]:
        """Return factors on the learning rate by parameter name, such as smaller ones for lower layers."""


@runtime_checkable
class StartsFrom(Protocol):
    """Further kinds of files as `runtime.weights`."""

    def start_from(self, path: Path) -> list[str]:
        """Put the weights of a file or folder into the model; return lines that say what did not fit.

        Raises CheckpointError where nothing fits.
        """


@runtime_checkable
class LooksAgain(Protocol):
    """An `eval_step` that may call the network several times, such as on a picture and on its mirror image."""

    def look_once(self, inputs: dict[str, Tensor]) -> Any:
        """Call the network as training does: once, on each input as it is. What it returns is not looked at.

        `inputs` are those of `eval_step`.
        """


@runtime_checkable
class AdoptsProcessor(Protocol):
    """Preprocessing that is learned from data."""

    def adopt(self, processor: Processor) -> None:
        """Take the preprocessing that a run was trained with, in place of what data sets would give.

        Called before anything else where a saved run is continued, evaluated or exported.
        """


@dataclass(frozen=True)
class Kept:
    """What a run keeps of its beginning.

    Attributes:
        processor: its preprocessing.
        changed: key paths at which the config differs from the one that the run began with.
    """

    processor: Processor
    changed: tuple[str, ...] = ()

    def holds(self, place: str) -> bool:
        """Whether the config still says at `place`, and below, what the run began with."""
        return not any(key == place or key.startswith((f"{place}.", f"{place}[")) for key in self.changed)


@runtime_checkable
class MadeOfKept(Protocol):
    """A config that names files whose contents a run's processor keeps, such as a tokenizer's vocabulary."""

    @classmethod
    def from_kept(cls, config: Config, kept: Kept) -> Self:
        """Return the task of a run as `from_config` does, without reading those files again.

        Where the config says something else than the run began with, its own files are read.
        """


@runtime_checkable
class NamesClasses(Protocol):
    """Classes whose names may come from elsewhere than the evaluation set."""

    def name_classes(self, names: Sequence[str]) -> None:
        """Take the names of the classes of published weights, which come without data."""


@runtime_checkable
class KnowsClasses(Protocol):
    """Classes with names."""

    def names_of_classes(self) -> Sequence[str]:
        """Return the names of the classes, in the order of their numbers."""


@runtime_checkable
class SeveralSets(Protocol):
    """More than one evaluation set."""

    def with_eval(self, data: Any) -> Self:
        """Return this task with another evaluation set and the same model, for `more_eval`."""


@runtime_checkable
class Publishes(Protocol):
    """Files beside an export, of which the processor's `feed` makes the Program's inputs."""

    def export_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return what `eval_step` does, of what the processor's `feed` makes of its inputs."""

    def publish(self, export: Path) -> None:
        """Write what `feed` needs beside an export."""


@runtime_checkable
class PlotsRuns(Protocol):
    """Files of its own in a run's folder that a report shows."""

    @classmethod
    def run_plots(cls, run: Path) -> Sequence[Plot]:
        """Return plots of what this kind of task wrote into a run's folder."""


@runtime_checkable
class Generates(Protocol):
    """Models that may write token by token, for many requests at once."""

    def generator(self, processor: Processor) -> Callable[[CacheSettings], TextGenerator] | None:
        """Return what makes the generator with this processor; None for a model that does not write so."""


@runtime_checkable
class JoinsModels(Protocol):
    """Several trained models that may answer as one."""

    def join(self, others: Sequence[Task]) -> None:
        """Let this task's model answer together with those of others.

        Raises ConfigError where they do not fit, such as tasks of other suites or models of different vocabularies.
        """


@runtime_checkable
class ManyParts(Protocol):
    """Batches of evaluation that are predicted on in several parts, such as windows of large pictures."""

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """Make what is predicted on one after the other for a batch of `eval_loader`.

        The metric's `update_joined` takes them in together.
        """


@runtime_checkable
class GivesExamples(Protocol):
    """Single samples of the evaluation set."""

    def example(self, index: int) -> tuple[str, Any]:
        """Return (name, item) of a sample of the evaluation set, to draw a prediction on it."""


@runtime_checkable
class ShowsCases(Protocol):
    """A way of its own to show what was predicted wrongly."""

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray | Marked]:
        """Return the source of a case of the metric's `worst` and how it looks: a picture, or a marked text.

        `predict` takes an item and returns its result.
        """


@runtime_checkable
class GivesFeatures(Protocol):
    """What a classifier's last layer sees, for `paddock probe`."""

    def features(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return [N, D] of the arrays of `eval_inputs`; NotSupportedError for a model that has none."""

    def truth(self, batch: Batch) -> np.ndarray:
        """Return the class of each sample of a batch of `eval_loader`, int64 [N]."""

    def on_training_set(self) -> Self:
        """Return this task with its training set in place of the evaluation set, and seen as that one is."""


@runtime_checkable
class CountsSets(Protocol):
    """What a set says of itself."""

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """Note what a set says of itself without reading a sample.

        Such as its classes with their numbers, and what was left out when it was opened. `dataset` is that of the
        loader; `training` says whether of training or of this task's evaluation set.
        """


@runtime_checkable
class CountsBatches(Protocol):
    """What only batches show."""

    def count_batch(self, tally: Tally, batch: Batch, *, training: bool) -> None:
        """Count what only a batch shows, such as the classes of pixels.

        Called for every batch of an evaluation and for some of training, so it has to be quick.
        """


def evaluations(task: Task) -> dict[str, Task]:
    """Return the task by the name of each evaluation set: "" for `eval`, then those of `more_eval`.

    They share the model; `eval_loader`, `metric` and `examples` of each are of its own set.

    Raises NotSupportedError for `more_eval` of a task that has one set.
    """
    if not task.more_eval:
        return {"": task}
    if not isinstance(task, SeveralSets):
        raise NotSupportedError(f"{type(task).__name__} has one evaluation set: it does not take `more_eval`")
    return {"": task, **{name: task.with_eval(data) for name, data in task.more_eval.items()}}


def adopt(task: Task, processor: Processor) -> None:
    """Let the task take the preprocessing that a run was trained with, where it learns some from data."""
    if isinstance(task, AdoptsProcessor):
        task.adopt(processor)


def join(task: Task, others: Sequence[Task]) -> None:
    """Let a task's model answer together with those of others; NotSupportedError where it cannot."""
    if not isinstance(task, JoinsModels):
        raise NotSupportedError(
            f"{type(task).__name__}: its models do not answer together (--with); those that write texts do"
        )
    task.join(others)


def name_classes(task: Task, names: Sequence[str]) -> None:
    """Name the classes of published weights; NotSupportedError where they come from data alone."""
    if not isinstance(task, NamesClasses):
        raise NotSupportedError(f"{type(task).__name__}: cannot be given the names of its classes")
    task.name_classes(names)


def class_names(task: Task) -> tuple[str, ...]:
    """Return the names of a task's classes; none where it knows no classes."""
    return tuple(task.names_of_classes()) if isinstance(task, KnowsClasses) else ()


def run_plots(task: type[Task] | Task, run: Path) -> Sequence[Plot]:
    """Return plots of what this kind of task wrote into a run's folder, for its report."""
    return task.run_plots(run) if isinstance(task, PlotsRuns) else ()


def drawn_case(task: Task, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray | Marked]:
    """Return the source of a case and how it looks: by default the prediction on its sample, drawn."""
    if isinstance(task, ShowsCases):
        return task.show_case(case, predict)
    if not isinstance(task, GivesExamples):
        raise NotSupportedError(f"{type(task).__name__}: gives no single samples")
    name, item = task.example(case.index)
    drawing = task.processor().draw(item, predict(item))
    return name, [(drawing, "")] if isinstance(drawing, str) else drawing


def parts_of(task: Task, batch: Batch) -> Iterable[Batch]:
    """Return what a batch of evaluation is predicted on by, see `ManyParts`; by default the batch."""
    return task.parts(batch) if isinstance(task, ManyParts) else (batch,)


def count_set(task: Task, tally: Tally, dataset: Any, *, training: bool) -> None:
    """Note what a set says of itself, see `CountsSets`."""
    if isinstance(task, CountsSets):
        task.count(tally, dataset, training=training)


def count_batch(task: Task, tally: Tally, batch: Batch, *, training: bool) -> None:
    """Count what only a batch shows, see `CountsBatches`."""
    if isinstance(task, CountsBatches):
        task.count_batch(tally, batch, training=training)
