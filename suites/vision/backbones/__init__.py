"""Image backbones: networks that turn an image into feature maps at several strides."""

from suites.engine.registry import register_role
from suites.vision.backbones.base import Backbone

register_role("backbone", Backbone, doc="Image to feature maps at several strides.")

from suites.vision.backbones.blazenet import BlazeNet  # noqa: E402  (registers for the role above)
from suites.vision.backbones.darknet import DarkNet53, TinyDarkNet  # noqa: E402
from suites.vision.backbones.efficientnet_lite import EfficientNetLite  # noqa: E402
from suites.vision.backbones.hrnet import HRNet  # noqa: E402
from suites.vision.backbones.mobilenet_v1 import MobileNetV1  # noqa: E402
from suites.vision.backbones.mobilenet_v2 import MobileNetV2  # noqa: E402
from suites.vision.backbones.mobilenet_v3 import MobileNetV3  # noqa: E402
from suites.vision.backbones.resnet import ResNet  # noqa: E402
from suites.vision.backbones.resnext import ResNeXt  # noqa: E402
from suites.vision.backbones.unet_encoder import UNetEncoder  # noqa: E402
from suites.vision.backbones.vgg import VGG  # noqa: E402
from suites.vision.backbones.xception import Xception  # noqa: E402

__all__ = [
    "VGG",
    "Backbone",
    "BlazeNet",
    "DarkNet53",
    "EfficientNetLite",
    "HRNet",
    "MobileNetV1",
    "MobileNetV2",
    "MobileNetV3",
    "ResNeXt",
    "ResNet",
    "TinyDarkNet",
    "UNetEncoder",
    "Xception",
]
