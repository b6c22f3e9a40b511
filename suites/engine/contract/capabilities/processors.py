"""What single suites' processors offer beyond `Processor`, and what the engine does where one does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from framework.atomic import atomic_file
from framework.errors import ConfigError, NotSupportedError
from suites.engine.contract.batch import Batch, Found

if TYPE_CHECKING:
    from suites.engine.contract.feeding import Feed
    from suites.engine.contract.processor import Processor


@runtime_checkable
class TakesTexts(Protocol):
    """Words of the command line may be texts."""

    def with_texts(self) -> Processor:
        """Return the same processor that takes each word of `inputs` for a text."""

    def require_input(self, word: str) -> None:
        """Raise DataError for a word that stands for no input, such as a mistyped name.

        Words that name a file that cannot be read are skipped instead, see `Processor.read`.
        """


@runtime_checkable
class ManyBatches(Protocol):
    """Items that are looked at in several batches, such as windows of a large picture."""

    def batches(self, items: Sequence[Any]) -> Iterable[Batch]:
        """Make the batches that are predicted on one after the other for these items."""

    def joined(self, found: Iterable[Found]) -> list[Any]:
        """Return the results of the items out of the outputs on all of their `batches`.

        Outputs may be overwritten when the next batch is asked for.
        """


@runtime_checkable
class FollowsOutputs(Protocol):
    """`ManyBatches` whose next batch depends on what the network gave for the last one.

    Its batches are made where the outputs are: never in another process, and never before they are wanted.
    """

    def follow(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Take in what the network gave for the last batch; `joined` does so."""


@runtime_checkable
class TakesObjects(Protocol):
    """Items may be objects that a detector found in larger ones, see `suites.engine.predict.objects`."""

    def objects_in(self, item: Any, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return an item for each row, a detector's `box` [x1, y1, x2, y2] with what else it says of the object."""

    def draw_objects(self, item: Any, rows: Sequence[Mapping[str, Any]], results: Sequence[Any]) -> np.ndarray:
        """Return a picture of an item with all its objects, of which `results` are what this model says."""


@runtime_checkable
class FeedsProgram(Protocol):
    """Inputs of a Program that are made by files beside the export."""

    def feed(self, export: Path) -> Feed | None:
        """Return what makes a Program's inputs of a batch's arrays; None: they are them."""


@runtime_checkable
class DrawsPictures(Protocol):
    """Drawings that are pictures."""

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """Return a drawing as the content of a picture file of this ending, such as ".png"."""


@runtime_checkable
class TellsLines(Protocol):
    """Results that are texts though drawings are pictures, so that an output folder is not needed to see them."""

    def lines(self, result: Any) -> list[str]:
        """Return what a terminal shows of a result."""


@runtime_checkable
class Documents(Protocol):
    """Results that can be written as documents of known formats, which need the item too.

    Attributes:
        formats: names, which are the files' endings.
    """

    formats: tuple[str, ...]

    def document(self, item: Any, result: Any, kind: str) -> bytes:
        """Return a result as a document of one of `formats`."""


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


@runtime_checkable
class Films(Protocol):
    """Predictions over the time of a video."""

    def film(self, path: Path, predict: Callable[[list[Any]], list[Any]], how: OverTime) -> Any:
        """Return what is predicted over the time of a video file, fit for JSON; one part is in memory at a time.

        Args:
            path: the video, or an input that `is_live`.
            predict: items to results.
            how: what is wanted.
        """


@runtime_checkable
class DrawsTime(Protocol):
    """A picture of what `Films.film` returns."""

    def drawn_over_time(self, found: Any) -> np.ndarray | None:
        """Return a picture of what `film` returned, or none."""


@runtime_checkable
class TakesLive(Protocol):
    """Inputs that go on, such as a camera."""

    def is_live(self, word: str) -> bool:
        """Return whether an input of `paddock infer` goes on until it is stopped; `film` takes it."""


def with_texts(processor: Processor) -> Processor:
    """Return the same processor that takes words for texts; ConfigError where it reads files."""
    if not isinstance(processor, TakesTexts):
        raise ConfigError("infer: this model reads files, so --text says nothing; take it away")
    return processor.with_texts()


def writer_of(processor: Processor, formats: Sequence[str]) -> Callable[[Any, Any], dict[str, bytes]]:
    """Return what makes the documents of an item and its result, ending to content; without formats none.

    Raises ConfigError for a format that the processor does not have.
    """
    known = processor.formats if isinstance(processor, Documents) else ()
    for kind in formats:
        if kind not in known:
            said = f"this model has {', '.join(known)}" if known else "this model writes no documents"
            raise ConfigError(f"infer: --format {kind}: {said}")
    if not isinstance(processor, Documents):
        return lambda item, result: {}
    return lambda item, result: {f".{kind}": processor.document(item, result, kind) for kind in formats}


def require_input(processor: Processor, word: str) -> None:
    """Raise DataError for a word that stands for no input; only texts can be mistyped names."""
    if isinstance(processor, TakesTexts):
        processor.require_input(word)


def feed_of(processor: Processor, export: Path) -> Feed | None:
    """Return what makes a Program's inputs of a batch's arrays; None: they are them."""
    return processor.feed(export) if isinstance(processor, FeedsProgram) else None


def film(processor: Processor, path: Path, predict: Callable[[list[Any]], list[Any]], how: OverTime) -> Any:
    """Return what is predicted over time, see `Films`; NotSupportedError where items are no parts of a video."""
    if not isinstance(processor, Films):
        name = type(processor).__name__
        raise NotSupportedError(f"{name}: this model takes no videos, so there is no --window and --video")
    return processor.film(path, predict, how)


def picture(processor: Processor, drawing: np.ndarray, ending: str) -> bytes:
    """Return a drawing as the content of a picture file; NotSupportedError where the suite draws none."""
    if not isinstance(processor, DrawsPictures):
        raise NotSupportedError(f"{type(processor).__name__}: draws no pictures")
    return processor.picture(drawing, ending)


def write_picture(processor: Processor, path: Path, drawing: np.ndarray) -> Path:
    """Write a drawing in the format of the path's ending, whole or not at all; return the path."""
    with atomic_file(path) as part:
        part.write_bytes(picture(processor, drawing, path.suffix))
    return path
