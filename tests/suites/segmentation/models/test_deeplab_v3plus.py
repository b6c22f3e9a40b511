"""DeepLabV3+ has the peer's parameters and numbers, takes any image size in one Program, and refuses misfits."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, program, tensor
from framework.errors import AttributeValueError
from framework.nn import init
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.vision.backbones import MobileNetV1, MobileNetV2
from tests.suites.peer import Peer

RNG = np.random.default_rng(0)


def full_size(classes=19):
    net = DeepLabV3Plus(MobileNetV2(out_strides=(4, 16), output_stride=16), classes, dropout=0.0)
    init.initialize(net, 0)
    return net


def small(**arguments):
    backbone = MobileNetV2(0.25, out_strides=(4, 16), output_stride=16)
    net = DeepLabV3Plus(backbone, 5, channels=16, low_channels=8, **arguments)
    init.initialize(net, 0)
    return net


def test_parameters_are_as_many_as_the_peers():
    assert sum(p.size for p in full_size().parameters()) == 2_719_299
    assert sum(p.size for p in full_size().backbone.parameters()) == 1_811_712


def test_one_program_takes_any_image_size_and_gives_logits_of_every_pixel():
    net = small().eval()
    traced = program(lambda x: net(x))
    with no_grad():
        for size in ((32, 48), (33, 49), (8, 57), (1, 1)):  # 8 n + 1 is what the paper's crops are
            images = RNG.standard_normal((2, *size, 3)).astype(np.float32)
            logits = traced(images).numpy()
            assert logits.shape == (2, *size, 5)
            np.testing.assert_allclose(logits, net(from_numpy(images)).numpy(), rtol=1e-4, atol=1e-6)
    assert not traced.program_for(from_numpy(images)).program.shape_reads


def test_a_gradient_reaches_every_parameter():
    net = small()
    images = from_numpy(RNG.standard_normal((2, 32, 32, 3)).astype(np.float32))
    labels = from_numpy(RNG.integers(0, 5, (2, 32, 32)))
    ops.mean(ops.cross_entropy(net(images), labels)).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_dropout_works_in_training_only():
    net, images = small(dropout=0.5), tensor(RNG.standard_normal((2, 32, 32, 3)).astype(np.float32))
    net.eval()
    assert np.array_equal(net(images).numpy(), net(images).numpy())
    net.train()
    assert not np.array_equal(net(images).numpy(), net(images).numpy())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: DeepLabV3Plus(MobileNetV1(), 5), r"backbone gives 3 maps \(strides \[8, 16, 32\]\); it must give two"),
        (lambda: DeepLabV3Plus(MobileNetV1(out_strides=(4, 16)), 1), "num_classes is 1; it must be 2 or more"),
    ],
)
def test_misfits_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


@pytest.mark.peers
@pytest.mark.parametrize("training", [False, True])
def test_the_numbers_are_the_peers(training):
    net = full_size()
    images = RNG.standard_normal((4, 64, 96, 3)).astype(np.float32)
    single, exact = (Peer(net, training, t).deeplab_v3plus_mobilenet_v2(images) for t in ("float32", "float64"))
    with no_grad():
        ours = net.train(training)(tensor(images)).numpy().transpose(0, 3, 1, 2)
    # In training, the pooled branch's statistics are over 4 numbers, which multiplies roundings, in the peer alike: its
    # own error is the scale, times ten because Winograd's roundings are up to ten times those of a direct convolution.
    allowed = max(1e-5 * np.abs(exact).max(), 10 * np.abs(single - exact).max())
    assert np.abs(ours - exact).max() <= allowed
