"""Image backbones: networks that turn an image into feature maps at several strides."""

from suites.engine.registry import register_role
from suites.vision.backbones.base import Backbone as Backbone

register_role("backbone", Backbone, doc="Image to feature maps at several strides.")

from suites.vision.backbones.blazenet import BlazeNet as BlazeNet  # noqa: E402  (registers for the role above)
from suites.vision.backbones.convnext import ConvNeXt as ConvNeXt  # noqa: E402
from suites.vision.backbones.darknet import DarkNet53 as DarkNet53  # noqa: E402
from suites.vision.backbones.darknet import TinyDarkNet as TinyDarkNet  # noqa: E402
from suites.vision.backbones.darknet_cfg import DarknetCfg as DarknetCfg  # noqa: E402
from suites.vision.backbones.densenet import DenseNet as DenseNet  # noqa: E402
from suites.vision.backbones.efficientnet import EfficientNet as EfficientNet  # noqa: E402
from suites.vision.backbones.efficientnet_lite import EfficientNetLite as EfficientNetLite  # noqa: E402
from suites.vision.backbones.hrnet import HRNet as HRNet  # noqa: E402
from suites.vision.backbones.inception import GoogLeNet as GoogLeNet  # noqa: E402
from suites.vision.backbones.inception import InceptionV3 as InceptionV3  # noqa: E402
from suites.vision.backbones.inception_v4 import InceptionV4 as InceptionV4  # noqa: E402
from suites.vision.backbones.mobilenet_v1 import MobileNetV1 as MobileNetV1  # noqa: E402
from suites.vision.backbones.mobilenet_v2 import MobileNetV2 as MobileNetV2  # noqa: E402
from suites.vision.backbones.mobilenet_v3 import MobileNetV3 as MobileNetV3  # noqa: E402
from suites.vision.backbones.resnet import ResNet as ResNet  # noqa: E402
from suites.vision.backbones.resnext import ResNeXt as ResNeXt  # noqa: E402
from suites.vision.backbones.shufflenet_v2 import ShuffleNetV2 as ShuffleNetV2  # noqa: E402
from suites.vision.backbones.squeezenet import SqueezeNet as SqueezeNet  # noqa: E402
from suites.vision.backbones.swin import Swin as Swin  # noqa: E402
from suites.vision.backbones.thin_resnet import ThinResNet as ThinResNet  # noqa: E402
from suites.vision.backbones.unet_encoder import UNetEncoder as UNetEncoder  # noqa: E402
from suites.vision.backbones.vgg import VGG as VGG  # noqa: E402
from suites.vision.backbones.vit import DINOv2 as DINOv2  # noqa: E402
from suites.vision.backbones.vit import ViT as ViT  # noqa: E402
from suites.vision.backbones.xception import Xception as Xception  # noqa: E402
