"""The transforms of image classification: those of `suites.vision.recognition.transforms`."""

from suites.engine.registry import register, register_role
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.recognition.transforms import BATCH_TRANSFORMS, TRANSFORMS

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
for _transform in TRANSFORMS:
    register("transform")(_transform)
for _batch_transform in BATCH_TRANSFORMS:
    register("batch_transform")(_batch_transform)
