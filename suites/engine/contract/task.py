"""Task: what the engine asks of a suite, and nothing more.

The engine owns the loop, the files and the schedule. A suite derives one class from `Task`, registers it as
`@register("task", "<suite>")`, and derives one from `Processor` for what stands around the network when it
predicts, which an exported model carries along.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from framework.atomic import atomic_file
from framework.data import DataLoader, StreamLoader
from framework.errors import ConfigError, DataError, NotSupportedError
from framework.io import load_tensors
from suites.engine.config import Config, Factory, plain
from suites.engine.config.signatures import signature_of
from suites.engine.contract.fitting import RowBuckets
from suites.engine.data.intake.naming import entries
from suites.engine.recording import given
from suites.engine.registry import REGISTRY
from suites.engine.train.train_step import TrainStep
from suites.engine.weights import load_pretrained, load_weights

if TYPE_CHECKING:
    from framework import Tensor
    from framework.nn import Layer
    from framework.optim import Optimizer
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.feeding import Feed
    from suites.engine.contract.fitting import Fitting
    from suites.engine.contract.losses import Kept, Loss, Scalar
    from suites.engine.contract.resources import Resource
    from suites.engine.contract.step import Step
    from suites.engine.reporting import Case, Marked, Plot, Tally
    from suites.engine.train.hooks import Hook

Self = TypeVar("Self", bound="Task")
Batch = Mapping[str, Any]  # arrays [N, ...] by name, and lists of N with what is no array


class Metric(ABC):
    """Gathers predictions of a whole evaluation set, then gives the field's figures."""

    @abstractmethod
    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Take in the outputs of `eval_step` for one batch; the arrays must be copied to be kept."""

    def leave_out(self, indices: Sequence[int]) -> None:  # noqa: B027  (an offer, not a duty)
        """Take note, before `result`, of samples of the evaluation set that could not be read."""

    def plots(self) -> Sequence[Plot]:
        """Return plots of what was gathered, for a report; by default none."""
        return ()

    def worst(self, count: int) -> Mapping[str, Sequence[Case]]:
        """Return up to `count` samples that were predicted worst, the worst first, by what is the matter with them.

        By default none. `Task.show_case` has to show such a sample.
        """
        return {}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what was gathered so far, as plain data: arrays, numbers, strings, and lists and dicts of them."""

    @abstractmethod
    def merge(self, state: Mapping[str, Any]) -> None:
        """Take in what another metric of the same evaluation set gathered, given by its `state`.

        Parts of a set that are merged give the figures of the whole.
        """

    @abstractmethod
    def result(self) -> dict[str, float]:
        """Return flat names to numbers, such as {"AP": 0.41, "AP50": 0.67}."""

    def report(self) -> str:
        """Return more than numbers, such as a table of the classes, in Markdown; by default nothing."""
        return ""


@dataclass(frozen=True)
class OverTime:
    """What is wanted of a video, or of a live input.

    Attributes:
        window: seconds that one prediction is about; None for each frame by itself.
        video: where to write it with what is predicted drawn on it; None writes nothing.
        seconds: after which a live input ends; None for when the user stops it.
    """

    window: float | None = None
    video: Path | None = None
    seconds: float | None = None


class Processor(ABC):
    """Preprocessing and presentation of predictions; made from plain data alone, without data set or model.

    Attributes:
        endings: of the files that are taken from a folder of inputs, lower case.
        poolings: ways in which `embeddings` makes one vector of an item, the default first; none without vectors.
        files_in_json: whether JSON items carry whole files as base64 text, to which no limit of characters applies.
        quick_to_read: whether `from_json`, `cost`, `truncated` and `prepare` look at each character of a JSON item only
            a few times, whatever it says, so that a server may call them in its own process. False for what has
            decoders or expressions: a server then reads in processes that it can end.
        batch_size: how many inputs are predicted on together; 1 where their shapes may differ.
    """

    batch_size: ClassVar[int] = 1
    endings: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
    poolings: tuple[str, ...] = ()
    files_in_json: ClassVar[bool] = False
    quick_to_read: ClassVar[bool] = False

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Return all that makes this processor, fit for JSON: transforms, class names, thresholds."""

    @classmethod
    @abstractmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Processor:
        """Make the processor that `metadata` describes."""

    def with_min_score(self, score: float) -> Processor:
        """Return the same processor that leaves out results of a lower score.

        Raises ConfigError where results have no scores, or a score outside of 0 to 1.
        """
        metadata = self.metadata()
        if "min_score" not in metadata:
            raise ConfigError("infer: this model's results have no scores, so --min-score leaves out none of them")
        if not 0 <= score <= 1:
            raise ConfigError(f"infer: --min-score is {score:g}; a score lies between 0 and 1")
        return self.from_metadata({**metadata, "min_score": score})

    def with_texts(self) -> Processor:
        """Return the same processor that takes each word of `inputs` for a text; ConfigError where it reads files."""
        raise ConfigError("infer: this model reads files, so --text says nothing; take it away")

    def require_input(self, word: str) -> None:  # noqa: B027 (most processors have nothing to refuse)
        """Raise DataError for a word that stands for no input, such as a mistyped name; by default none does.

        Words that name a file that cannot be read are skipped instead, see `read`.
        """

    def fitting(self) -> Fitting | None:
        """Return what brings batches to few shapes where a device compiles for each; by default `RowBuckets`."""
        return RowBuckets()

    def takes(self, path: Path) -> bool:
        """Return whether `path` is an input; a folder that is none is searched for inputs."""
        return path.suffix.lower() in self.endings and not path.is_dir()

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Return (name, what reads it) of each input that a word of the command line stands for.

        By default a file, or the inputs in a folder, in the order of their numbers.
        """
        path = Path(word)
        inside = path.is_dir() and not self.takes(path)
        paths = [p for p in entries(path) if self.takes(p)] if inside else [path]
        return [(str(found), partial(self.read, found)) for found in paths]

    @abstractmethod
    def read(self, path: Path) -> Any:
        """Read one input, e.g. an image as uint8 [H, W, 3] RGB; raise DataError for a damaged or missing file."""

    @abstractmethod
    def prepare(self, items: Sequence[Any]) -> Batch:
        """Make a batch with the arrays that `eval_step` takes, exactly as in evaluation."""

    def batches(self, items: Sequence[Any]) -> Iterable[Batch]:
        """Make the batches that are predicted on one after the other for these items; by default one."""
        yield self.prepare(items)

    def joined(self, found: Iterable[tuple[Mapping[str, np.ndarray], Batch]]) -> list[Any]:
        """Return the results of the items out of the outputs on all of their `batches`.

        Outputs may be overwritten when the next batch is asked for.
        """
        ((outputs, batch),) = found
        return self.results(outputs, batch)

    @abstractmethod
    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """Return what is predicted for each item, in the item's own coordinates."""

    def feed(self, export: Path) -> Feed | None:
        """Return what makes a Program's inputs of a batch's arrays, by files beside the export; None: they are them."""
        return None

    def summary(self, result: Any) -> Any:
        """Return what `predictions.json` says of a result, fit for JSON; by default the result itself."""
        return result

    def files(self, result: Any) -> dict[str, bytes]:
        """Return further files of a result, ending to content, such as {".png": ...}; by default none."""
        return {}

    @abstractmethod
    def draw(self, item: Any, result: Any) -> np.ndarray | str:
        """Return a picture of the prediction, uint8 [H, W, 3] RGB; or lines of text, where the input is text."""

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """Return a drawing as the content of a picture file of this ending, such as ".png"."""
        raise NotSupportedError(f"{type(self).__name__}: draws no pictures")

    def write_picture(self, path: Path, drawing: np.ndarray) -> Path:
        """Write a drawing in the format of the path's ending, whole or not at all; return the path."""
        with atomic_file(path) as part:
            part.write_bytes(self.picture(drawing, path.suffix))
        return path

    def from_json(self, value: Any) -> Any:
        """Return the item that a request's JSON value stands for; raise DataError for one that is none.

        By default NotSupportedError: this processor's items come from files only, so it cannot be served.
        """
        raise NotSupportedError(f"{type(self).__name__}: makes no items from JSON, so this model cannot be served")

    def decoded_bytes(self, value: Any) -> int:
        """Return the bytes that `from_json` will make of a value, known before it does; DataError for too many."""
        return 0

    def is_live(self, word: str) -> bool:
        """Return whether an input of `paddock infer` goes on until it is stopped, as a camera does; `film` takes it."""
        return False

    def film(self, path: Path, predict: Callable[[list[Any]], list[Any]], how: OverTime) -> Any:
        """Return what is predicted over the time of a video file, fit for JSON; one part is in memory at a time.

        Args:
            path: the video, or an input that `is_live`.
            predict: items to results.
            how: what is wanted.

        By default NotSupportedError: this processor's items are no parts of a video.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: this model takes no videos, so there is no --window and --video"
        )

    def drawn_over_time(self, found: Any) -> np.ndarray | None:
        """Return a picture of what `film` returned; by default none."""
        return None

    def example(self) -> Any:
        """Return a JSON value that `from_json` takes, for a server's first run; None if there is none."""
        return None

    def cost(self, item: Any) -> int:
        """Return how much work an item is, in a unit that adds up over a batch: tokens, where items have them."""
        return 1

    def truncated(self, item: Any) -> bool:
        """Return whether `from_json` left out the end of an item because the model takes no more."""
        return False

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """Return a vector for each item, float32 [N, D]; `pooling` is one of `poolings`."""
        raise NotSupportedError(f"{type(self).__name__}: this model gives no vectors")


def readable(
    indices: Iterable[int], read: Callable[[int], tuple[str, Any]], count: int | None = None
) -> list[tuple[str, Any]]:
    """Return (name, item) pairs of samples, without those that cannot be read; `count` at most."""
    found: list[tuple[str, Any]] = []
    for index in indices:
        if len(found) == count:
            break
        with contextlib.suppress(DataError, OSError):
            found.append(read(index))
    return found


def opened(dataset: Any) -> Any:
    """Return the data set, made now if it is a `Factory`."""
    return dataset() if isinstance(dataset, Factory) else dataset


def _place(config: Config, name: str) -> str | None:
    return next((path for path in (name, f"data.{name}") if config.has(path)), None)


class Task(ABC):
    """Model, data and metric of one run.

    The engine makes optimizer, schedule and everything else.

    Attributes:
        model: the network; its parameters are what is trained and saved.
        train_inputs: names of the batch arrays that `train_step` takes.
        eval_inputs: names of the batch arrays that `eval_step` takes, also of the exported program.
        main_metric: the figure that decides which weights are best, unless the settings name another.
        lower_is_better: whether the lower `main_metric` is the better one.
        processor_class: the suite's `Processor`.
        helpers: layers that only training needs, such as the projections of a distillation: trained and kept in
            checkpoints, but no part of the weights that are evaluated and exported. Made in `begin`.
        more_eval: further evaluation sets by name.
    """

    model: Layer
    train_inputs: tuple[str, ...]
    eval_inputs: tuple[str, ...]
    main_metric: str
    lower_is_better: bool = False
    helpers: Layer | None = None
    more_eval: Mapping[str, Any] = MappingProxyType({})
    processor_class: ClassVar[type[Processor]]

    @classmethod
    def from_config(cls: type[Self], config: Config) -> Self:
        """Return the task that a config describes: each argument is the section, or the part of `data`, of its name."""
        places = {name: _place(config, name) for name in signature_of(cls).parameters}
        return cls(**{name: config.part(place) for name, place in places.items() if place is not None})

    def to_config(self) -> dict[str, Any]:
        """Return what a config says of this task, the inverse of `from_config`.

        Raises ConfigError where it was made with an object whose class is not registered.
        """
        suite = REGISTRY.suite_of("task", type(self))
        sections = signature_of(REGISTRY.seen_by(suite).get("config", suite)).parameters
        written: dict[str, Any] = {"suite": suite}
        for name, value in given(self).items():
            if value is not None:
                (written if name in sections else written.setdefault("data", {}))[name] = plain(value, suite=suite)
        return written

    @abstractmethod
    def train_loader(self, *, seed: int, workers: int) -> DataLoader | StreamLoader:
        """Return the loader of training batches, shuffled; its length, if it has one, is what an epoch means."""

    @abstractmethod
    def eval_loader(self, *, workers: int) -> DataLoader:
        """Return the loader of evaluation batches, in order and without random transforms."""

    @classmethod
    def run_plots(cls, run: Path) -> Sequence[Plot]:
        """Return plots of what this kind of task wrote into a run's folder, for its report; by default none."""
        return ()

    def fitting(self) -> Fitting | None:
        """Return what brings batches to few shapes where a device compiles for each; by default nothing does."""
        return None

    def evaluations(self) -> dict[str, Task]:
        """Return this task by the name of each evaluation set: "" for `eval`, then those of `more_eval`.

        They share the model; `eval_loader`, `metric` and `examples` of each are of its own set.
        """
        return {"": self, **{name: self.with_eval(data) for name, data in self.more_eval.items()}}

    def with_eval(self, data: Any) -> Task:
        """Return this task with another evaluation set and the same model, for `more_eval`.

        By default NotSupportedError: the task has one evaluation set.
        """
        raise NotSupportedError(f"{type(self).__name__} has one evaluation set: it does not take `more_eval`")

    @abstractmethod
    def train_step(self, inputs: dict[str, Tensor]) -> Mapping[str, Loss | Scalar | Kept]:
        """Return the loss terms by name, each a mean with its weight; the sum of the means is minimised.

        Each `Scalar` among them is logged only, each `Kept` is an array for hooks.

        Runs the model in training mode. It is traced into a Program, so it uses operators only and never looks
        at numbers; `inputs` holds the arrays named by `train_inputs`.
        """

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """Return what one update is; by default one batch, or `runtime.accumulate`, and one optimizer.

        Args:
            make_optimizer: takes `params`, (name, parameter) pairs, and returns the optimizer that the run asks for.
            runtime: how the run trains.
        """
        return TrainStep.of(self, make_optimizer, runtime)

    @abstractmethod
    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the predictions as arrays by name; traced and exported, so the same rules hold."""

    def export_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return what `eval_step` does, of what the processor's `feed` makes of its inputs; by default the same."""
        return self.eval_step(inputs)

    def publish(self, export: Path) -> None:  # noqa: B027  (an offer, not a duty)
        """Write what `feed` needs beside an export; by default nothing."""

    @abstractmethod
    def metric(self) -> Metric:
        """Return a new, empty metric for the evaluation set."""

    @abstractmethod
    def processor(self) -> Processor:
        """Return what stands around the network when it predicts."""

    @abstractmethod
    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Return up to `count` (name, item) pairs of the evaluation set, to draw predictions on; see `readable`."""

    def adopt(self, processor: Processor) -> None:  # noqa: B027  (an offer, not a duty)
        """Take the preprocessing that a run was trained with, in place of what data sets would give.

        Called before anything else where a saved run is continued, evaluated or exported.
        """

    def name_classes(self, names: Sequence[str]) -> None:
        """Take the names of the classes from here, in place of the evaluation set, which need not be there then.

        Of published weights, which come without data. By default NotSupportedError.
        """
        raise NotSupportedError(f"{type(self).__name__}: cannot be given the names of its classes")

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:  # noqa: B027  (an offer, not a duty)
        """Prepare for training, before anything else of it.

        `run` is the run's folder, for files worth keeping; None where only a batch or two will be looked at.
        `say` takes lines for people, where it takes long. `seed` is that of the weights' start.
        """

    def hooks(self) -> Sequence[Hook]:
        """Return hooks of the training loop that the task needs besides the usual ones."""
        return ()

    def start_from(self, path: Path) -> list[str]:
        """Put the weights of `runtime.weights` into the model; return lines that say what did not fit.

        By default what fits of a safetensors file of ours, or all of a file of another framework whose names the model
        knows. Raises CheckpointError where nothing fits.
        """
        if path.suffix == ".safetensors" and self.model.state_dict().keys() & load_tensors(path).keys():
            return load_weights(self.model, path, partial=True)
        return [str(load_pretrained(self.model, path))]

    def resources(self) -> Mapping[str, Resource]:
        """Return what the model keeps in files of its own, by name, such as a table of rows; by default nothing."""
        return {}

    def lr_factors(self) -> dict[str, float]:
        """Return factors on the learning rate by parameter name, such as smaller ones for lower layers."""
        return {}

    def example(self, index: int) -> tuple[str, Any]:
        """Return (name, item) of a sample of the evaluation set, to draw a prediction on it.

        By default NotSupportedError, where no metric has a `worst`.
        """
        raise NotSupportedError(f"{type(self).__name__}: gives no single samples")

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, np.ndarray | Marked]:
        """Return the source of a case of the metric's `worst` and how it looks: a picture, or a marked text.

        By default the prediction for `example`, drawn. `predict` takes an item and returns its result.
        """
        name, item = self.example(case.index)
        drawing = self.processor().draw(item, predict(item))
        return name, [(drawing, "")] if isinstance(drawing, str) else drawing

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:  # noqa: B027  (an offer, not a duty)
        """Note what a set says of itself without reading a sample; by default nothing.

        Such as its classes with their numbers, and what was left out when it was opened. `dataset` is that of the
        loader; `training` says whether of training or of this task's evaluation set.
        """

    def count_batch(self, tally: Tally, batch: Batch, *, training: bool) -> None:  # noqa: B027  (an offer, not a duty)
        """Count what only a batch shows, such as the classes of pixels; by default nothing.

        Called for every batch of an evaluation and for some of training, so it has to be quick.
        """

    def names(self, batch: Batch) -> list[str]:
        """Return what messages call the samples of a batch; by default its list `name`."""
        return [str(name) for name in batch.get("name", ())]
