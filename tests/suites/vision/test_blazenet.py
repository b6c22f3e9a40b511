"""BlazeNet is depthwise throughout, has the strides it says, and the searched and light forms."""

import numpy as np
import pytest

from framework import nn, tensor
from framework.errors import AttributeValueError
from suites.vision.backbones import BlazeNet

IMAGE = tensor(np.random.default_rng(0).standard_normal((1, 64, 98, 3)).astype(np.float32))


def test_it_gives_96_channels_at_strides_8_and_16():
    net = BlazeNet()
    assert net.channels == (96, 96)
    assert [m.shape for m in net(IMAGE)] == [(1, 8, 13, 96), (1, 4, 7, 96)]


@pytest.mark.parametrize("kernel", [3, 5])
def test_every_large_kernel_but_the_stems_is_depthwise(kernel):
    convs = [layer for _, layer in BlazeNet(kernel=kernel).named_layers() if isinstance(layer, nn.Conv2d)]
    large = [conv for conv in convs if conv.weight.shape[1] > 1]
    assert all(conv.groups == conv.in_channels for conv in large[1:]) and large[0].in_channels == 3
    assert {conv.weight.shape[1] for conv in large[1:]} == {kernel}
    assert len(large) == 1 + (17 if kernel == 5 else 34)


def test_blocks_without_stride_or_change_of_width_start_near_their_input():
    block = BlazeNet().blocks[0].eval()
    x = np.abs(np.random.default_rng(0).standard_normal((1, 6, 6, 24))).astype(np.float32)
    for _, layer in block.named_layers():
        if isinstance(layer, nn.BatchNorm):
            layer.scale.set(tensor(np.zeros(layer.channels, np.float32)))
    np.testing.assert_array_equal(block(tensor(x)).numpy(), x)


def test_the_searched_network_is_built_from_its_lists():
    single = ((12, 12, 1), (12, 12, 2), (12, 12, 1))
    double = ((12, 16, 24, 2), (24, 12, 24, 1), (24, 16, 72, 2), (72, 12, 72, 1))
    net = BlazeNet(single, double)
    assert net.channels == (24, 72) and sum(p.size for p in net.parameters()) < 30_000


def test_wrong_arguments_are_refused():
    with pytest.raises(AttributeValueError, match="kernel is 7"):
        BlazeNet(kernel=7)
    with pytest.raises(AttributeValueError, match="a block takes 24 channels but the one before gives 12"):
        BlazeNet(((12, 12, 1), (24, 24, 2)), (), out_strides=(4,))
    with pytest.raises(AttributeValueError, match=r"out_strides is \[32\]; .* out of \[2, 4, 8, 16\]"):
        BlazeNet(out_strides=(32,))
