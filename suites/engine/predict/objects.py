"""Two models one after the other: a detector finds objects in pictures, a second model looks at each of them.

Any model whose results have boxes is a first one, such as a detector of people or of faces. A second one is a model
whose processor is `TakesObjects`, such as one of points or of vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import ConfigError, NotSupportedError
from suites.engine.contract.batch import POSITIONS, Batch, Found
from suites.engine.contract.capabilities import TakesObjects, picture
from suites.engine.contract.processor import Processor
from suites.engine.names import did_you_mean
from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.items import batches_of, joined, predict_items

_AT_ONCE = 16  # objects that the second model looks at together


@dataclass(frozen=True)
class Finder:
    """A model that finds objects.

    Args:
        model: a detector.
        only: the class whose objects count; None for all.

    Raises ConfigError for a class that the model does not know.
    """

    model: Model
    only: str | None = None

    def __post_init__(self) -> None:
        known = self.model.processor.metadata().get("class_names", ())
        if self.only is not None and self.only not in known:
            hint = did_you_mean(self.only, known)
            raise ConfigError(f"--of: the detector finds no '{self.only}'{hint or '; it finds ' + ', '.join(known)}")

    def rows(self, item: Any) -> list[dict[str, Any]]:
        """What is found in an item, best first: `box`, `class`, `score` and what else the detector says."""
        (result,) = predict_items(self.model.processor, self.model.inputs, self.model.predict, [item])
        rows = self.model.processor.summary(result)
        if not isinstance(rows, list) or any(np.shape(row.get("box")) != (4,) for row in rows):
            raise ConfigError("--boxes: takes a detector, whose results have a box each; this model's have none")
        return [row for row in rows if self.only in (None, row.get("class"))]


def open_finder(detector: Path | None, only: str | None = None, *, device: str | None = None) -> Finder | None:
    """What the options `--boxes` and `--of` ask for; None without them. ConfigError for `--of` alone."""
    if detector is None and only is not None:
        raise ConfigError("--of: names a class of the detector's; add --boxes with that detector")
    return None if detector is None else Finder(open_model(detector, device=device), only)


def on_objects(second: Model, finder: Finder) -> Model:
    """The model that looks with `second` at each object that `finder` finds.

    Raises ConfigError where `second` takes no objects.
    """
    require_objects(second.processor)
    return replace(second, processor=ObjectsProcessor(second.processor, finder), types={}, feed=None)


def require_objects(processor: Processor) -> TakesObjects:
    """The processor as one that takes objects; ConfigError where it takes none."""
    if not isinstance(processor, TakesObjects):
        raise ConfigError(
            f"--boxes: {type(processor).__name__} looks at whole inputs; models of pictures take the objects of a "
            "detector, such as those of suite keypoints, retrieval and classification"
        )
    return processor


class ObjectsProcessor(Processor):
    """Around the second model: pictures to what it says of each object.

    Args:
        second: what stands around the second model.
        finder: finds the objects.
    """

    def __init__(self, second: Processor, finder: Finder) -> None:
        self._second, self._objects, self._finder = second, require_objects(second), finder

    def metadata(self) -> dict[str, Any]:
        """Those of both models."""
        return {"objects": self._second.metadata(), "finder": self._finder.model.processor.metadata()}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Processor:
        """NotSupportedError: two models are put together when they predict, and not exported as one."""
        raise NotSupportedError("a model on a detector's objects is not exported as one; export each by itself")

    def takes(self, path: Path) -> bool:
        """As the second model does."""
        return self._second.takes(path)

    def read(self, path: Path) -> Any:
        """As the second model does."""
        return self._second.read(path)

    def item(self, given: Any) -> Any:
        """As the second model does."""
        return self._second.item(given)

    def prepare(self, items: Sequence[Any]) -> Batch:
        """The items as the second model takes them whole."""
        return self._second.prepare(items)

    def batches(self, items: Sequence[Any]) -> Iterator[Batch]:
        """The objects of each item, a few at a time; an item without objects has one batch that stands for it."""
        for number, item in enumerate(items):
            rows = self._finder.rows(item)
            objects = self._objects.objects_in(item, rows)
            if not rows:
                yield {**self._second.prepare([item]), "owner": number, "rows": [], "of": None}
            for start in range(0, len(rows), _AT_ONCE):
                some = objects[start : start + _AT_ONCE]
                for batch in batches_of(self._second, some):
                    places = [start + k for k in batch.get(POSITIONS, range(len(some)))]
                    yield {**batch, "owner": number, "rows": [(k, rows[k]) for k in places], "of": batch}

    def joined(self, found: Iterable[Found]) -> list[list[tuple[dict[str, Any], Any]]]:
        """For each item, what the detector and what the second model say of each object."""
        results: dict[int, dict[int, tuple[dict[str, Any], Any]]] = {}
        for outputs, batch in found:
            said = results.setdefault(batch["owner"], {})
            if batch["of"] is not None:
                several = joined(self._second, [(outputs, batch["of"])])
                said |= {k: (row, one) for (k, row), one in zip(batch["rows"], several, strict=True)}
        return [[said[k] for k in sorted(said)] for _, said in sorted(results.items())]

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        """Those of an item whose objects are one batch."""
        return self.joined([(outputs, batch)])

    def summary(self, result: list[tuple[dict[str, Any], Any]]) -> list[dict[str, Any]]:
        """A row for each object: the detector's, then what the second model says."""
        return [{**row, **self._said(each)} for row, each in result]

    def _said(self, result: Any) -> dict[str, Any]:
        said = self._second.summary(result)
        return said if isinstance(said, dict) else {"found": said}

    def draw(self, item: Any, result: list[tuple[dict[str, Any], Any]]) -> np.ndarray | str:
        """The item with its objects, and what the second model draws of them."""
        rows = [row for row, _ in result]
        return self._objects.draw_objects(item, rows, [each for _, each in result])

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """As the second model writes it."""
        return picture(self._second, drawing, ending)
