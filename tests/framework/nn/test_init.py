"""Initializers have the variance, bounds and fans that their papers give."""

import math

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import AttributeValueError
from framework.nn import init

CONV = (64, 3, 3, 32)  # [K, R, S, C]: fan in 288, fan out 576
COUNT = math.prod(CONV)


def spread(initializer, shape=CONV):
    x = init.draw(initializer, shape, seed=0, name="w")
    assert x.dtype == np.float32 and x.shape == tuple(shape)
    # The mean of n draws lies within 5 standard errors of 0.
    assert abs(x.mean()) < 5 * x.std() / math.sqrt(x.size)
    return x


@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (init.Kaiming(), 2 / 288),
        (init.Kaiming("uniform"), 2 / 288),
        (init.Kaiming(mode="fan_out"), 2 / 576),
        (init.Kaiming(slope=0.1), 2 / (1.01 * 288)),
        (init.Xavier(), 2 / (288 + 576)),
        (init.Xavier("uniform"), 2 / (288 + 576)),
        (init.Normal(0.3), 0.09),
        (init.Uniform(-0.5, 0.5), 1 / 12),
    ],
    ids=str,
)
def test_variance(initializer, variance):
    # The sample variance of n normal draws has a relative standard error of sqrt(2 / n); 5 of them are allowed.
    assert spread(initializer).var() == pytest.approx(variance, rel=5 * math.sqrt(2 / COUNT))


def test_truncated_normal_stays_within_two_deviations():
    x = spread(init.TruncatedNormal(0.02))
    assert np.abs(x).max() <= 0.04 * (1 + 1e-6)
    assert x.std() == pytest.approx(0.02 * 0.8796, rel=5 * math.sqrt(2 / COUNT))  # sqrt(1 - 4 phi(2) / erf(sqrt 2))


def test_constant():
    assert (init.draw(init.Constant(3.0), (2, 2), seed=0, name="w") == 3).all()


def test_a_vector_has_no_fan():
    with pytest.raises(AttributeValueError, match=r"init: a tensor of shape \[5\] has no fan"):
        init.draw(init.Kaiming(), (5,), seed=0, name="w")


def test_a_model_built_undrawn_is_drawn_once_with_the_same_numbers():
    def built():
        return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm(7), nn.Linear(7, 3, initializer=init.TruncatedNormal(0.5)))

    usual = built()
    with init.undrawn():
        later = built()
    threads = framework.num_threads()
    for model, count in ((usual, 1), (later, 2)):
        framework.set_num_threads(count)
        init.initialize(model, 3)
    framework.set_num_threads(threads)
    expected = {name: t.numpy().tobytes() for name, t in usual.state_dict().items()}
    assert {name: t.numpy().tobytes() for name, t in later.state_dict().items()} == expected
    assert all(t.requires_grad and t.persistable for t in later.parameters())


def test_layers_are_drawn_again_after_the_block_also_after_an_error():
    with pytest.raises(ZeroDivisionError), init.undrawn():
        raise ZeroDivisionError
    assert nn.Linear(4, 4).weight.numpy().tobytes() == nn.Linear(4, 4).weight.numpy().tobytes()
