"""ELMo: numpy reads the paper's equations to the same numbers; a language model is learned, then helps a classifier."""

import json

import numpy as np
import pytest

from framework import nn, no_grad, ops, program, tensor
from framework.errors import AttributeValueError
from suites.engine import load
from suites.engine.cli import main
from suites.engine.train.training import train
from suites.nlp.models.elmo import BiLanguageModel, ElmoClassifier

W = 4
CLOSE = {"rtol": 1e-4, "atol": 2e-5}  # some hundred roundings of numbers of order 1, through two layers of recurrence
TEXTS = [[3, 4, 5, 6], [7], [8, 3, 9]]


def ragged(texts=TEXTS):
    return tensor(np.concatenate(texts)), tensor(np.cumsum([0, *map(len, texts)]))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, at, w):
    h = c = np.zeros(w[f"{at}.weight_h"].shape[-1])
    rows = []
    for row in x:
        z = w[f"{at}.weight_x"] @ row + w[f"{at}.bias"] + w[f"{at}.weight_h"][0] @ h
        i, f, g, o = np.split(z, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.array(rows)


def layers_of(text, w):
    """[x; x], and both layers of both directions side by side, the second with a sum around it."""
    x = w["bilm.words.weight"][text]
    found = []
    for name, turn in (("rightward", slice(None)), ("leftward", slice(None, None, -1))):
        first = lstm(x[turn], f"bilm.{name}.0.layers.0", w)
        second = first + lstm(first, f"bilm.{name}.1.layers.0", w)
        found.append([x, first[turn], second[turn]])
    return [np.concatenate(both, axis=1) for both in zip(*found, strict=True)]


def weights_of(model):
    for seed, (_, parameter) in enumerate(model.named_parameters()):
        parameter.set(parameter * 1.5 + float(seed % 3) * 0.1)
    return {name: np.float64(p.numpy()) for name, p in model.named_parameters()}


@pytest.mark.parametrize("traced", [True, False])
def test_both_ways_see_what_the_paper_lets_them(traced):
    model = BiLanguageModel(12, W, dropout=0.0).eval()
    nn.init.initialize(model, seed=1)
    w = weights_of(model)
    run = program(lambda x: dict(zip("nb", model(*x.values()), strict=True)))
    with no_grad():
        ids, offsets = ragged()
        after, before = run({"a": ids, "b": offsets}).values() if traced else model(ids, offsets)
    at = 0
    for text in TEXTS:
        last = layers_of(text, w)[2]
        for found, own in ((after, last[:, :W]), (before, last[:, W:])):
            wanted = own @ w["head.weight"].T + w["head.bias"]
            np.testing.assert_allclose(found.numpy()[at : at + len(text)], wanted, **CLOSE)
        at += len(text)


def test_the_layers_are_mixed_by_shares_that_sum_to_one():
    model = ElmoClassifier(12, 3, W, hidden=5, dropout=0.0).eval()
    nn.init.initialize(model, seed=2)
    model.mix.shares.set(tensor(np.array([0.5, -1.0, 2.0], np.float32)))
    model.mix.gamma.set(tensor(np.array([1.7], np.float32)))
    w = {name: np.float64(p.numpy()) for name, p in model.named_parameters()}
    shares = np.exp(w["mix.shares"]) / np.exp(w["mix.shares"]).sum()
    with no_grad():
        found = model.token_vectors(*ragged()).numpy()
        one = model.token_vectors(*ragged(), layer=2).numpy()
    wanted = [layers_of(text, w) for text in TEXTS]
    np.testing.assert_allclose(one, np.concatenate([each[2] for each in wanted]), **CLOSE)
    mixed = [1.7 * sum(s * layer for s, layer in zip(shares, each, strict=True)) for each in wanted]
    np.testing.assert_allclose(found, np.concatenate(mixed), **CLOSE)
    with pytest.raises(AttributeValueError, match="there is no layer 3"):
        model.token_vectors(*ragged(), layer=3)


def test_features_are_not_trained_and_a_tuned_model_is():
    for tuned in (True, False):
        model = ElmoClassifier(12, 2, W, hidden=4, tuned=tuned)
        nn.init.initialize(model, seed=0)
        ops.sum(model(*ragged()) ** 2).backward()
        assert (model.bilm.words.weight.grad is not None) == tuned
        assert model.mix.shares.grad is not None


LANGUAGE = """
suite: nlp
model: {type: BiLanguageModel, vocab_size: 32, width: 24, layers: 2, dropout: 0.0}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 32}
  max_length: 12
  train: {dataset: {type: Prose, path: text.txt, documents: line}, batch_size: 32}
  eval: {dataset: {type: Prose, path: text.txt, documents: line}, batch_size: 32}
problem: {type: BiLanguageModeling}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 3, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 3}, checkpoint: {every: 1000, keep: 1}}
"""
CLASSES = """
suite: nlp
model: {type: ElmoClassifier, vocab_size: 32, num_classes: 2, width: 24, hidden: 8, dropout: 0.0}
data:
  num_classes: 2
  tokenizer: {type: CharacterTokenizer, max_size: 32, vocabulary: VOCABULARY}
  max_length: 24
  train: {dataset: {type: Tsv, path: train.tsv}, batch_size: 8}
  eval: {dataset: {type: Tsv, path: eval.tsv}, batch_size: 50}
problem: {type: Classification}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 12, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 12}}
"""


def test_a_language_model_is_learned_and_a_classifier_begins_with_it(tmp_path, monkeypatch, capsys):
    """Words of one letter repeated, against words whose letters go on by one: the text is without labels."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)

    def word(kind):
        first, length = int(rng.integers(10)), int(rng.integers(4, 9))
        return "".join(chr(97 + first + (i if kind else 0)) for i in range(length))

    (tmp_path / "text.txt").write_text("\n".join(word(i % 2) for i in range(800)) + "\n")
    for name, count in (("train", 120), ("eval", 100)):
        rows = [f"{i % 2}\t{word(i % 2)}" for i in range(count)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows]) + "\n")
    (tmp_path / "lm.yml").write_text(LANGUAGE)
    train(tmp_path / "lm.yml", name="lm", runs=tmp_path / "runs")
    lm = tmp_path / "runs" / "lm"
    figures = json.loads((lm / "metrics.json").read_text())
    assert figures["perplexity_next"] < 4 and figures["perplexity_previous"] < 4  # of 18 letters
    texts = ["abcdef", "zqzq"]
    told = [each.to_json()["perplexity"] for each in load(lm)(texts)]
    assert told[0] < told[1]
    assert main(["export", str(lm), "--output", "exported"]) == 0
    again = [each.to_json()["perplexity"] for each in load(tmp_path / "exported")(texts)]
    assert again == pytest.approx(told, rel=1e-3)
    words = json.loads((lm / "processor.json").read_text())["tokenizer"]["vocabulary"]
    (tmp_path / "c.yml").write_text(CLASSES.replace("VOCABULARY", json.dumps(words)))
    start = f"runtime.weights={lm / 'weights' / 'best.safetensors'}"
    for name, overrides in (("features", [start, "model.tuned=false"]), ("tuned", [start])):
        train(tmp_path / "c.yml", overrides, name=name, runs=tmp_path / "runs")
        assert json.loads((tmp_path / "runs" / name / "metrics.json").read_text())["accuracy"] >= 0.95


def test_senseless_sizes_are_refused():
    with pytest.raises(AttributeValueError, match="layers is 0"):
        BiLanguageModel(12, layers=0)
    with pytest.raises(AttributeValueError, match="num_classes is 0"):
        ElmoClassifier(12, 0)
