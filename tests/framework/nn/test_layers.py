"""Layers against NumPy, and in a Program as eagerly."""

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import AttributeValueError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 8, 6, 4)).astype(np.float32)


def test_linear():
    layer = nn.Linear(4, 3)
    layer.bias.set(framework.tensor(np.arange(3, dtype=np.float32)))
    expected = X @ layer.weight.numpy().T + np.arange(3)
    np.testing.assert_allclose(layer(framework.tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_embedding():
    layer = nn.Embedding(10, 4)
    ids = np.array([[1, 2], [9, 1]])
    np.testing.assert_array_equal(layer(framework.tensor(ids)).numpy(), layer.weight.numpy()[ids])


def test_conv_pads_by_half_the_kernel_unless_told():
    x = framework.tensor(X)
    assert nn.Conv2d(4, 5, 3)(x).shape == (2, 8, 6, 5)
    assert nn.Conv2d(4, 5, 3, stride=2)(x).shape == (2, 4, 3, 5)
    assert nn.Conv2d(4, 5, 3, dilation=2)(x).shape == (2, 8, 6, 5)
    assert nn.Conv2d(4, 5, (3, 1), padding=0)(x).shape == (2, 6, 6, 5)
    assert nn.Conv2d(4, 4, 3, groups=4).weight.shape == (4, 3, 3, 1)
    with pytest.raises(AttributeValueError, match="4 channels in and 5 out do not both divide into 2 groups"):
        nn.Conv2d(4, 5, 3, groups=2)


def test_conv_of_one_pixel_is_a_product():
    layer = nn.Conv2d(4, 5, 1)
    expected = X @ layer.weight.numpy().reshape(5, 4).T
    np.testing.assert_allclose(layer(framework.tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_batch_norm_normalizes_and_moves_its_statistics():
    layer = nn.BatchNorm(4, momentum=0.75)
    mean, var = X.mean((0, 1, 2)), X.var((0, 1, 2))
    y = layer(framework.tensor(X)).numpy()
    np.testing.assert_allclose(y, (X - mean) / np.sqrt(var + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.25 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.75 + 0.25 * var, rtol=1e-5)
    assert not layer.running_mean.requires_grad
    y = layer.eval()(framework.tensor(X)).numpy()
    expected = (X - 0.25 * mean) / np.sqrt(0.75 + 0.25 * var + 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_a_frozen_batch_norm_does_not_move():
    layer = nn.BatchNorm(4, frozen=True)
    layer(framework.tensor(X))
    assert (layer.running_mean.numpy() == 0).all()
    with pytest.raises(AttributeValueError, match="momentum is 1"):
        nn.BatchNorm(4, momentum=1.0)


def test_layer_norm_and_group_norm():
    x = framework.tensor(X)
    expected = (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.LayerNorm(4)(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    groups = X.reshape(2, 48, 2, 2)
    mean, var = groups.mean((1, 3), keepdims=True), groups.var((1, 3), keepdims=True)
    expected = ((groups - mean) / np.sqrt(var + 1e-5)).reshape(X.shape)
    np.testing.assert_allclose(nn.GroupNorm(2, 4)(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(AttributeValueError, match="4 channels do not divide into 3 groups"):
        nn.GroupNorm(3, 4)


def test_pools_and_upsampling():
    x = framework.tensor(X)
    windows = X.reshape(2, 4, 2, 3, 2, 4)
    np.testing.assert_array_equal(nn.MaxPool2d(2)(x).numpy(), windows.max((2, 4)))
    np.testing.assert_allclose(nn.AvgPool2d(2)(x).numpy(), windows.mean((2, 4)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.GlobalAvgPool2d()(x).numpy(), X.mean((1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(nn.Upsample(2)(x).numpy(), X.repeat(2, 1).repeat(2, 2))
    assert nn.Upsample(3, "bilinear")(x).shape == (2, 24, 18, 4)
    with pytest.raises(AttributeValueError, match="method 'cubic' is not known"):
        nn.Upsample(2, "cubic")


@pytest.mark.parametrize("name", nn.ACTIVATIONS)
def test_every_activation_runs(name):
    y = nn.Activation(name)(framework.tensor(X)).numpy()
    assert y.shape == X.shape and np.isfinite(y).all()


def test_an_unknown_activation_lists_all():
    with pytest.raises(AttributeValueError, match=r"activation: 'swish' is not known; it is one of none, relu"):
        nn.activation("swish")


def test_a_training_step_is_the_same_in_a_program():
    def build():
        model = nn.Sequential(nn.ConvBNAct(4, 8, 3, act="leaky_relu"), nn.GlobalAvgPool2d(), nn.Linear(8, 2))
        nn.init.initialize(model, 7)
        return model

    def step(model):
        def run(x):
            loss = (model(x) * model(x)).mean()
            loss.backward()
            return {"loss": loss, "grads": {name: p.grad for name, p in model.named_parameters()}}

        return run

    eager, traced = build(), build()
    program = framework.program(step(traced))
    for _ in range(2):
        for p in [*eager.parameters(), *traced.parameters()]:
            p.grad = None
        a, b = step(eager)(framework.tensor(X)), program(framework.tensor(X))
        np.testing.assert_allclose(b["loss"].numpy(), a["loss"].numpy(), rtol=1e-6)
        for name, grad in a["grads"].items():
            np.testing.assert_allclose(b["grads"][name].numpy(), grad.numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
    for name, t in eager.state_dict().items():
        np.testing.assert_allclose(traced.state_dict()[name].numpy(), t.numpy(), rtol=1e-6, atol=1e-7, err_msg=name)


def test_prelu_has_a_slope_of_each_channel_or_one_of_all():
    for channels in (1, 4):
        layer = nn.PReLU(channels)
        layer.slope.set(framework.tensor(np.linspace(0.1, 0.4, channels, dtype=np.float32)))
        expected = np.where(X > 0, X, X * np.linspace(0.1, 0.4, channels))
        np.testing.assert_allclose(layer(framework.tensor(X)).numpy(), expected, rtol=1e-6)


def test_rms_norm_has_a_mean_square_of_one():
    layer = nn.RMSNorm(4, eps=0.0)
    np.testing.assert_allclose((layer(framework.tensor(X)).numpy() ** 2).mean(-1), 1.0, rtol=1e-5)
    assert set(layer.state_dict()) == {"scale"}


def test_adaptive_pooling_gives_one_size_for_every_image():
    for size in ((8, 6), (5, 7), (1, 1)):
        x = framework.tensor(X[:, : size[0], : size[1]])
        assert nn.AdaptiveAvgPool2d((3, 2))(x).shape == nn.AdaptiveMaxPool2d((3, 2))(x).shape == (2, 3, 2, 4)
    whole = nn.AdaptiveAvgPool2d(1)(framework.tensor(X)).numpy()
    np.testing.assert_allclose(whole[:, 0, 0], X.mean((1, 2)), rtol=1e-5, atol=1e-6)


def test_pixel_shuffle_is_undone():
    x = framework.tensor(X)
    y = nn.PixelShuffle(2)(x)
    assert y.shape == (2, 16, 12, 1)
    np.testing.assert_array_equal(nn.PixelUnshuffle(2)(y).numpy(), X)


def test_upsample_bicubic_keeps_what_is_constant():
    y = nn.Upsample(3, method="bicubic")(framework.tensor(np.ones_like(X)))
    assert y.shape == (2, 24, 18, 4)
    np.testing.assert_allclose(y.numpy(), 1.0, rtol=1e-6)
