"""Every segmentation network of the suite, at tiny widths where it has any, for tests of all of them."""

from framework.nn import init
from suites.segmentation.models.bisenet_v2 import BiSeNetV2
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.segmentation.models.fast_scnn import FastSCNN
from suites.segmentation.models.hrnet import FCN, OCRNet
from suites.segmentation.models.icnet import ICNet
from suites.segmentation.models.pspnet import PSPNet
from suites.segmentation.models.torchvision_forms import LRASPP, DeepLabV3, DilatedFCN
from suites.segmentation.models.unet import UNet
from suites.vision.backbones import HRNet, MobileNetV2, MobileNetV3, ResNet, UNetEncoder, Xception

K = 5


def dilated(depth=18, stride=8, **arguments):
    return ResNet(depth, width=8, out_strides=(stride,), output_stride=stride, **arguments)


def deeplab(backbone):
    return DeepLabV3Plus(backbone, K, channels=16, low_channels=8, dropout=0.0)


def _hrnet():
    return HRNet(4, upsampling="bilinear")


TINY = {
    "deeplab_mobilenetv2": lambda: deeplab(MobileNetV2(0.25, out_strides=(4, 16), output_stride=16)),
    "deeplab_mobilenetv3": lambda: deeplab(MobileNetV3("large", 0.25, out_strides=(4, 16), output_stride=16)),
    "deeplab_resnet_vd": lambda: deeplab(ResNet(18, "d", 8, out_strides=(4, 16), output_stride=16)),
    "deeplab_xception": lambda: deeplab(Xception(41)),
    "unet": lambda: UNet(UNetEncoder((4, 8, 8)), K, (8, 4)),
    "unet_mobilenetv2": lambda: UNet(MobileNetV2(0.25, out_strides=(2, 4, 8, 16, 32)), K, (16, 8, 8, 8)),
    "pspnet": lambda: PSPNet(dilated(), K, 16, dropout=0.0, aux_channels=8),
    "pspnet_mobilenetv2": lambda: PSPNet(MobileNetV2(0.25, (8,), 8), K, 16, dropout=0.0, aux_weight=0),
    "icnet": lambda: ICNet(dilated(50, variant="a", stem=(8, 8, 16)), K, 16),
    "icnet_mobilenetv2": lambda: ICNet(MobileNetV2(0.25, (8,), 8), K, 16),
    "hrnet_fcn": lambda: FCN(_hrnet(), K),
    "hrnet_ocr": lambda: OCRNet(_hrnet(), K, 16, 8, dropout=0.0),
    "fast_scnn": lambda: FastSCNN(K, dropout=0.0),
    "dilated_fcn": lambda: DilatedFCN(ResNet(18, width=8, out_strides=(8,), output_stride=8), K, dropout=0.0),
    "deeplabv3": lambda: DeepLabV3(ResNet(18, width=8, out_strides=(8,), output_stride=8), K, (2, 4), 16, 0.5, 0.0),
    "lraspp": lambda: LRASPP(MobileNetV3("large", 0.25, out_strides=(8, 16), output_stride=16, segmenting=True), K, 16),
    "bisenet_v2": lambda: BiSeNetV2(K, dropout=0.0),
}


def tiny(name, seed=0):
    """The network with weights drawn, in training mode."""
    net = TINY[name]()
    init.initialize(net, seed)
    return net
