"""DAM: numpy, pair by pair and with no padding in its attention, reads the paper's equations to the same score."""

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from suites.nlp.models.dam import DeepAttentionMatching

WORDS, WIDTH, LAYERS = 9, 6, 2


def norm(x, at, weights):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * weights[f"{at}.scale"] + weights[f"{at}.bias"]


def attend(query, seen, at, weights):
    scores = np.exp(query @ seen.T / np.sqrt(WIDTH))
    x = norm(query + scores / scores.sum(1, keepdims=True) @ seen, f"{at}.norm", weights)
    inner = np.maximum(x @ weights[f"{at}.first.weight"].T + weights[f"{at}.first.bias"], 0)
    out = x + inner @ weights[f"{at}.second.weight"].T + weights[f"{at}.second.bias"]
    return norm(out, f"{at}.last_norm", weights)


def conv(x, at, weights):
    """[P, P, C] with one row of zeros around; weight [K, 3, 3, C]; ELU, and the largest of squares of three."""
    w, b = weights[f"{at}.weight"], weights[f"{at}.bias"]
    size, padded = x.shape[0], np.pad(x, ((1, 1), (1, 1), (0, 0)))
    y = np.array([
        [np.einsum("rsc,krsc->k", padded[i : i + 3, j : j + 3], w) + b for j in range(size)] for i in range(size)
    ])  # fmt: skip
    y = np.where(y > 0, y, np.expm1(y))
    side = size // 3
    return y[: 3 * side, : 3 * side].reshape(side, 3, side, 3, -1).max(axis=(1, 3))


def score_of(a, b, weights):
    own = [(weights["embedding.weight"][a], weights["embedding.weight"][b])]
    for layer in range(LAYERS):
        u, r = own[-1]
        own.append((attend(u, u, f"own.{layer}", weights), attend(r, r, f"own.{layer}", weights)))
    planes = [u @ r.T for u, r in own]
    for layer, (u, r) in enumerate(own):
        planes.append(attend(u, r, f"other.{layer}", weights) @ attend(r, u, f"other.{layer}", weights).T)
    picture = np.zeros((WORDS, WORDS, len(planes)))
    picture[: len(a), : len(b)] = np.stack(planes, axis=2) / np.sqrt(WIDTH)
    y = conv(conv(picture, "conv1", weights), "conv2", weights)
    return y.reshape(-1) @ weights["head.weight"][0] + weights["head.bias"][0]


def test_scores_are_those_of_the_papers_equations():
    model = DeepAttentionMatching(20, words=WORDS, width=WIDTH, layers=LAYERS, channels=(4, 3)).eval()
    nn.init.initialize(model, seed=1)
    weights = {name: np.asarray(p.numpy(), np.float64) for name, p in model.named_parameters()}
    pairs = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]), ([1, 2] * 5, [3])]
    ids = np.array([i for a, b in pairs for i in (*a, *b)])
    segments = np.array([s for a, b in pairs for s in (*[0] * len(a), *[1] * len(b))])
    offsets = np.cumsum([0, *(len(a) + len(b) for a, b in pairs)])
    with no_grad():
        found = model(tensor(ids), tensor(offsets), segment_ids=tensor(segments)).numpy()
    wanted = [score_of(a[:WORDS], b[:WORDS], weights) for a, b in pairs]
    # Ten sums in a row of up to 54 products of size 1: 1e-5 of values of size 1 is some 80 roundings.
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong", [{"num_classes": 2}, {"words": 8}, {"layers": 0}])
def test_senseless_sizes_are_refused(wrong):
    with pytest.raises(AttributeValueError, match="num_classes must be 1, words 9 or more"):
        DeepAttentionMatching(20, **wrong)
