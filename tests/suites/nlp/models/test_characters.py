"""Convolutions over characters: numpy reads the papers' equations to the same vectors; what does not fit is told."""

import numpy as np
import pytest

from framework import nn, no_grad, ops, program, tensor
from framework.errors import AttributeValueError
from suites.nlp.models.bidaf import BiDAF
from suites.nlp.models.characters import CharacterConvolutions, CharacterLayers
from suites.nlp.models.elmo import BiLanguageModel, ElmoClassifier

WORDS = np.array([[6, 7, 8, 0, 0, 0], [9, 0, 0, 0, 0, 0], [10, 10, 6, 7, 9, 11], [1, 0, 0, 0, 0, 0]], np.int32)


def spelled(words, w, at, activation, highway=0):
    """Words [T, L] of numbers to vectors [T, K], filter by filter and place by place."""
    table, rows = w[f"{at}table.weight"], []
    for word in words:
        x, found, number = table[word], [], 0
        while f"{at}filters.{number}.weight" in w:
            weight, bias = w[f"{at}filters.{number}.weight"][:, 0], w[f"{at}filters.{number}.bias"]  # [K, width, C]
            width = weight.shape[1]
            seen = [(weight * x[i : i + width]).sum(axis=(1, 2)) + bias for i in range(len(word) - width + 1)]
            found.append(activation(np.max(seen, axis=0)))
            number += 1
        y = np.concatenate(found)
        for layer in range(highway):
            one = f"{at}highway.{layer}"
            gate = 1 / (1 + np.exp(-(w[f"{one}.gate.weight"] @ y + w[f"{one}.gate.bias"])))
            y = gate * np.maximum(w[f"{one}.change.weight"] @ y + w[f"{one}.change.bias"], 0) + (1 - gate) * y
        rows.append(y)
    return np.array(rows)


def float64(model):
    for seed, (_, parameter) in enumerate(model.named_parameters()):
        parameter.set(parameter * 1.5 + float(seed % 3) * 0.1)
    return {name: np.float64(p.numpy()) for name, p in model.named_parameters()}


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(("activation", "highway"), [("relu", 0), ("tanh", 2)])
def test_vectors_are_those_of_the_papers_equations(traced, activation, highway):
    filters = [(1, 2), (3, 4), (6, 1)]
    layers = CharacterLayers(rows=12, width=5, filters=filters, activation=activation, highway=highway)
    model = CharacterConvolutions(layers).eval()
    nn.init.initialize(model, seed=3)
    w = float64(model)
    run = program(model)
    with no_grad():
        found = [(run if traced else model)(tensor(words)).numpy() for words in (WORDS, WORDS[1:3])]
    wanted = spelled(WORDS, w, "", {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[activation], highway)
    for y, own in zip(found, (wanted, wanted[1:3]), strict=True):
        np.testing.assert_allclose(y, own, rtol=1e-5, atol=1e-5)  # sums of 30 products of order 1, then 2 layers of 7


def test_gradients_are_those_of_differences():
    """The sum of the vectors by one number of each parameter; steps of 1e-3 of a function whose kinks are far apart."""
    model = CharacterConvolutions(CharacterLayers(rows=12, width=3, filters=[(2, 3)], highway=1, activation="tanh"))
    nn.init.initialize(model, seed=1)
    ops.sum(model(tensor(WORDS))).backward()
    for name, parameter in model.named_parameters():
        before, grad = parameter.numpy().copy(), parameter.grad
        rows = dict(zip(grad.rows.numpy().tolist(), grad.values.numpy(), strict=True)) if hasattr(grad, "rows") else {}
        first = np.asarray(rows[6] if rows else grad.numpy()).ravel()[0]
        place = 6 * before.shape[1] if rows else 0
        values = []
        for step in (1e-3, -1e-3):
            moved = before.copy()
            moved.ravel()[place] += step
            parameter.set(tensor(moved))
            with no_grad():
                values.append(float(ops.sum(model(tensor(WORDS))).numpy()))
        parameter.set(tensor(before))
        assert first == pytest.approx((values[0] - values[1]) / 2e-3, rel=2e-2, abs=5e-3), name


@pytest.mark.parametrize("kind", ["BiLanguageModel", "ElmoClassifier"])
def test_elmos_first_layer_is_made_of_characters_alone(kind):
    layers = CharacterLayers(rows=12, width=4, filters=[(1, 3), (2, 5)], highway=2)
    model = BiLanguageModel(30, 6, 1, 0.0, characters=layers) if kind == "BiLanguageModel" else None
    model = model or ElmoClassifier(30, 2, 6, 1, hidden=3, characters=layers)
    model.eval()
    nn.init.initialize(model, seed=0)
    w = float64(model)
    offsets, spelling = tensor(np.array([0, 3, 4])), tensor(WORDS)
    with no_grad():
        (first, _), (same, _) = model.bilm(tensor(np.array([7, 8, 9, 3])), offsets, spelling)
        others = model(tensor(np.array([1, 1, 1, 1])), offsets, spelling=spelling)
        again = model(tensor(np.array([7, 8, 9, 3])), offsets, spelling=spelling)
    x = spelled(WORDS, w, "bilm.spelling.", lambda v: np.maximum(v, 0), 2)
    wanted = x @ w["bilm.projection.weight"].T + w["bilm.projection.bias"]
    np.testing.assert_allclose(first.numpy(), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(first.numpy(), same.numpy())
    pairs = zip(others, again, strict=True) if isinstance(others, tuple) else [(others, again)]
    assert all((a.numpy() == b.numpy()).all() for a, b in pairs)  # numbers of words are not looked at


def test_a_model_and_its_batch_agree_on_characters():
    ids, offsets = tensor(np.array([7, 8, 9, 3])), tensor(np.array([0, 4]))
    model = BiLanguageModel(30, 6, 1, characters=CharacterLayers(rows=12))
    nn.init.initialize(model, seed=0)
    with pytest.raises(AttributeValueError, match="ELMo: reads characters but was given none"):
        model(ids, offsets)
    with pytest.raises(AttributeValueError, match=r"a word has 3 characters \(axis 1 of \[4, 3\]\), but the widest"):
        model(ids, offsets, tensor(WORDS[:, :3].copy()))
    plain = BiDAF(30, 4, 3)
    nn.init.initialize(plain, seed=0)
    with pytest.raises(AttributeValueError, match="BiDAF: was given characters but reads none"):
        plain(ids, offsets, tensor(np.array([0, 0, 1, 1])), tensor(WORDS))


@pytest.mark.parametrize("wrong", [{"rows": 6}, {"width": 0}, {"filters": []}, {"filters": [(0, 3)]}, {"highway": -1}])
def test_senseless_sizes_are_refused(wrong):
    with pytest.raises(AttributeValueError, match=r"characters: rows is .* there must be a filter"):
        CharacterLayers(**{"rows": 12, **wrong})
