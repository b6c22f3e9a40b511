"""Joined: several data sets of labelled clips or sequences as one."""

from suites.engine.registry import register
from suites.vision.recognition.joined import JoinedRecognition


@register("dataset")
class Joined(JoinedRecognition):
    """Data sets one behind the other; `order: {type: Shares}` says how often each is drawn from.

    Args:
        parts: data sets with the same classes in the same order, all with one label a sample or all with several.
    """
