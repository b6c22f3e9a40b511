"""Poolings against numpy, and a network that starts from a classifier's weights."""

import numpy as np
import pytest

from framework import tensor
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError
from framework.io import save_tensors
from framework.nn import init
from suites.classification.models.classifier import ImageClassifier
from suites.retrieval.models.embedding import EmbeddingNet
from suites.retrieval.models.pooling import Average, GeM, RMac, regions
from suites.vision.backbones import MobileNetV2

MAP = np.random.default_rng(0).normal(size=(2, 5, 7, 3)).astype(np.float32)


def test_gem_is_the_generalised_mean():
    x = np.maximum(MAP.astype(np.float64), 1e-6)
    for p in (1.0, 3.0, 6.5):
        expected = (x**p).mean(axis=(1, 2)) ** (1 / p)
        assert GeM(p)(tensor(MAP)).numpy() == pytest.approx(expected, rel=1e-4)
    assert GeM(1.0)(tensor(np.abs(MAP))).numpy() == pytest.approx(Average()(tensor(np.abs(MAP))).numpy(), rel=1e-5)


def test_gem_learns_its_exponent():
    def function(x, p):
        layer = GeM()
        layer.p = p
        return layer(x)

    check_gradients(function, [np.abs(MAP.astype(np.float64)) + 0.1, np.array([3.0])])
    assert GeM().p.requires_grad and not GeM(trained=False).p.requires_grad


def test_regional_maxima_are_at_length_one_and_summed():
    places = regions(5, 7, 3)
    assert places[:2] == [(0, 0, 5), (0, 2, 5)] and all(t + s <= 5 and left + s <= 7 for t, left, s in places)
    assert len(places) == 1 * 2 + 2 * 3 + 3 * 4
    expected = np.zeros((2, 3))
    for top, left, side in places:
        most = MAP[:, top : top + side, left : left + side].max(axis=(1, 2))
        expected += most / np.linalg.norm(most, axis=1, keepdims=True)
    assert RMac()(tensor(MAP)).numpy() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert regions(4, 4, 1) == [(0, 0, 4)] and regions(1, 1, 3)


def small(**more):
    net = EmbeddingNet(MobileNetV2(scale=0.25, out_strides=[32]), **{"size": 8, **more})
    init.initialize(net, 0)
    net.eval()
    return net


@pytest.mark.parametrize("pooling", [None, GeM(), RMac(2)], ids=["mean", "GeM", "RMac"])
@pytest.mark.parametrize("size", [8, None])
def test_vectors_have_length_one(pooling, size):
    found = small(pooling=pooling, size=size)(tensor(np.random.default_rng(1).normal(size=(2, 64, 64, 3)).astype("f4")))
    assert np.linalg.norm(found.numpy(), axis=1) == pytest.approx(np.ones(2), abs=1e-5)
    assert found.shape == (2, 8 if size else small(size=None).size)


@pytest.mark.parametrize("top", [True, False])
def test_a_network_starts_from_a_classifiers_weights(tmp_path, top):
    classifier = ImageClassifier(MobileNetV2(scale=0.25, out_strides=[32]), num_classes=3, top=top)
    init.initialize(classifier, 5)
    save_tensors(tmp_path / "weights.safetensors", classifier.state_dict())
    net = EmbeddingNet(
        MobileNetV2(scale=0.25, out_strides=[32]),
        top=top,
        size=8,
        pooling=None if top else GeM(),
        pretrained=str(tmp_path / "weights.safetensors"),
    )
    ours, theirs = net.state_dict(), classifier.state_dict()
    assert all(np.array_equal(ours[n].numpy(), theirs[n].numpy()) for n in theirs if n.startswith("backbone."))


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(AttributeValueError, match="does nothing beside 'top'"):
        small(top=True, pooling=GeM())
    with pytest.raises(AttributeValueError, match="size is 0"):
        small(size=0)
    with pytest.raises(AttributeValueError, match="GeM: p is 0"):
        GeM(0.0)
    with pytest.raises(AttributeValueError, match="RMac: scales is 9"):
        RMac(9)
