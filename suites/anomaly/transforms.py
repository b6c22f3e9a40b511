"""The transforms of anomalies: those of any image that move a mask along."""

from suites.engine.registry import register, register_role
from suites.vision.augmentation.pipeline import Transform
from suites.vision.augmentation.transforms import ColorDistort, Letterbox, Normalize, RandomFlip, Resize

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
for _transform in (ColorDistort, Letterbox, Normalize, RandomFlip, Resize):
    register("transform")(_transform)
