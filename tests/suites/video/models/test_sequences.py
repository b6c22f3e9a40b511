"""Attention LSTM, Attention Cluster and NeXtVLAD equal readings of their papers in NumPy, weights copied."""

from itertools import pairwise

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, program
from framework.errors import AttributeValueError
from framework.nn import init
from suites.video.models.attention_cluster import AttentionCluster, ShiftingAttention
from suites.video.models.attention_lstm import AttentionLSTM
from suites.video.models.nextvlad import NeXtVLAD, NeXtVLADLayer
from suites.video.models.sequences import segment_softmax
from tests.suites.video.models.reference import batch_norm, relu, softmax, weights_of

RNG = np.random.default_rng(0)
SIZES = {"rgb": 12, "audio": 4}
OFFSETS = np.array([0, 3, 4, 9])


def features(rows=9):
    return {name: RNG.standard_normal((rows, size)).astype(np.float32) for name, size in SIZES.items()}


def drawn(layer):
    init.initialize(layer, 0)
    rng = np.random.default_rng(0)
    for parameter in layer.parameters():
        if parameter.ndim == 1:
            parameter.set(from_numpy(rng.standard_normal(parameter.shape).astype(np.float32)))
    return layer


MODELS = {
    "attention_lstm": lambda: AttentionLSTM(SIZES, 5, embedding=6, hidden=7, widths=(8, 9), dropout=0.0),
    "attention_cluster": lambda: AttentionCluster(SIZES, 5, {"rgb": 3, "audio": 2}, widths=(8, 9), dropout=0.0),
    "nextvlad": lambda: NeXtVLAD(SIZES, 5, clusters=6, groups=4, hidden=8, gate_width=3, dropout=0.0),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


@pytest.mark.parametrize("name", MODELS)
def test_one_program_takes_sequences_of_any_number_and_length(name):
    net = drawn(MODELS[name]()).eval()
    traced = program(lambda x, offsets: net(x, offsets))
    with no_grad():
        for offsets in (OFFSETS, np.array([0, 9]), np.array([0, 1, 2, 3, 4, 20])):
            x = features(offsets[-1])
            expected = net({k: from_numpy(v) for k, v in x.items()}, from_numpy(offsets)).numpy()
            assert expected.shape == (len(offsets) - 1, 5)
            np.testing.assert_allclose(traced(x, offsets).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_sequence_is_classified_the_same_alone_and_among_others(name):
    net, x = drawn(MODELS[name]()).eval(), features()
    with no_grad():
        together = net({k: from_numpy(v) for k, v in x.items()}, from_numpy(OFFSETS)).numpy()
        alone = [
            net({k: from_numpy(v[a:b].copy()) for k, v in x.items()}, from_numpy(np.array([0, b - a]))).numpy()[0]
            for a, b in pairwise(OFFSETS)
        ]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_reaches_every_parameter(name):
    net, x = drawn(MODELS[name]()), features()
    logits = net({k: from_numpy(v) for k, v in x.items()}, from_numpy(OFFSETS))
    ops.mean(ops.cross_entropy(logits, from_numpy(np.array([0, 1, 4])))).backward()
    assert all(p.grad is not None and np.abs(p.grad.numpy()).max() > 0 for p in net.parameters())


def test_weights_over_a_sequence_sum_to_one_whatever_the_scores():
    scores = (RNG.standard_normal((9, 2)) * 300).astype(np.float32)
    weights = segment_softmax(from_numpy(scores), from_numpy(OFFSETS)).numpy()
    expected = np.concatenate([softmax(scores[a:b].T.astype(np.float64)).T for a, b in pairwise(OFFSETS)])
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_shifting_attention_is_the_papers():
    layer, x = drawn(ShiftingAttention(12, 3)), RNG.standard_normal((9, 12))
    w = weights_of(layer)
    rows = []
    for a, b in pairwise(OFFSETS):
        means = softmax(w["queries"] @ x[a:b].T) @ x[a:b]
        shifted = w["alpha"] * means + w["beta"]
        rows.append((shifted / np.linalg.norm(shifted, axis=1, keepdims=True) / np.sqrt(3)).ravel())
    found = layer(from_numpy(x.astype(np.float32)), from_numpy(OFFSETS)).numpy()
    np.testing.assert_allclose(found, rows, atol=1e-5)


def test_attention_cluster_is_the_papers():
    net, x = drawn(MODELS["attention_cluster"]()), features()
    w = weights_of(net)
    tensors = {k: from_numpy(v) for k, v in x.items()}
    seen = [net.clusters[i](tensors[name], from_numpy(OFFSETS)).numpy() for i, name in enumerate(SIZES)]
    y = np.tanh(linear(w, "wide1", np.concatenate(seen, axis=1)))
    expected = linear(w, "fc", np.tanh(linear(w, "wide2", y)))
    np.testing.assert_allclose(net(tensors, from_numpy(OFFSETS)).numpy(), expected, atol=1e-4)


def lstm(x, wx, wh, bias):
    """One direction; gates input, forget, cell, output."""
    h = c = np.zeros(wh.shape[1])
    out = []
    for row in x:
        i, f, g, o = np.split(wx @ row + wh @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.array(out)


def test_attention_lstm_is_paddles():
    net, x = drawn(MODELS["attention_lstm"]()), features()
    w = weights_of(net)
    seen = []
    for a, b in pairwise(OFFSETS):
        parts = []
        for i, name in enumerate(SIZES):
            own = {k.removeprefix(f"streams.{i}."): v for k, v in w.items() if k.startswith(f"streams.{i}.")}
            e = np.tanh(linear(own, "embed", x[name][a:b].astype(np.float64)))
            wx, wh, bias = (
                next(v for k, v in own.items() if k.startswith("lstm") and k.endswith(f".{leaf}"))
                for leaf in ("weight_x", "weight_h", "bias")
            )
            ways = [(np.split(wx, 2)[s], wh[s], np.split(bias, 2)[s]) for s in range(2)]
            y = np.concatenate([lstm(e, *ways[0]), lstm(e[::-1], *ways[1])[::-1]], axis=1)
            shares = softmax(linear(own, "score", y).T)
            parts.append((shares @ y)[0])
        seen.append(np.concatenate(parts))
    y = np.tanh(linear(w, "wide2", relu(linear(w, "wide1", np.array(seen)))))
    found = net({k: from_numpy(v) for k, v in x.items()}, from_numpy(OFFSETS)).numpy()
    np.testing.assert_allclose(found, linear(w, "fc", y), atol=1e-4)


def test_a_nextvlad_layer_is_the_papers():
    layer, x = drawn(NeXtVLADLayer(12, clusters=6, groups=4)), RNG.standard_normal((9, 12))
    w = weights_of(layer)
    wide = linear(w, "expand", x)
    gates = sigmoid(linear(w, "gate", wide))
    scores = batch_norm(linear(w, "clusters", wide), w["norm.scale"], w["norm.bias"]).reshape(9, 4, 6)
    shares = softmax(scores) * gates[:, :, None]
    groups = wide.reshape(9, 4, 6)
    residuals = shares[..., None] * (groups[:, :, None] - w["centres"])  # equation 2: [T, G, M, F]
    sums = np.array([residuals[a:b].sum((0, 1)) for a, b in pairwise(OFFSETS)])
    sums /= np.linalg.norm(sums, axis=2, keepdims=True)
    expected = batch_norm(sums.reshape(3, -1), w["last_norm.scale"], w["last_norm.bias"])
    found = layer(from_numpy(x.astype(np.float32)), from_numpy(OFFSETS)).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_nextvlad_gates_its_hidden_layer():
    net, x = drawn(MODELS["nextvlad"]()), features()
    w = weights_of(net)
    tensors = {k: from_numpy(v) for k, v in x.items()}
    seen = [net.vlads[i](tensors[name], from_numpy(OFFSETS)).numpy() for i, name in enumerate(SIZES)]
    y = linear(w, "hidden", np.concatenate(seen, axis=1))
    y = batch_norm(y, w["hidden_norm.scale"], w["hidden_norm.bias"])
    gate = relu(batch_norm(linear(w, "gate1", y), w["gate_norm.scale"], w["gate_norm.bias"]))
    expected = linear(w, "fc", y * sigmoid(linear(w, "gate2", gate)))
    np.testing.assert_allclose(net(tensors, from_numpy(OFFSETS)).numpy(), expected, atol=3e-4)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: AttentionLSTM({}, 5), "modalities is {}; it must say how many numbers each has"),
        (lambda: AttentionLSTM({"offsets": 3}, 5), "a modality is called 'offsets'"),
        (lambda: AttentionCluster(SIZES, 5, {"rgb": 3}), r"or so for each of \['rgb', 'audio'\]"),
        (lambda: NeXtVLAD(SIZES, 5, groups=5), "5 groups must divide 2 times 12 features"),
        (lambda: NeXtVLAD(SIZES, 0), "num_classes is 0"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
