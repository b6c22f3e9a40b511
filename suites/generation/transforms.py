"""The transforms of generation: those of any image that move a second picture along."""

from suites.engine.registry import register, register_role
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.transforms import Letterbox, RandomFlip, Resize

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
for _transform in (Letterbox, RandomFlip, Resize):
    register("transform")(_transform)
