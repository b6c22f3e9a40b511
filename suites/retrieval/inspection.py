"""What is wrong with folders of classes, for `paddock data check`."""

from __future__ import annotations

from typing import ClassVar

from suites.engine.registry import register
from suites.vision.recognition.inspection import LabelledImageInspector


@register("inspector", "retrieval")
class RetrievalInspector(LabelledImageInspector):
    """Copies are images of equal pixels, or where these are not decoded equal files."""

    noun: ClassVar[str] = "pictures"
