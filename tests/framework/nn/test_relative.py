"""Relative positions and attention by place: the formulas in NumPy, row by row, in any order of rows."""

import itertools

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import AttributeValueError, NotSupportedError

OFFSETS = [0, 1, 6, 9]
CLOSE = {"rtol": 0, "atol": 200 * float(np.finfo(np.float32).eps)}  # sums of at most 20 products of order 1


def made(relative, heads=2):
    layer = nn.MultiHeadAttention(8, heads, relative=relative).eval()
    nn.init.initialize(layer, seed=3)
    return layer


def reference(layer, x, causal, distance):
    """Shaw et al. 2018, equations 3 and 4, of one sequence."""
    w = {name: np.float64(t.numpy()) for name, t in layer.state_dict().items()}
    q, k, v = np.split(x @ w["qkv.weight"].T + w["qkv.bias"], 3, axis=1)
    size = 8 // layer.heads
    y = np.zeros_like(q)
    for h in range(layer.heads):
        own = slice(h * size, (h + 1) * size)
        for i in range(len(x)):
            seen = range(i + 1) if causal else range(len(x))
            far = [int(np.clip(j - i, -distance, distance)) + distance for j in seen]
            scores = [
                q[i, own] @ (k[j, own] + w["relative.keys"][f]) / np.sqrt(size) for j, f in zip(seen, far, strict=True)
            ]
            weights = np.exp(scores) / np.exp(scores).sum()
            y[i, own] = sum(
                a * (v[j, own] + w["relative.values"][f]) for a, j, f in zip(weights, seen, far, strict=True)
            )
    return y @ w["out.weight"].T + w["out.bias"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("distance", [1, 2, 8])
def test_attention_with_distances_is_shaws(causal, distance):
    layer = made((distance, 6))
    x = np.random.default_rng(0).normal(size=(9, 8))
    found = layer(framework.tensor(x.astype(np.float32)), framework.tensor(OFFSETS), causal).numpy()
    for a, b in itertools.pairwise(OFFSETS):
        np.testing.assert_allclose(found[a:b], reference(layer, x[a:b], causal, distance), **CLOSE)


def test_rows_that_follow_others_are_as_all_at_once():
    layer = made((2, 8))
    x = np.random.default_rng(1).normal(size=(7, 8)).astype(np.float32)
    whole = layer(framework.tensor(x), framework.tensor([0, 3, 7]), True).numpy()
    _, keys, values = layer.continued(
        framework.tensor(x), framework.tensor([0, 3, 7]),
        nn.KeyRows(*(framework.tensor(np.zeros((0, 8), np.float32)),) * 2, framework.tensor(np.arange(7)),
                   framework.tensor([0, 3, 7])),
    )  # fmt: skip
    new = framework.tensor(x[[2, 5, 6]])  # the last row of one, the last two of the other
    past = nn.KeyRows(keys, values, framework.tensor(np.array([0, 1, 7, 3, 4, 8, 9])), framework.tensor([0, 3, 7]))
    found, *_ = layer.continued(new, framework.tensor([0, 1, 3]), past)
    np.testing.assert_allclose(found.numpy(), whole[[2, 5, 6]], **CLOSE)


def test_gradients_reach_the_vectors_of_distances_that_occur():
    layer = nn.MultiHeadAttention(8, 2, relative=(3, 8))
    nn.init.initialize(layer, seed=0)
    x = framework.tensor(np.random.default_rng(2).normal(size=(3, 8)).astype(np.float32))
    framework.ops.sum(layer(x, framework.tensor([0, 3]), True) ** 2).backward()
    for table in (layer.relative.keys, layer.relative.values):
        gone = (table.grad.numpy() == 0).all(axis=1)
        assert gone.tolist() == [True, False, False, False, True, True, True]  # -2, -1 and 0 of -3 ... 3 occur


def test_weights_by_place_are_the_mean_of_all_heads():
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=(n, 8)) for n in (4, 5, 5))
    single = [x.astype(np.float32) for x in (q, k, v)]
    y, weights = nn.attend_by_place(
        *map(framework.tensor, single), framework.tensor([0, 1, 4]), framework.tensor([0, 2, 5]),
        heads=2, width=4, scale=0.5, length=6,
    )  # fmt: skip
    expected, plain = np.zeros((4, 6)), np.zeros((4, 8))
    for row, keys in ((0, [0, 1]), (1, [2, 3, 4]), (2, [2, 3, 4]), (3, [2, 3, 4])):
        for own in (slice(0, 4), slice(4, 8)):
            e = np.exp(0.5 * k[keys][:, own] @ q[row, own])
            expected[row, : len(keys)] += e / e.sum() / 2
            plain[row, own] = e / e.sum() @ v[keys][:, own]
    np.testing.assert_allclose(weights.numpy(), expected, **CLOSE)
    np.testing.assert_allclose(y.numpy(), plain, **CLOSE)


def test_what_cannot_be_is_refused():
    with pytest.raises(AttributeValueError, match="distance 0"):
        made((0, 8))
    layer = made((2, 4))
    with pytest.raises(AttributeValueError, match="depth has 4"):
        layer(framework.tensor(np.ones((5, 8), np.float32)), framework.tensor([0, 5]))
    with pytest.raises(NotSupportedError, match="padded rows have no relative positions"):
        layer.padded(framework.tensor(np.ones((1, 2, 8), np.float32)), framework.tensor(np.ones((1, 2), bool)))
