"""TSN averages its image classifier's logits over a clip's frames, however many there are."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, program
from framework.errors import AttributeValueError
from framework.nn import init
from suites.video.models.tsn import TSN
from suites.vision.backbones import ResNet

CLIPS = np.random.default_rng(0).standard_normal((2, 4, 32, 32, 3)).astype(np.float32)


def make(**arguments):
    net = TSN(ResNet(18, width=4, out_strides=(32,)), num_classes=5, **arguments)
    init.initialize(net, 0)
    return net


def test_logits_are_the_mean_over_a_clips_frames():
    net = make(dropout=0.5).eval()
    with no_grad():
        alone = [[net(from_numpy(CLIPS[n : n + 1, t : t + 1])).numpy()[0] for t in range(4)] for n in range(2)]
        together = net(from_numpy(CLIPS)).numpy()
    np.testing.assert_allclose(together, np.mean(alone, axis=1), rtol=1e-4, atol=1e-6)


def test_one_program_takes_any_number_of_clips_and_frames():
    net = make().eval()
    traced = program(lambda x: net(x))
    with no_grad():
        for clips in (CLIPS, CLIPS[:1, :3], np.repeat(CLIPS, 2, axis=1)):
            expected = net(from_numpy(clips)).numpy()
            np.testing.assert_allclose(traced(clips).numpy(), expected, rtol=1e-4, atol=1e-6)
    assert not traced.program_for(from_numpy(CLIPS)).program.shape_reads


def test_a_gradient_reaches_every_parameter():
    net = make()
    ops.mean(ops.cross_entropy(net(from_numpy(CLIPS)), from_numpy(np.array([0, 1])))).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_tsn_needs_a_class():
    with pytest.raises(AttributeValueError, match="num_classes is 0; it must be 1 or more"):
        TSN(ResNet(18, width=4), num_classes=0)
