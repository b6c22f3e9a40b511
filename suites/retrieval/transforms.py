"""The transforms of retrieval: those of `suites.vision.recognition.transforms`, but for mixtures of two classes."""

from suites.engine.registry import register, register_role
from suites.vision.augmentation.pipeline import BatchTransform, Transform
from suites.vision.ordering import PerClass
from suites.vision.recognition.transforms import TRANSFORMS

register_role("transform", Transform, doc="sample -> sample, of a training or evaluation pipeline")
register_role("batch_transform", BatchTransform, doc="samples of a batch -> samples")
for _transform in TRANSFORMS:
    register("transform")(_transform)
register("order")(PerClass)
