"""3-D convolution and pooling equal their definitions, and one Program takes any number of clips and frames."""

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, ops, program
from framework.nn import init

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 8, 7, 3)).astype(np.float32)


def convolved(x, weight, bias, stride, padding):
    """x [N, T, H, W, C], weight [K, Q, R, S, C]: the definition, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), *((p, p) for p in padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[1:4], axis=(1, 2, 3))
    windows = windows[:, :: stride[0], :: stride[1], :: stride[2]]
    return np.einsum("nthwcqrs,kqrsc->nthwk", windows, weight.astype(np.float64)) + bias


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((3, 3, 3), (1, 1, 1), None),
        ((3, 1, 1), (1, 1, 1), None),
        ((3, 1, 1), (2, 1, 1), (1, 0, 0)),
        ((1, 3, 3), (1, 2, 2), None),
        ((1, 1, 1), (2, 2, 2), None),
        ((5, 7, 7), (1, 2, 2), None),
        ((2, 2, 1), (2, 1, 3), (0, 0, 0)),
    ],
)
def test_a_3d_convolution_is_its_definition(kernel, stride, padding):
    layer = nn.Conv3d(3, 4, kernel, stride, padding)
    init.initialize(layer, 0)
    layer.bias.set(from_numpy(RNG.standard_normal(4).astype(np.float32)))
    q, r, s = kernel
    weight = layer.weight.numpy().reshape(4, r, s, q, 3).transpose(0, 3, 1, 2, 4)
    expected = convolved(X, weight, layer.bias.numpy(), stride, layer.padding)
    found = layer(from_numpy(X)).numpy()
    assert found.shape == expected.shape
    # a sum of len(window) products of numbers of size 1: relative error of eps a term
    np.testing.assert_allclose(found, expected, atol=q * r * s * 3 * 1e-6)


@pytest.mark.parametrize(
    ("make", "take"), [(nn.MaxPool3d, np.max), (nn.AvgPool3d, np.mean)], ids=["largest value", "mean"]
)
@pytest.mark.parametrize("kernel", [(2, 3, 3), (2, 1, 1), (1, 2, 3)])
def test_3d_pooling_is_its_definition(make, take, kernel):
    windows = np.lib.stride_tricks.sliding_window_view(X, kernel, axis=(1, 2, 3))
    strided = windows[:, :: kernel[0], :: kernel[1], :: kernel[2]]
    found = make(kernel)(from_numpy(X)).numpy()
    np.testing.assert_allclose(found, take(strided, axis=(-3, -2, -1)), atol=1e-6)
    overlapping = make(kernel, stride=1)(from_numpy(X)).numpy()
    np.testing.assert_allclose(overlapping, take(windows, axis=(-3, -2, -1)), atol=1e-6)


def test_padding_of_3d_pooling_never_wins():
    x = -1 - RNG.random((1, 2, 3, 3, 1)).astype(np.float32)
    assert nn.MaxPool3d(3, 1, padding=1)(from_numpy(x)).numpy().max() < 0


def test_one_program_takes_any_number_of_clips_frames_and_pixels():
    net = nn.Sequential(
        nn.Conv3dBNAct(3, 4, 3, (1, 2, 2)), nn.Conv3d(4, 4, (3, 1, 1)), nn.MaxPool3d((1, 2, 2)), nn.AvgPool3d((2, 1, 1))
    ).eval()
    init.initialize(net, 0)
    traced = program(lambda x: net(x))
    with no_grad():
        for x in (X, X[:1, :3], np.repeat(X, 2, axis=2)):
            np.testing.assert_array_equal(traced(x).numpy(), net(from_numpy(x)).numpy())
    assert not traced.program_for(from_numpy(X)).program.shape_reads


def test_gradients_of_a_3d_convolution_follow_from_differences():
    layer = nn.Conv3d(3, 2, (3, 3, 3), (2, 1, 1))
    init.initialize(layer, 0)
    pull = RNG.standard_normal(layer(from_numpy(X)).shape).astype(np.float32)
    x = from_numpy(X)
    x.requires_grad = True
    ops.sum(layer(x) * from_numpy(pull)).backward()
    way = RNG.standard_normal(X.shape).astype(np.float32)
    # linear in x: the difference along any way is the gradient's product with it
    moved = (layer(from_numpy(X + way)).numpy().astype(np.float64) * pull).sum()
    stayed = (layer(from_numpy(X)).numpy().astype(np.float64) * pull).sum()
    np.testing.assert_allclose((x.grad.numpy().astype(np.float64) * way).sum(), moved - stayed, rtol=1e-4)
