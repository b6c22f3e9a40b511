"""What is wrong with a set of labelled images, for `paddock data check`."""

from __future__ import annotations

from suites.engine.registry import register
from suites.vision.recognition.inspection import LabelledImageInspector


@register("inspector", "classification")
class ImageInspector(LabelledImageInspector):
    """Copies are images of equal pixels, or where these are not decoded equal files."""
