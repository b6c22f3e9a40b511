"""TextReader: a detector, a direction classifier and a recogniser as one network, for pictures of any text."""

from __future__ import annotations

from typing import Annotated

from framework.errors import ConfigError
from suites.engine.config import OfRole
from suites.engine.registry import register
from suites.ocr.models.base import DirectionClassifier, TextDetector, TextModel, TextRecogniser


@register("text_model")
class TextReader(TextModel):
    """Finds text, turns it upright, reads it. It is put together from trained networks and not trained itself.

    Args:
        detector: finds the lines of a picture.
        recogniser: reads a line.
        direction: tells lines that are upside down; null where all are upright.
    """

    def __init__(
        self,
        detector: Annotated[TextDetector, OfRole("text_model")],
        recogniser: Annotated[TextRecogniser, OfRole("text_model")],
        direction: Annotated[DirectionClassifier | None, OfRole("text_model")] = None,
    ) -> None:
        super().__init__()
        wanted = ((detector, TextDetector), (recogniser, TextRecogniser), (direction, DirectionClassifier))
        for part, kind in wanted:
            if part is not None and not isinstance(part, kind):
                raise ConfigError(f"TextReader: {type(part).__name__} is no {kind.__name__}")
        self.detector, self.recogniser, self.direction = detector, recogniser, direction
