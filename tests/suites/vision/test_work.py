"""The profile's count of whole networks' arithmetic, against the numbers their papers give."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.nn import init
from framework.profiler import Profile
from suites.vision.backbones import DarkNet53, MobileNetV1, MobileNetV2, ResNet


def multiply_adds(model, size: int) -> float:
    """Of one image of size x size."""
    init.initialize(model, 0)
    model.eval()
    with no_grad(), Profile() as p:
        model(from_numpy(np.ones((1, size, size, 3), np.float32)))
    return sum(call.work.flops for call in p.calls) / 2


def test_mobilenet_v1_has_its_published_number_of_multiply_adds():
    """569 million at 224 x 224 with the classifier: Howard et al., arXiv:1704.04861, table 4."""
    assert multiply_adds(MobileNetV1(), 224) + 1024 * 1000 == pytest.approx(569e6, rel=0.002)


def test_mobilenet_v2_has_its_published_number_of_multiply_adds():
    """300 million at 224 x 224 with the last 1 x 1 convolution and the classifier: Sandler et al., arXiv:1801.04381."""
    head = 7 * 7 * 320 * 1280 + 1280 * 1000
    assert multiply_adds(MobileNetV2(), 224) + head == pytest.approx(300e6, rel=0.005)


def test_resnet_50_has_its_published_number_of_multiply_adds():
    """4.1 billion at 224 x 224 with the classifier, the stride in the 3 x 3: Goyal et al., arXiv:1706.02677."""
    assert multiply_adds(ResNet(50, "b"), 224) + 2048 * 1000 == pytest.approx(4.1e9, abs=0.05e9)


def test_darknet_53_has_its_published_number_of_operations():
    """18.7 billion, two a multiply-add, at 256 x 256 with the classifier: Redmon and Farhadi, arXiv:1804.02767."""
    assert 2 * (multiply_adds(DarkNet53(), 256) + 1024 * 1000) == pytest.approx(18.7e9, rel=0.01)
