"""Video classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench_cases.common import Cases, labelled

if TYPE_CHECKING:
    from framework.nn import Layer


def tsn_resnet50() -> Layer:
    """TSN on ResNet-50 with Kinetics-400's classes."""
    from suites.video.models.tsn import TSN
    from suites.vision.backbones import ResNet

    return TSN(ResNet(50, out_strides=(32,)), num_classes=400)


CASES: Cases = {
    "tsn_resnet50_train_b2_t4_224": lambda: labelled(tsn_resnet50, (2, 4, 224, 224, 3)),
}
