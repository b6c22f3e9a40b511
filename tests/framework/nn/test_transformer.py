"""Attention layers and encoder layers: ragged equals padded, what is dropped, what is refused."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError

LENGTHS = [5, 1, 8]
OFFSETS = np.array([0, 5, 6, 14])


def _rows(width, seed=0):
    return framework.tensor(np.random.default_rng(seed).standard_normal((14, width)).astype(np.float32))


def _padded(x):
    out = np.zeros((3, 8, x.shape[1]), np.float32)
    for b, n in enumerate(LENGTHS):
        out[b, :n] = x.numpy()[OFFSETS[b] : OFFSETS[b] + n]
    return framework.tensor(out), framework.tensor(np.arange(8) < np.array(LENGTHS)[:, None])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_an_encoder_layer_gives_the_same_ragged_and_padded(norm_first, activation):
    layer = nn.TransformerEncoderLayer(12, 3, 24, activation, 0.0, norm_first=norm_first)
    nn.init.initialize(layer, 0)
    x = _rows(12)
    padded, mask = _padded(x)
    want = layer.padded(padded, mask).numpy()[mask.numpy()]
    np.testing.assert_allclose(layer(x, OFFSETS).numpy(), want, rtol=0, atol=1e-6 * np.abs(want).max())


def test_norms_stand_after_the_sums_or_before_the_sub_layers():
    after, before = nn.TransformerEncoderLayer(12, 3, 24), nn.TransformerEncoderLayer(12, 3, 24, norm_first=True)
    for layer in (after, before):
        nn.init.initialize(layer, 0)
        layer.eval()
    x = _rows(12)
    assert np.abs(after(x, OFFSETS).numpy().mean(1)).max() < 1e-6  # each row is normalised
    assert np.abs(before(x, OFFSETS).numpy().mean(1)).max() > 1e-2


def test_causal_rows_do_not_see_later_ones():
    layer = nn.MultiHeadAttention(12, 3)
    nn.init.initialize(layer, 0)
    x = _rows(12)
    changed = x.numpy().copy()
    changed[4] += 1.0  # the last row of the first sequence
    a, b = (layer(framework.tensor(t), OFFSETS, causal=True).numpy() for t in (x.numpy(), changed))
    np.testing.assert_array_equal(a[[0, 1, 2, 3, 5, 6]], b[[0, 1, 2, 3, 5, 6]])
    assert (a[4] != b[4]).any()


def test_cross_attention_with_one_key_gives_its_value():
    layer = nn.CrossAttention(12, 3)
    nn.init.initialize(layer, 0)
    memory = _rows(12, seed=1)
    first = ops.slice(memory, starts=(0,), ends=(3,))
    y = layer(_rows(12), OFFSETS, first, np.array([0, 1, 2, 3]))
    want = layer.out(layer.v(first)).numpy()
    np.testing.assert_allclose(y.numpy(), np.repeat(want, LENGTHS, axis=0), rtol=0, atol=1e-6)


def test_weights_are_dropped_in_training_only():
    layer = nn.MultiHeadAttention(12, 3, dropout=0.5, generator=framework.random.Generator(3))
    nn.init.initialize(layer, 0)
    x = _rows(12)
    assert (layer(x, OFFSETS).numpy() != layer(x, OFFSETS).numpy()).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x, OFFSETS).numpy(), layer(x, OFFSETS).numpy())


def test_heads_must_divide_the_width():
    with pytest.raises(AttributeValueError, match="MultiHeadAttention: 5 heads do not divide a width of 12"):
        nn.MultiHeadAttention(12, 5)


def test_heads_need_not_be_as_wide_as_the_model_together():
    layer = nn.TransformerEncoderLayer(16, 3, 20, dropout=0.0, head_size=4)
    assert layer.attention.qkv.weight.shape == (36, 16) and layer.attention.out.weight.shape == (16, 12)
    x = framework.tensor(np.random.default_rng(0).normal(size=(5, 16)).astype(np.float32))
    ragged = layer(x, framework.tensor(np.array([0, 5])))
    padded = layer.padded(framework.ops.expand_dims(x, axis=0), framework.tensor(np.ones((1, 5), bool)))
    # Both sum the same 5 products of 12 columns, in another order.
    assert np.abs(ragged.numpy() - padded.numpy()[0]).max() < 1e-5
    with pytest.raises(AttributeValueError, match="head_size is 0; it must be 1 or more"):
        nn.MultiHeadAttention(16, 3, head_size=0)
