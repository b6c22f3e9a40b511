"""Backbones have the shapes, widths and parameter counts of their papers."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from suites.vision.backbones import DarkNet53, MobileNetV1, MobileNetV2

IMAGE = np.random.default_rng(0).standard_normal((1, 64, 96, 3)).astype(np.float32)


def count(model):
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize(
    "model",
    [
        lambda: MobileNetV1(scale=0.25),
        lambda: MobileNetV1(scale=0.5, out_strides=(4, 16)),
        lambda: MobileNetV2(scale=0.25),
        lambda: MobileNetV2(scale=0.35, out_strides=(2, 4, 16), output_stride=16),
        lambda: DarkNet53(width=4),
        lambda: DarkNet53(width=4, blocks=(1, 1, 1), out_strides=(2, 8)),
    ],
)
def test_maps_have_the_strides_and_channels_it_says(model):
    model = model().eval()
    maps = model(tensor(IMAGE))
    assert [m.shape for m in maps] == [
        (1, 64 // s, 96 // s, c) for s, c in zip(model.strides, model.channels, strict=True)
    ]
    assert all(np.isfinite(m.numpy()).all() for m in maps)


def test_mobilenet_v1_has_its_papers_parameters():
    # 4.2 million with the classifier's 1,024 x 1,000 weights and 1,000 biases (Howard et al. 2017, table 8);
    # exactly 3,206,976 convolution and batch-norm parameters without it.
    assert count(MobileNetV1()) == 3_206_976
    assert MobileNetV1().channels == (256, 512, 1024)


def test_mobilenet_v2_has_its_papers_parameters():
    # 3.4 million with the last 1x1 convolution (320 x 1,280, batch norm) and the classifier's 1,280 x 1,000 + 1,000
    # (Sandler et al. 2018, table 4; torchvision: 3,504,872).
    assert count(MobileNetV2()) == 3_504_872 - (320 * 1280 + 2 * 1280) - 1_281_000
    assert MobileNetV2().channels == (32, 96, 320)


def test_mobilenet_v2_dilates_instead_of_halving_below_its_output_stride():
    dilations = {}
    for stride in (8, 16, 32):
        net = MobileNetV2(0.25, out_strides=(4, stride), output_stride=stride).eval()
        assert [m.shape[1:3] for m in net(tensor(IMAGE[:, :33, :65]))] == [
            (9, 17),
            (-(-33 // stride), -(-65 // stride)),
        ]
        depthwise = [block.body[-2].conv for block in net.blocks]
        dilations[stride] = [conv.dilation[0] for conv in depthwise]
    assert dilations[32] == [1] * 17
    assert dilations[16] == [1] * 13 + [2] * 4
    assert dilations[8] == [1] * 6 + [2] * 7 + [4] * 4


def test_widths_are_rounded_as_the_authors_do():
    assert MobileNetV2(0.35).stem.conv.out_channels == 16  # 11.2: 8 would be 10 % less
    assert MobileNetV2(1.4).channels == (48, 136, 448)


def test_darknet53_has_its_papers_parameters():
    # 41.6 million with the classifier's 1,024 x 1,000 weights and 1,000 biases (darknet53.weights).
    assert count(DarkNet53()) == 40_584_928
    assert DarkNet53().channels == (256, 512, 1024)


def test_a_network_ends_at_its_last_stride():
    assert count(MobileNetV1(out_strides=(8,))) < count(MobileNetV1(out_strides=(8, 16)))
    assert len(DarkNet53(width=4, out_strides=(4, 8)).stages) == 3


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: MobileNetV1(out_strides=(8, 12)),
            r"MobileNetV1: out_strides is \[8, 12\]; .* out of \[2, 4, 8, 16, 32\]",
        ),
        (lambda: MobileNetV1(out_strides=(16, 8)), "must be ascending"),
        (lambda: DarkNet53(out_strides=()), "must be ascending"),
        (lambda: MobileNetV1(scale=0), "scale is 0; it must be positive"),
        (lambda: MobileNetV2(scale=0), "MobileNetV2: scale is 0; it must be positive"),
        (lambda: MobileNetV2(output_stride=16), r"out_strides is \[8, 16, 32\]; .* out of \[2, 4, 8, 16\]"),
        (lambda: DarkNet53(width=1), "width is 1"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
