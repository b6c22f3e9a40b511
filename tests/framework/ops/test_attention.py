"""Attention of sequences longer than a block, of queries without keys and of no rows at all."""

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.ops import internal
from tests.framework.ops.harness import composed

OFFSETS = np.array([0, 300, 310, 311, 500])  # blocks have 96 queries and 256 keys
KEY = np.array([5, 9])


def _arrays(rows, width, seed=0):
    return [a.astype(np.float32) for a in np.random.default_rng(seed).standard_normal((3, rows, width))]


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize(
    ("causal", "p", "window"),
    [(False, 0, 0), (True, 0, 0), (True, 0.25, 0), (True, 0, 20), (False, 0.25, 130), (True, 0, 299)],
)
def test_long_sequences_equal_one_masked_matrix(causal, p, window, isa):
    q, k, v = _arrays(500, 24)
    attrs = {"heads": 2, "scale": 0.0, "causal": causal, "p": float(p), "window": window}
    want_y, want_lse = composed("ragged_attention")(q, k, v, OFFSETS, None, KEY, **attrs)
    before = _core.active_isa()
    _core.use_isa(isa)
    try:
        y, lse = ops.ragged_attention(q, k, v, OFFSETS, key=KEY, **attrs)
        dy = np.ones_like(q)
        grads = internal.ragged_attention_grad(dy, y, lse, q, k, v, OFFSETS, key=KEY, **attrs)
    finally:
        _core.use_isa(before)
    # A weighted mean of 300 values of size 4: the sum of weights and of products each round at most 300 times, by
    # eps / 2 of what they have come to, so that half of the worst case bounds what random signs leave.
    tolerance = 300 * np.finfo(np.float32).eps
    np.testing.assert_allclose(y.numpy(), want_y, rtol=0, atol=tolerance)
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=0, atol=tolerance)
    wanted = composed("ragged_attention_grad")(dy, y.numpy(), lse.numpy(), q, k, v, OFFSETS, None, KEY, None, **attrs)
    for got, want in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=tolerance * max(1.0, np.abs(want).max()))


def test_a_query_without_keys_gives_zero_and_no_gradient():
    q, k, v = (framework.tensor(a, requires_grad=True) for a in _arrays(4, 4))
    offsets, k_offsets = np.array([0, 2, 4]), np.array([0, 4, 4])  # the second sequence has no keys
    y, lse = ops.ragged_attention(q, k, v, offsets, k_offsets, heads=2)
    assert (y.numpy()[2:] == 0).all() and np.isneginf(lse.numpy()[2:]).all()
    dq, dk, dv = framework.gradients([y], [q, k, v], [ops.full_like(y, value=1.0)])
    assert (dq.numpy()[2:] == 0).all() and np.isfinite(dk.numpy()).all() and np.isfinite(dv.numpy()).all()
    # With fewer keys than queries the first queries of a causal sequence see none.
    y, _ = ops.ragged_attention(q, k, v, np.array([0, 4]), np.array([0, 4]), heads=1, causal=True)
    few, _ = ops.ragged_attention(
        q, ops.slice(k, starts=(0,), ends=(1,)), ops.slice(v, starts=(0,), ends=(1,)), np.array([0, 4]),
        np.array([0, 1]), heads=1, causal=True,
    )  # fmt: skip
    assert (few.numpy()[:3] == 0).all()
    np.testing.assert_allclose(few.numpy()[3], v.numpy()[0], rtol=1e-6)


def test_no_rows_give_no_rows():
    empty, none = np.zeros((0, 4), np.float32), np.zeros(1, np.int64)
    y, lse = ops.ragged_attention(empty, empty, empty, none, heads=2)
    assert y.shape == (0, 4) and lse.shape == (0, 2)
    dqkv = internal.ragged_self_attention_grad(empty, y, lse, np.zeros((0, 12), np.float32), none, heads=2)
    assert dqkv.shape == (0, 12)


def test_one_and_two_threads_give_the_same_bits():
    qkv = np.concatenate(_arrays(500, 24), axis=1)
    before = framework.num_threads()
    found = []
    for threads in (1, 2):
        framework.set_num_threads(threads)
        y, lse = ops.ragged_self_attention(qkv, OFFSETS, KEY, heads=3, p=0.1)
        found.append((y.numpy().tobytes(), lse.numpy().tobytes()))
    framework.set_num_threads(before)
    assert found[0] == found[1]
