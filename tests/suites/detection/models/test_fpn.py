"""The feature pyramid: strides and widths, sums from the top, extra levels, sides that are no multiples."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from framework.nn import init
from suites.detection.models.fpn import FPN

CHANNELS, STRIDES = (4, 8, 16), (8, 16, 32)


def maps(height=64, width=96):
    rng = np.random.default_rng(0)
    shapes = [(2, -(-height // s), -(-width // s), c) for s, c in zip(STRIDES, CHANNELS, strict=True)]
    return [tensor(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]


@pytest.mark.parametrize(
    ("extra", "levels", "strides"),
    [
        ("none", None, (8, 16, 32)),
        ("pool", None, (8, 16, 32, 64)),
        ("pool", 5, (8, 16, 32, 64, 128)),
        ("conv_c5", None, (8, 16, 32, 64, 128)),
        ("conv_p5", None, (8, 16, 32, 64, 128)),
        ("conv_p5", 4, (8, 16, 32, 64)),
    ],
)
@pytest.mark.parametrize("size", [(64, 96), (72, 104), (33, 250)])
def test_levels_have_the_strides_and_width_it_says(extra, levels, strides, size):
    neck = FPN(CHANNELS, STRIDES, width=6, extra=extra, levels=levels)
    assert (neck.strides, neck.channels) == (strides, (6,) * len(strides))
    given = maps(*size)
    for y, stride in zip(neck(given), strides, strict=True):
        assert y.shape == (2, -(-size[0] // stride), -(-size[1] // stride), 6)


def conv(x, layer, stride=1):
    """A convolution by the definition, zeros around."""
    weight, bias = layer.weight.numpy(), layer.bias.numpy()
    half = weight.shape[1] // 2
    x = np.pad(x, ((0, 0), (half, half), (half, half), (0, 0)))
    rows, columns = (range(0, x.shape[a] - 2 * half, stride) for a in (1, 2))
    window = [[x[:, r : r + 2 * half + 1, c : c + 2 * half + 1] for c in columns] for r in rows]
    return np.einsum("hwnrsc,krsc->nhwk", np.array(window), weight) + bias


@pytest.mark.parametrize("extra", ["conv_c5", "conv_p5", "pool"])
def test_the_numbers_are_the_papers(extra):
    neck = FPN(CHANNELS, STRIDES, width=3, extra=extra, levels=5)
    init.initialize(neck, 1)
    c3, c4, c5 = (m.numpy() for m in maps(64, 64))
    m5 = conv(c5, neck.inner_blocks[2])
    m4 = conv(c4, neck.inner_blocks[1]) + m5.repeat(2, axis=1).repeat(2, axis=2)
    m3 = conv(c3, neck.inner_blocks[0]) + m4.repeat(2, axis=1).repeat(2, axis=2)
    expected = [conv(m, layer) for m, layer in zip((m3, m4, m5), neck.layer_blocks, strict=True)]
    if extra == "pool":
        expected += [expected[2][:, ::2, ::2], expected[2][:, ::4, ::4]]
    else:
        expected.append(conv(c5 if extra == "conv_c5" else expected[2], neck.extra_blocks[0], 2))
        expected.append(conv(np.maximum(expected[3], 0), neck.extra_blocks[1], 2))
    for y, wanted in zip(neck(maps(64, 64)), expected, strict=True):
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_its_convolutions_start_with_unit_gain_and_no_bias():
    neck = FPN((256,), (32,), extra="none")
    init.initialize(neck, 0)
    weight = neck.inner_blocks[0].weight.numpy()
    assert weight.var() == pytest.approx(1 / 256, rel=0.05)
    assert np.abs(weight).max() <= np.sqrt(3 / 256)
    assert not neck.layer_blocks[0].bias.numpy().any()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"width": 0}, "width is 0"),
        ({"in_strides": (8, 32, 64)}, r"strides are \[8, 32, 64\]; each must be twice"),
        ({"extra": "conv"}, "extra is 'conv'"),
        ({"extra": "none", "levels": 4}, "levels is 4; with 3 backbone maps and extra: none it is 3 to 3"),
        ({"levels": 2}, "levels is 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(AttributeValueError, match=match):
        FPN(**{"in_channels": CHANNELS, "in_strides": STRIDES, **arguments})
