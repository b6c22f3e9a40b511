"""The losses of image classification."""

from suites.engine.registry import register, register_role
from suites.vision.recognition.losses import BinaryCrossEntropy, CrossEntropy

register_role("loss", doc="Logits and targets to loss terms.")
for _loss in (CrossEntropy, BinaryCrossEntropy):
    register("loss")(_loss)
