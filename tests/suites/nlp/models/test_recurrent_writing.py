"""Recurrent models that write: texts apart, step by step as at once, and against the equations in NumPy."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, NotSupportedError
from suites.nlp.models.recurrent_writing import AttentionRnn, DroppedWords, LockedDropout, RecurrentLanguageModel
from suites.nlp.writing import Limits, Prompt, Search, Writer
from tests.suites.nlp.models.ragged import ragged
from tests.suites.nlp.writing.helpers import written_steps

CLOSE = {"rtol": 0, "atol": 100 * float(np.finfo(np.float32).eps)}  # sums of at most 40 terms of order 1, a few layers


def made(kind, *args, **kwargs):
    model = kind(*args, **kwargs)
    nn.init.initialize(model, seed=1)
    for _, parameter in model.named_parameters():
        parameter.set(parameter * 2.0)  # words far apart
    return model.eval()


FORMS = [{"cell": "lstm", "layers": 2}, {"cell": "gru", "layers": 1}, {"cell": "lstm", "tied": False}]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cached", [True, False])
def test_a_language_model_gives_step_by_step_what_it_gives_at_once(form, cached):
    model = made(RecurrentLanguageModel, 20, width=12, hidden=16, **form)
    step = framework.program(lambda x: model.step(**x))
    search = Search(beam=2, max_length=6, cached=cached)
    writer = Writer([Prompt((5, 6, 7)), Prompt((8,))], Limits(1, 2, model.past_width), search)
    for found, _, whole, ends in written_steps(writer, step):
        logits = model(*ragged(whole)).numpy()[ends]
        np.testing.assert_allclose(found["scores"], ops.log_softmax(framework.tensor(logits)).numpy(), **CLOSE)


SOURCES = [[3, 4, 5, 2], [6, 2], [7, 8, 9, 10, 11, 3, 2]]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_translator_gives_step_by_step_what_it_gives_at_once(cell, cached):
    model = made(AttentionRnn, 12, 12, width=10, hidden=16, cell=cell, layers=2, shared=True)
    step = framework.program(lambda x: model.step(**x))
    limits = Limits(1, 2, model.past_width, model.memory_width)
    prompts = [Prompt((4,) * (i == 1), np.array(s)) for i, s in enumerate(SOURCES)]
    writer = Writer(prompts, limits, Search(beam=2, max_length=5, cached=cached))
    for found, live, whole, ends in written_steps(writer, step):
        logits = model(*ragged([SOURCES[h.text] for h in live]), *ragged(whole)).numpy()[ends]
        np.testing.assert_allclose(found["scores"], ops.log_softmax(framework.tensor(logits)).numpy(), **CLOSE)
    assert writer.results()[1][0].ids[:1] == (4,)


def test_a_translator_follows_luongs_equations():
    model = made(AttentionRnn, 9, 9, width=6, hidden=8, cell="gru")
    source, target = [3, 4, 5], [1, 6]
    found = model(*ragged([source]), *ragged([target])).numpy()
    w = {name: np.float64(value.numpy()) for name, value in model.state_dict().items()}

    def run(x, wx, wh, bias, bias_h, h):
        states = []
        for row in x:
            a, b = row @ wx.T + bias, wh @ h + bias_h
            r, z, n = (a.reshape(3, -1)[i] for i in range(3))
            u, v, m = (b.reshape(3, -1)[i] for i in range(3))
            s = 1 / (1 + np.exp(-(z + v)))
            h = (1 - s) * np.tanh(n + m / (1 + np.exp(-(r + u)))) + s * h
            states.append(h)
        return np.array(states)

    e = "encoder.layers.0."
    x = w["source.weight"][source]
    sides = [
        run(x[::step], w[e + "weight_x"][12 * i :][:12], w[e + "weight_h"][i], w[e + "bias"][12 * i :][:12],
            w[e + "bias_h"][i], np.zeros(4))[::step]
        for i, step in enumerate((1, -1))
    ]  # fmt: skip
    memory = np.concatenate(sides, axis=1)
    first = np.concatenate([sides[0][-1], sides[1][0]])
    d = "cells.layers.0."
    states = run(w["target.weight"][target], w[d + "weight_x"], w[d + "weight_h"][0], w[d + "bias"],
                 w[d + "bias_h"][0], first)  # fmt: skip
    scores = states @ w["query.weight"].T @ memory.T / np.sqrt(8)
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    joint = np.tanh(np.concatenate([weights @ memory, states], axis=1) @ w["joint.weight"].T)
    np.testing.assert_allclose(found, joint @ w["target.weight"].T, **CLOSE)


def test_locked_dropout_drops_the_same_units_of_all_words_of_a_text():
    layer = LockedDropout(0.5)
    y = layer(framework.tensor(np.ones((7, 40), np.float32)), framework.tensor(np.array([0, 3, 7]))).numpy()
    assert (y[:3] == y[0]).all() and (y[3:] == y[3]).all() and (y[0] != y[3]).any()
    assert set(np.unique(y)) == {0.0, 2.0}
    x = framework.tensor(np.ones((7, 40), np.float32))
    assert layer.eval()(x, framework.tensor(np.array([0, 3, 7]))) is x


def test_dropped_words_are_dropped_wherever_they_stand():
    words = DroppedWords(50, 4, 0.5, 1.0)
    nn.init.initialize(words, seed=0)
    ids = np.array([*range(50), *range(50)])
    y = words(framework.tensor(ids)).numpy()
    np.testing.assert_array_equal(y[:50], y[50:])
    gone = (y[:50] == 0).all(axis=1)
    assert 5 < gone.sum() < 45
    np.testing.assert_allclose(y[:50][~gone], 2 * words.weight.numpy()[~gone], rtol=1e-6)


def test_regularisers_act_in_training_only():
    model = RecurrentLanguageModel(20, 8, hidden=8, dropout=0.5, word_dropout=0.2, weight_dropout=0.5, layers=2)
    nn.init.initialize(model, seed=1)
    text = ragged([[3, 4, 5], [6, 7]])
    first, second = model(*text).numpy(), model(*text).numpy()
    assert np.abs(first - second).max() > 0
    model.eval()
    np.testing.assert_array_equal(model(*text).numpy(), model(*text).numpy())


def test_wrong_sizes_are_refused():
    with pytest.raises(AttributeValueError, match="shared is on but"):
        AttentionRnn(8, 9, shared=True)
    with pytest.raises(AttributeValueError, match="hidden is 7; it must be even"):
        AttentionRnn(8, 9, hidden=7)
    with pytest.raises(AttributeValueError, match="width is 0"):
        RecurrentLanguageModel(8, width=0)
    with pytest.raises(NotSupportedError, match="both directions"):
        nn.GRU(4, 4, bidirectional=True).with_states(*ragged([[1]]))
