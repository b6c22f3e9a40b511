"""BiDAF: numpy, pair by pair, reads the paper's equations to the same scores; it finds the answers of a drawn set."""

import json

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import AttributeValueError
from suites.engine.train.training import train
from suites.nlp.models.bidaf import BiDAF
from suites.nlp.models.characters import CharacterLayers
from tests.suites.nlp.models.test_characters import spelled

D = 3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def lstm(x, at, w, layer=0):
    """Both directions side by side, gates i, f, g, o."""
    at, found = f"{at}.layers.{layer}", []
    for side in (0, 1):
        rows = x if side == 0 else x[::-1]
        own = slice(4 * D * side, 4 * D * (side + 1))
        h = c = np.zeros(D)
        states = []
        for row in rows:
            z = w[f"{at}.weight_x"][own] @ row + w[f"{at}.bias"][own] + w[f"{at}.weight_h"][side] @ h
            i, f, g, o = np.split(z, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        found.append(np.array(states if side == 0 else states[::-1]))
    return np.concatenate(found, axis=1)


def scores_of(question, passage, w, vectors=None):
    """First and last scores of the passage's tokens, and of [CLS], the question's first token.

    vectors: those of all tokens by their characters.
    """

    def embedded(ids, own):
        x = w["words.weight"][ids]
        x = x if own is None else np.concatenate([x, own], axis=1)
        for layer in (0, 1):
            at = f"highway.{layer}"
            gate = sigmoid(x @ w[f"{at}.gate.weight"].T + w[f"{at}.gate.bias"])
            x = gate * np.maximum(x @ w[f"{at}.change.weight"].T + w[f"{at}.change.bias"], 0) + (1 - gate) * x
        return lstm(x, "context", w)

    middle = len(question)
    u = embedded(question, None if vectors is None else vectors[:middle])
    h = embedded(passage, None if vectors is None else vectors[middle:])
    w_s = np.concatenate([w["flow.passage.weight"][0], w["flow.question.weight"][0], w["flow.weight"]])
    s = np.array([[w_s @ np.concatenate([a, b, a * b]) for b in u] for a in h])
    seen, whole = softmax(s, 1) @ u, softmax(s.max(axis=1), 0) @ h
    none = np.concatenate([u, u * 0, u * 0, u * 0], axis=1)
    none[0] = np.concatenate([u[0], whole, u[0] * whole, u[0] * 0])
    found = []
    for g in (np.concatenate([h, seen, h * seen, h * whole], axis=1), none):
        m = lstm(lstm(g, "modeling", w), "modeling", w, 1)
        m2 = lstm(m, "ending", w)
        found.append([np.concatenate([g, x], axis=1) @ w[f"{name}.weight"][0] + w[f"{name}.bias"][0]
                      for name, x in (("start", m), ("end", m2))])  # fmt: skip
    return found


@pytest.mark.parametrize(("traced", "characters"), [(True, False), (False, False), (True, True), (False, True)])
def test_scores_are_those_of_the_papers_equations(traced, characters):
    layers = CharacterLayers(rows=9, width=3, filters=[(2, 2), (4, 3)]) if characters else None
    model = BiDAF(20, width=4, hidden=D, max_length=16, max_question=6, characters=layers).eval()
    nn.init.initialize(model, seed=1)
    for _, parameter in model.named_parameters():
        parameter.set(parameter * 2.0)
    w = {name: np.float64(p.numpy()) for name, p in model.named_parameters()}
    pairs = [([1, 5, 6, 2], [7, 8, 9, 10, 2]), ([1, 3, 2], [11, 2]), ([1, 4, 4, 9, 9, 2], [12, 13, 5, 5, 6, 4, 3, 2])]
    ids = np.array([i for a, b in pairs for i in (*a, *b)])
    segments = np.array([s for a, b in pairs for s in (*[0] * len(a), *[1] * len(b))])
    offsets = np.cumsum([0, *(len(a) + len(b) for a, b in pairs)])
    run = program(lambda x: dict(zip("se", model(**x), strict=True))) if traced else None
    given = {"ids": tensor(ids), "offsets": tensor(offsets), "segment_ids": tensor(segments)}
    vectors = None
    if characters:
        words = np.random.default_rng(0).integers(0, 9, (len(ids), 5)).astype(np.int32)
        given["spelling"] = tensor(words)
        vectors = spelled(words, w, "spelling.", lambda x: np.maximum(x, 0))
    with no_grad():
        found = list(run(given).values()) if run else model(**given)
    for (a, b), at in zip(pairs, offsets, strict=False):
        own = None if vectors is None else vectors[at : at + len(a) + len(b)]
        of_passage, of_question = scores_of(a, b, w, own)
        for y, wanted, none in zip(found, of_passage, of_question, strict=True):
            # Some hundred roundings of sums of tens of terms of order 1, through four layers of recurrence.
            np.testing.assert_allclose(y.numpy()[at + len(a) : at + len(a) + len(b)], wanted, rtol=1e-4, atol=2e-5)
            np.testing.assert_allclose(y.numpy()[at], none[0], rtol=1e-4, atol=2e-5)
            assert (y.numpy()[at + 1 : at + len(a)] == -1e9).all()


CONFIG = """
suite: nlp
model: {type: BiDAF, vocab_size: 64, width: 24, hidden: 16, dropout: 0.0, max_length: 64, max_question: 8}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 64}
  max_length: 64
  train: {dataset: {type: SquadJson, path: train.json}, batch_size: 16}
  eval: {dataset: {type: SquadJson, path: eval.json}, batch_size: 32}
problem: {type: Reading, doc_stride: 16, max_question: 6}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 5e-3}
runtime: {epochs: 20, workers: 0, threads: 1, clip_norm: 5.0, evaluation: {every: 20}}
"""


def test_it_finds_what_stands_behind_the_letter_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("train", 640), ("eval", 60)):
        paragraphs = []
        for number in range(count):
            letters = rng.permutation(list("abcdefghijkl"))[:6]
            values = ["".join(map(str, rng.integers(0, 10, int(rng.integers(1, 4))))) for _ in letters]
            at = int(rng.integers(6))
            parts = [f"{letter}{value}" for letter, value in zip(letters, values, strict=True)]
            start = len(" ".join(parts[:at])) + (at > 0) + 1
            answer = {"text": values[at], "answer_start": start}
            qas = [{"id": f"{name}{number}", "question": str(letters[at]), "answers": [answer]}]
            paragraphs.append({"context": " ".join(parts), "qas": qas})
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["exact"] > 0.9


def test_senseless_sizes_are_refused():
    with pytest.raises(AttributeValueError, match="hidden 0"):
        BiDAF(20, hidden=0)
