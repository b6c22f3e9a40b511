"""What stands around a classifier when it predicts: preprocessing, class names, a picture with the best classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from framework.errors import CheckpointError
from suites.engine.config import build_value
from suites.engine.task import Batch, Processor
from suites.vision.drawing import class_colour, enlarged, put_plate, stroke
from suites.vision.pipeline import Transform
from suites.vision.recognition.sample import Labelled, collate

Self = TypeVar("Self", bound="RecognitionProcessor")

_SHOWN = 5  # classes of a prediction, best first
_DRAWN = 3  # of them on a picture


class RecognitionProcessor(Processor):
    """Images or clips to batches, scores to class names.

    Attributes:
        suite: whose transforms these are.
        sample_class: what an item becomes, an image or a clip.

    Args:
        transforms: as configs write them; the transforms of evaluation.
        class_names: K names.
    """

    suite: ClassVar[str]
    sample_class: ClassVar[type[Labelled]]

    def __init__(self, transforms: list[dict[str, Any]], class_names: Sequence[str]) -> None:
        self._written = transforms
        self._transforms: list[Transform] = build_value(transforms, list[Transform], suite=self.suite)
        self._class_names = tuple(class_names)

    def metadata(self) -> dict[str, Any]:
        """Transforms and class names."""
        return {"transforms": self._written, "class_names": list(self._class_names)}

    @classmethod
    def from_metadata(cls: type[Self], metadata: dict[str, Any]) -> Self:
        """The processor that `metadata` describes; CheckpointError where a key is missing."""
        try:
            return cls(**{key: metadata[key] for key in cls._keys()})
        except KeyError as error:
            raise CheckpointError(f"{cls.__name__}: the exported model's metadata lack {error}") from error

    @classmethod
    def _keys(cls) -> tuple[str, ...]:
        """Names of the constructor's arguments, which `metadata` holds."""
        return ("transforms", "class_names")

    @abstractmethod
    def picture(self, item: Any) -> np.ndarray:
        """An item as one picture, uint8 [H, W, 3]."""

    def prepare(self, items: Sequence[Any]) -> Batch:
        """Items as a batch, exactly as in evaluation."""
        rng = np.random.default_rng(0)
        samples = []
        for i, item in enumerate(items):
            sample = self.sample_class.of(item, name=f"input {i}")
            for transform in self._transforms:
                sample = transform(sample, rng)
            samples.append(sample)
        return collate(samples, len(self._class_names))

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each item its best classes with their scores, best first."""
        best = np.argsort(-outputs["scores"], axis=1, kind="stable")[:, :_SHOWN]
        return [
            [{"class": self._class_names[k], "score": round(float(scores[k]), 5)} for k in row]
            for row, scores in zip(best.tolist(), outputs["scores"], strict=True)
        ]

    def draw(self, item: Any, result: list[dict[str, Any]]) -> np.ndarray:
        """The item's picture with its best classes."""
        canvas, _ = enlarged(self.picture(item))
        line = round(50 * stroke(canvas)[0])
        for place, found in enumerate(result[:_DRAWN]):
            text = f"{found['class']} {found['score']:.2f}"
            put_plate(canvas, text, (4, line * (place + 1)), class_colour(self._class_names.index(found["class"])))
        return canvas
