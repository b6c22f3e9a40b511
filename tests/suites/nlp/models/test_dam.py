"""DAM: numpy, pair by pair and with no padding in its attention, reads the paper's equations to the same score."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import AttributeValueError, ConfigError
from suites.engine.train.training import train
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


def conv3d(x, at, weights):
    """[U, P, P, C] with a row of zeros around; weight [K, 3, 3, 3 C], frames side by side; ELU, largest of cubes."""
    w, b = weights[f"{at}.weight"], weights[f"{at}.bias"]
    k, c = w.shape[0], x.shape[-1]
    w = w.reshape(k, 3, 3, 3, c)  # K, R, S, Q, C
    padded = np.pad(x, ((1, 1),) * 3 + ((0, 0),))
    y = np.zeros((*x.shape[:3], k))
    for u, i, j in np.ndindex(*x.shape[:3]):
        y[u, i, j] = np.einsum("qrsc,krsqc->k", padded[u : u + 3, i : i + 3, j : j + 3], w) + b
    y = np.where(y > 0, y, np.expm1(y))
    u, p = x.shape[0] // 3, x.shape[1] // 3
    return y[: 3 * u, : 3 * p, : 3 * p].reshape(u, 3, p, 3, p, 3, k).max(axis=(1, 3, 5))


def picture_of(a, b, weights):
    own = [(weights["embedding.weight"][a], weights["embedding.weight"][b])]
    for layer in range(LAYERS):
        u, r = own[-1]
        own.append((attend(u, u, f"own.{layer}", weights), attend(r, r, f"own.{layer}", weights)))
    planes = [u @ r.T for u, r in own]
    for layer, (u, r) in enumerate(own):
        planes.append(attend(u, r, f"other.{layer}", weights) @ attend(r, u, f"other.{layer}", weights).T)
    picture = np.zeros((WORDS, WORDS, len(planes)))
    picture[: len(a), : len(b)] = np.stack(planes, axis=2) / np.sqrt(WIDTH)
    return picture


def score_of(a, b, weights):
    picture = picture_of(a, b, weights)
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


SEPARATOR = 19


def several(tokenizer_of=lambda word: [SEPARATOR]):
    model = DeepAttentionMatching(20, words=WORDS, width=WIDTH, layers=LAYERS, channels=(4, 3), turns=9).eval()
    nn.init.initialize(model, seed=1)
    tokens = SimpleNamespace(ids=np.array(tokenizer_of("__eot__")))
    model.take_tokenizer(SimpleNamespace(encode=lambda words: [tokens], unknown=1))
    return model


@pytest.mark.parametrize("traced", [True, False])
def test_turns_are_matched_one_by_one_and_joined_by_convolutions_over_them(traced):
    model = several()
    weights = {name: np.asarray(p.numpy(), np.float64) for name, p in model.named_parameters()}
    talks = [([[3, 4, 5], [6, 7], [8] * 11], [9, 10]), ([[4]], [3, 3, 4]), ([[n % 17 + 2] for n in range(11)], [5])]
    sequences = []
    for turns, answer in talks:
        told = [word for turn in turns for word in (*turn, SEPARATOR)][:-1]
        sequences.append((told, answer))
    ids = np.array([i for a, b in sequences for i in (*a, *b)])
    segments = np.array([s for a, b in sequences for s in (*[0] * len(a), *[1] * len(b))])
    offsets = np.cumsum([0, *(len(a) + len(b) for a, b in sequences)])
    run = program(lambda x: {"y": model(**x)}) if traced else lambda x: {"y": model(**x)}
    with no_grad():
        given = {"ids": tensor(ids), "offsets": tensor(offsets), "segment_ids": tensor(segments)}
        found = run(given)["y"].numpy()
    for row, (turns, answer) in zip(found[:, 0], talks, strict=True):
        pictures = np.zeros((9, WORDS, WORDS, 2 * (LAYERS + 1)))
        for u, turn in enumerate(turns[:9]):
            pictures[u] = picture_of(turn[:WORDS], answer, weights)
        y = conv3d(conv3d(pictures, "conv1", weights), "conv2", weights)
        wanted = y.reshape(-1) @ weights["head.weight"][0] + weights["head.bias"][0]
        # As above, with sums of three times as many products.
        np.testing.assert_allclose(row, wanted, rtol=1e-4, atol=2e-5)


def test_the_word_between_turns_must_be_one_that_is_known():
    with pytest.raises(ConfigError, match=r"'__eot__' is 2 tokens \[3, 4\]"):
        several(lambda word: [3, 4])
    with pytest.raises(ConfigError, match=r"'__eot__' is 1 tokens \[1\]"):
        several(lambda word: [1])
    model = DeepAttentionMatching(20, words=WORDS, width=WIDTH, turns=9)
    nn.init.initialize(model, seed=0)
    with pytest.raises(AttributeValueError, match="call take_tokenizer first"):
        model(tensor(np.array([3, 4])), tensor(np.array([0, 2])), tensor(np.array([0, 1])))
    with pytest.raises(AttributeValueError, match="turns is 3; it must be 1, or 9 or more"):
        DeepAttentionMatching(20, turns=3)


CONFIG = """
suite: nlp
model: {type: DeepAttentionMatching, vocab_size: 40, words: 9, width: 16, layers: 1, channels: [8, 8], turns: 9}
data:
  num_classes: 1
  tokenizer: {type: WordTokenizer, max_size: 40}
  max_length: 128
  train: {dataset: {type: Dialogues, path: train.txt}, batch_size: 16}
  eval: {dataset: {type: Dialogues, path: eval.txt}, batch_size: 64}
problem: {type: Reranking, positive: ["1"], loss: {type: Listwise}, hard: 3, main: mrr}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 5e-3}
runtime: {epochs: 12, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 12}}
"""


def test_it_finds_the_answer_that_has_a_word_of_the_conversation(tmp_path, monkeypatch):
    """Among four answers one repeats a word; by chance its reciprocal rank would be 0.52 in the mean."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(30)]
    for name, count in (("train", 160), ("eval", 60)):
        rows = []
        for _ in range(count):
            order = rng.permutation(words)
            talk, others = order[:8].reshape(4, 2), order[8:]
            right = [str(talk[int(rng.integers(4)), int(rng.integers(2))]), str(others[0])]
            wrong = [list(map(str, others[1 + 2 * n : 3 + 2 * n])) for n in range(3)]
            turns = [" ".join(turn) for turn in talk]
            for label, answer in (("1", right), *(("0", each) for each in wrong)):
                rows.append("\t".join([label, *turns, " ".join(answer)]))
        (tmp_path / f"{name}.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["mrr"] > 0.85


@pytest.mark.parametrize("wrong", [{"num_classes": 2}, {"words": 8}, {"layers": 0}])
def test_senseless_sizes_are_refused(wrong):
    with pytest.raises(AttributeValueError, match="num_classes must be 1, words 9 or more"):
        DeepAttentionMatching(20, **wrong)
