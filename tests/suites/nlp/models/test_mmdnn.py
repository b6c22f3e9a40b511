"""MMDNN: numpy reads its equations, pair by pair, to the same logits; it learns which texts share a word."""

import json

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import AttributeValueError
from suites.engine.train.training import train
from suites.nlp.models.mmdnn import MMDNN

from .test_elmo import lstm

WORDS, CELLS = 6, 3


def logits_of(a, b, w):
    def read(ids):
        right = lstm(w["embedding.weight"][ids], "rightward.layers.0", w)
        left = lstm(right[::-1], "leftward.layers.0", w)[::-1]
        return np.concatenate([right, left], axis=1)[:WORDS]

    products = np.zeros((WORDS + 2, WORDS + 2))
    first, second = read(a), read(b)
    products[1 : len(first) + 1, 1 : len(second) + 1] = first @ second.T
    filters = w["conv.weight"][..., 0]
    largest = np.zeros((CELLS, CELLS, len(filters)))
    size = WORDS // CELLS
    for i, j in np.ndindex(len(first), len(second)):
        y = np.einsum("rs,krs->k", products[i : i + 3, j : j + 3], filters) + w["conv.bias"]
        largest[i // size, j // size] = np.maximum(largest[i // size, j // size], y)  # 0 where no word is, as relu
    y = np.tanh(w["hidden.weight"] @ largest.reshape(-1) + w["hidden.bias"])
    return w["head.weight"] @ y + w["head.bias"]


@pytest.mark.parametrize("traced", [True, False])
def test_logits_are_those_of_its_equations(traced):
    model = MMDNN(20, 3, words=WORDS, width=5, hidden=4, filters=7, cells=CELLS, last=8).eval()
    nn.init.initialize(model, seed=1)
    for _, parameter in model.named_parameters():
        parameter.set(parameter * 2.0)
    w = {name: np.float64(p.numpy()) for name, p in model.named_parameters()}
    pairs = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12, 13, 14, 15, 16]), ([1, 2] * 5, [3])]
    ids = np.array([i for a, b in pairs for i in (*a, *b)])
    segments = np.array([s for a, b in pairs for s in (*[0] * len(a), *[1] * len(b))])
    offsets = np.cumsum([0, *(len(a) + len(b) for a, b in pairs)])
    given = {"ids": tensor(ids), "offsets": tensor(offsets), "segment_ids": tensor(segments)}
    run = program(lambda x: {"y": model(**x)})
    with no_grad():
        found = (run(given)["y"] if traced else model(**given)).numpy()
    # Some hundred roundings of sums of tens of terms of order 1.
    np.testing.assert_allclose(found, [logits_of(a, b, w) for a, b in pairs], rtol=1e-4, atol=2e-5)


CONFIG = """
suite: nlp
model: {type: MMDNN, vocab_size: 24, num_classes: 2, words: 8, width: 16, hidden: 12, filters: 16, last: 16}
data:
  num_classes: 2
  tokenizer: {type: WordTokenizer, max_size: 24}
  max_length: 32
  train: {dataset: {type: Tsv, path: train.tsv, pair: text_b}, batch_size: 32}
  eval: {dataset: {type: Tsv, path: eval.tsv, pair: text_b}, batch_size: 100}
problem: {type: Classification, pair: true}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 5e-3}
runtime: {epochs: 12, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 12}}
"""


def test_it_learns_which_texts_share_a_word(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("train", 1000), ("eval", 200)):
        rows = ["label\ttext_a\ttext_b"]
        for number in range(count):
            words = [f"w{n}" for n in rng.permutation(20)]
            first, second = words[:4], words[4:8]
            if number % 2:
                second[int(rng.integers(4))] = first[int(rng.integers(4))]
            rows.append(f"{number % 2}\t{' '.join(first)}\t{' '.join(second)}")
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["accuracy"] >= 0.9


@pytest.mark.parametrize("wrong", [{"window": 2}, {"hidden": 0}, {"cells": 5}])
def test_senseless_sizes_are_refused(wrong):
    with pytest.raises(AttributeValueError, match=r"window odd|cells is 5 but must divide words"):
        MMDNN(20, 2, **wrong)
