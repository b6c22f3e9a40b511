"""Image classification, segmentation and keypoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench_cases.common import Cases, inference, labelled, squares

if TYPE_CHECKING:
    from framework.nn import Layer


def resnet50() -> Layer:
    """ResNet-50 with ImageNet's 1,000 classes."""
    from suites.classification.models.classifier import ImageClassifier
    from suites.vision.backbones import ResNet

    return ImageClassifier(ResNet(50, out_strides=(32,)), num_classes=1000)


def vit_small() -> Layer:
    """ViT-S/16 with ImageNet's 1,000 classes."""
    from suites.classification.models.classifier import ImageClassifier
    from suites.vision.backbones import ViT

    return ImageClassifier(ViT("small"), num_classes=1000, top=True)


def swin_tiny() -> Layer:
    """Swin-T with ImageNet's 1,000 classes."""
    from suites.classification.models.classifier import ImageClassifier
    from suites.vision.backbones import Swin

    return ImageClassifier(Swin("tiny", out_strides=(32,)), num_classes=1000, top=True)


def convnext_tiny() -> Layer:
    """ConvNeXt-T with ImageNet's 1,000 classes."""
    from suites.classification.models.classifier import ImageClassifier
    from suites.vision.backbones import ConvNeXt

    return ImageClassifier(ConvNeXt("tiny", out_strides=(32,)), num_classes=1000, top=True)


def deeplab_mobilenet() -> Layer:
    """DeepLabV3+ on MobileNetV2 at output stride 16 with Cityscapes' 19 classes."""
    from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
    from suites.vision.backbones import MobileNetV2

    return DeepLabV3Plus(MobileNetV2(out_strides=(4, 16), output_stride=16), num_classes=19, dropout=0.0)


def deeplab_xception() -> Layer:
    """DeepLabV3+ on Xception-65 at output stride 16 with Cityscapes' 19 classes."""
    from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
    from suites.vision.backbones import Xception

    return DeepLabV3Plus(Xception(65, out_strides=(4, 16), output_stride=16), num_classes=19, dropout=0.0)


def unet() -> Layer:
    """The plain U-Net with Cityscapes' 19 classes."""
    from suites.segmentation.models.unet import UNet
    from suites.vision.backbones import UNetEncoder

    return UNet(UNetEncoder(), num_classes=19)


def pspnet() -> Layer:
    """PSPNet on ResNet-50 at output stride 8 with 19 classes; logits of both heads at the image's size."""
    from framework import Tensor, nn, ops
    from suites.segmentation.models.pspnet import PSPNet
    from suites.vision.backbones import ResNet

    class BothHeads(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            backbone = ResNet(50, "c", out_strides=(8,), output_stride=8)
            self.net = PSPNet(backbone, num_classes=19, dropout=0.0)

        def forward(self, images: Tensor) -> list[Tensor]:
            return [ops.resize_bilinear(logits, images) for logits in self.net.outputs(images)]

    return BothHeads()


def simple_baseline() -> Layer:
    """SimpleBaseline on ResNet-50 with the 17 points of people."""
    from suites.keypoints.models.heatmaps import HeatmapPose
    from suites.vision.backbones import ResNet

    return HeatmapPose(ResNet(50, out_strides=(32,)))


CASES: Cases = {
    "resnet50_train_b8_224": lambda: labelled(resnet50, (8, 224, 224, 3)),
    "resnet50_infer_b1_224": lambda: inference(resnet50, (1, 224, 224, 3)),
    "vit_s16_train_b8_224": lambda: labelled(vit_small, (8, 224, 224, 3)),
    "vit_s16_infer_b1_224": lambda: inference(vit_small, (1, 224, 224, 3)),
    "swin_t_train_b8_224": lambda: labelled(swin_tiny, (8, 224, 224, 3)),
    "swin_t_infer_b1_224": lambda: inference(swin_tiny, (1, 224, 224, 3)),
    "convnext_t_train_b8_224": lambda: labelled(convnext_tiny, (8, 224, 224, 3)),
    "convnext_t_infer_b1_224": lambda: inference(convnext_tiny, (1, 224, 224, 3)),
    "deeplabv3p_mobilenetv2_train_b4_256": lambda: labelled(deeplab_mobilenet, (4, 256, 256, 3)),
    "unet_train_b4_256": lambda: labelled(unet, (4, 256, 256, 3)),
    "pspnet_resnet50_train_b2_257": lambda: labelled(pspnet, (2, 257, 257, 3)),
    "simple_r50_train_b8_256x192": lambda: squares(simple_baseline, (8, 256, 192, 3)),
    "deeplabv3p_mobilenetv2_infer_b1_512": lambda: inference(deeplab_mobilenet, (1, 512, 512, 3)),
}
