"""The losses of video classification."""

from suites.engine.registry import register, register_role
from suites.vision.recognition.losses import BinaryCrossEntropy, CrossEntropy

register_role("loss", doc="Logits and targets to loss terms.")
register("loss")(CrossEntropy)
register("loss")(BinaryCrossEntropy)
