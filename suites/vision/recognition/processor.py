"""What stands around a classifier when it predicts: preprocessing, class names, a picture with the best classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.contract.batch import Batch
from suites.vision.drawing import class_colour, enlarged, put_below, put_plate, stroke
from suites.vision.processor import VisualProcessor
from suites.vision.recognition.metrics import Mistake
from suites.vision.recognition.sample import Labelled, collate

_SHOWN = 5  # classes of a prediction, best first
_DRAWN = 3  # of them on a picture
_WRONG, _RIGHT = (200, 30, 30), (20, 130, 50)  # RGB of words


class RecognitionProcessor(VisualProcessor):
    """Images or clips to batches, scores to class names.

    Attributes:
        sample_class: what an item becomes, an image or a clip.
    """

    sample_class: ClassVar[type[Labelled]]

    @abstractmethod
    def shown(self, item: Any) -> np.ndarray:
        """An item as one picture, uint8 [H, W, 3]."""

    def sample_of(self, item: np.ndarray, number: int) -> Labelled:
        """Pixels with some class."""
        return self.sample_class.of(item, name=f"input {number}")

    def collate(self, samples: Sequence[Labelled]) -> Batch:
        """The batch."""
        return collate(samples, len(self._class_names))

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each item its best classes with their scores, best first."""
        return best_classes(outputs["scores"], self._class_names)

    def draw(self, item: Any, result: list[dict[str, Any]]) -> np.ndarray:
        """The item's picture with its best classes."""
        canvas, _ = enlarged(self.shown(item))
        put_classes(canvas, result[:_DRAWN], self._class_names)
        return canvas

    def lines(self, result: list[dict[str, Any]]) -> list[str]:
        """The best classes with their scores, a line each."""
        return [f"{one['class']} {one['score']:.3f}" for one in result]

    def draw_mistake(self, item: Any, mistake: Mistake) -> np.ndarray:
        """The item's picture above what was predicted, in red where it is wrong, and what it is, in green."""
        canvas, _ = enlarged(self.shown(item))
        said = [
            (f"said: {name} {score:.2f}", _RIGHT if name in mistake.true else _WRONG) for name, score in mistake.said
        ]
        true = [(f"true: {', '.join(mistake.true) or 'no class'}", _RIGHT)]
        return put_below(canvas, [*(said[:_DRAWN] or [("said: no class", _WRONG)]), *true])


def put_classes(canvas: np.ndarray, found: Sequence[Mapping[str, Any]], class_names: Sequence[str]) -> None:
    """Writes classes onto a picture uint8 [H, W, 3], a line each, with their scores where they have some."""
    line = round(50 * stroke(canvas)[0])
    for place, one in enumerate(found):
        text = f"{one['class']} {one['score']:.2f}" if "score" in one else one["class"]
        put_plate(canvas, text, (4, line * (place + 1)), class_colour(class_names.index(one["class"])))


def best_classes(scores: np.ndarray, class_names: Sequence[str]) -> list[list[dict[str, Any]]]:
    """For each row of scores [N, K] its five best classes, best first."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :_SHOWN]
    return [
        [{"class": class_names[k], "score": round(float(row[k]), 5)} for k in chosen]
        for chosen, row in zip(best.tolist(), scores, strict=True)
    ]
