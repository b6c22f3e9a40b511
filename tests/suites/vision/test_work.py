"""The profile's count of a whole network's arithmetic, against the number its paper gives."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.nn import init
from framework.profiler import Profile
from suites.vision.backbones import MobileNetV1


def test_mobilenet_v1_has_its_published_number_of_multiply_adds():
    """569 million at 224 x 224 with the classifier: Howard et al., arXiv:1704.04861, table 4."""
    model = MobileNetV1()
    init.initialize(model, 0)
    model.eval()
    with no_grad(), Profile() as p:
        model(from_numpy(np.ones((1, 224, 224, 3), np.float32)))
    multiply_adds = sum(call.work.flops for call in p.calls) / 2
    assert multiply_adds + 1024 * 1000 == pytest.approx(569e6, rel=0.002)
