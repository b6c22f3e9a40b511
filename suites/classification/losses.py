"""The losses of image classification."""

from suites.engine.registry import register, register_role
from suites.vision.recognition.losses import CrossEntropy

register_role("loss", doc="Logits and targets to loss terms.")
register("loss")(CrossEntropy)
