"""Prediction: what a model says of one item, to look at, draw and keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from suites.engine.contract.capabilities import picture

if TYPE_CHECKING:
    from suites.engine.contract.processor import Processor


@dataclass(frozen=True, repr=False)
class Prediction:
    """What a model says of one item. A notebook shows it as a picture, or as text where the item is text.

    Attributes:
        item: what was predicted on, such as an image uint8 [H, W, 3].
        value: what is predicted, as the suite has it: boxes with class names, a label map, classes with scores.
        processor: what stands around the model.
    """

    item: Any
    value: Any
    processor: Processor

    def to_json(self) -> Any:
        """What `predictions.json` says of it: plain lists, mappings, texts and numbers."""
        return self.processor.summary(self.value)

    def draw(self) -> np.ndarray | str:
        """The prediction on the item: a picture uint8 [H, W, 3] RGB, or lines of text."""
        return self.processor.draw(self.item, self.value)

    def __repr__(self) -> str:
        return f"Prediction({self.to_json()!r})"

    def _repr_png_(self) -> bytes | None:
        drawing = self.draw()
        return None if isinstance(drawing, str) else picture(self.processor, drawing, ".png")
