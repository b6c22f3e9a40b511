"""Processor: preprocessing and presentation, which an exported model carries along."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import ConfigError, NotSupportedError
from suites.engine.contract.batch import Batch
from suites.engine.data.intake.naming import entries
from suites.engine.data.intake.passed import PassedOver


class Processor(ABC):
    """Preprocessing and presentation of predictions; made from plain data alone, without data set or model.

    What single suites offer besides are the protocols of `capabilities`; what a server asks for is `ServedProcessor`.

    Attributes:
        endings: of the files that are taken from a folder of inputs, lower case.
        batch_size: how many inputs are predicted on together; 1 where their shapes may differ.
    """

    batch_size: ClassVar[int] = 1
    endings: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Return all that makes this processor, fit for JSON: transforms, class names, thresholds."""

    @classmethod
    @abstractmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Processor:
        """Make the processor that `metadata` describes."""

    def takes(self, path: Path) -> bool:
        """Return whether `path` is an input; a folder that is none is searched for inputs."""
        return path.suffix.lower() in self.endings and not path.is_dir()

    def inputs(self, word: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Return (name, what reads it) of each input that a word of the command line stands for.

        By default a file, or those of `files_in` a folder.
        """
        path = Path(word)
        inside = path.is_dir() and not self.takes(path)
        paths = self.files_in(path) if inside else [path]
        return [(str(found), partial(self.read, found)) for found in paths]

    def files_in(self, folder: Path) -> list[Path]:
        """Return the inputs in a folder, in the order of their numbers; what else is there is logged."""
        passed, found = PassedOver(), []
        for path in entries(folder):
            if self.takes(path):
                found.append(path)
            elif path.is_dir():
                passed.note("folders, which are to be named by themselves", path.name)
            else:
                passed.note("files of kinds that this model does not read from a folder", path.name)
        passed.say(str(folder))
        return found

    @abstractmethod
    def read(self, path: Path) -> Any:
        """Read one input, e.g. an image as uint8 [H, W, 3] RGB; raise DataError for a damaged or missing file."""

    def item(self, given: Any) -> Any:
        """Return the item that a person's Python object stands for; raise DataError for one that is none.

        By default the object itself.
        """
        return given

    @abstractmethod
    def prepare(self, items: Sequence[Any]) -> Batch:
        """Make a batch with the arrays that `eval_step` takes, exactly as in evaluation."""

    @abstractmethod
    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """Return what is predicted for each item, in the item's own coordinates."""

    def summary(self, result: Any) -> Any:
        """Return what `predictions.json` says of a result, fit for JSON; by default the result itself."""
        return result

    def files(self, result: Any) -> dict[str, bytes]:
        """Return further files of a result, ending to content, such as {".png": ...}; by default none."""
        return {}

    @abstractmethod
    def draw(self, item: Any, result: Any) -> np.ndarray | str:
        """Return a picture of the prediction, uint8 [H, W, 3] RGB; or lines of text, where the input is text."""


class ServedProcessor(Processor):
    """A processor whose items may come as JSON, so that its model can be served.

    Attributes:
        poolings: ways in which `embeddings` makes one vector of an item, the default first; none without vectors.
        files_in_json: whether JSON items carry whole files as base64 text, to which no limit of characters applies.
        ranks_pairs: whether items are pairs of texts, and `relevance` says how well the second answers the first.
    """

    poolings: tuple[str, ...] = ()
    files_in_json: ClassVar[bool] = False
    ranks_pairs: bool = False

    @abstractmethod
    def from_json(self, value: Any) -> Any:
        """Return the item that a request's JSON value stands for; raise DataError for one that is none."""

    def is_quick(self, value: Any, length: int) -> bool:
        """Return whether `decoded_bytes`, `from_json`, `cost`, `truncated` and `prepare` are bounded for a JSON value.

        Bounded means milliseconds and a few megabytes, whatever the value holds: a server then calls them in its own
        process. By default False: it reads in processes that it can end.

        Args:
            value: of one item; it may be wrong.
            length: characters of all its texts.
        """
        return False

    def decoded_bytes(self, value: Any) -> int:
        """Return the bytes that `from_json` will make of a value, known before it does; DataError for too many."""
        return 0

    def served(self, result: Any) -> Any:
        """Return what a server answers for a result, fit for JSON; by default the summary.

        Where `files` has what a client needs, it stands here too.
        """
        return self.summary(result)

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

    def relevance(self, result: Any) -> float:
        """Return how well the second text of a pair answers the first, of a result; see `ranks_pairs`."""
        raise NotSupportedError(f"{type(self).__name__}: this model ranks no texts")


def with_min_score(processor: Processor, score: float) -> Processor:
    """Return the same processor that leaves out results of a lower score.

    Raises ConfigError where results have no scores, or a score outside of 0 to 1.
    """
    metadata = processor.metadata()
    if "min_score" not in metadata:
        raise ConfigError("infer: this model's results have no scores, so --min-score leaves out none of them")
    if not 0 <= score <= 1:
        raise ConfigError(f"infer: --min-score is {score:g}; a score lies between 0 and 1")
    return processor.from_metadata({**metadata, "min_score": score})


def served(processor: Processor) -> ServedProcessor:
    """Return the processor of a model that can be served; NotSupportedError for another."""
    if not isinstance(processor, ServedProcessor):
        raise NotSupportedError(f"{type(processor).__name__}: makes no items from JSON, so this model cannot be served")
    return processor
