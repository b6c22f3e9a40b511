"""ImageClassifier: logits of the wanted shape, gradients everywhere, wrong arguments refused."""

import numpy as np
import pytest

from framework import from_numpy, ops
from framework.errors import AttributeValueError
from suites.classification.models.classifier import ImageClassifier
from suites.vision.backbones import ResNet

IMAGES = np.random.default_rng(0).standard_normal((3, 32, 64, 3)).astype(np.float32)


def make(**arguments):
    return ImageClassifier(ResNet(18, width=4, out_strides=(16, 32)), num_classes=5, **arguments)


def test_logits_are_a_linear_map_of_the_mean_of_the_coarsest_map():
    net = make(dropout=0.5).eval()
    features = net.backbone(from_numpy(IMAGES))[-1].numpy().mean((1, 2))
    logits = net(from_numpy(IMAGES)).numpy()
    assert logits.shape == (3, 5)
    np.testing.assert_allclose(logits, features @ net.fc.weight.numpy().T, rtol=1e-4, atol=1e-5)


def test_a_gradient_reaches_every_parameter():
    net = make()
    ops.mean(ops.cross_entropy(net(from_numpy(IMAGES)), from_numpy(np.array([0, 1, 2])))).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_classifier_needs_a_class():
    with pytest.raises(AttributeValueError, match="num_classes is 0; it must be 1 or more"):
        ImageClassifier(ResNet(18, width=4), num_classes=0)
