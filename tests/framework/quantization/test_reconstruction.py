"""AdaRound over a Program: every kind of layer, what its errors are of, its bounds, and bad input."""

import numpy as np
import pytest

import framework
from framework import no_grad, ops, program
from framework.errors import AttributeValueError, NumericsError
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES
from framework.quantization import AdaRound, quantize, reconstruction
from framework.quantization.rounding import Learnt
from tests.framework.quantization.helpers import constant, normal


def traced(function, *inputs, passes=INFERENCE_PASSES):
    with no_grad():
        made = program(function, pass_names=passes)
        return made.program_for(*map(framework.from_numpy, inputs)).program


def run(p, *inputs):
    return [t.numpy() for t in CompiledProgram(p).run([framework.from_numpy(x) for x in inputs])]


def static(p, *batches, **settings):
    return quantize(p, mode="static", calibration=[[b] for b in batches], **settings)


def report(p):
    return explain(p)["adaround"]


W = {
    "plain": constant(normal(12, 3, 3, 8, scale=0.1)),
    "square": constant(normal(8, 1, 1, 8, scale=0.3)),
    "depthwise": constant(normal(8, 3, 3, 1, scale=0.3)),
    "grouped": constant(normal(12, 3, 3, 2, scale=0.2)),
}
B = constant(normal(12, scale=0.1))
X = np.maximum(normal(3, 10, 9, 3) @ normal(3, 8, seed=1), 0)  # channels that go together

LAYERS = {
    "plain": lambda x: ops.relu(ops.conv2d(x, W["plain"], B, padding=1)),
    "strided": lambda x: ops.conv2d(x, W["plain"], stride=(2, 1), padding=(1, 0, 0, 2)),
    "dilated": lambda x: ops.relu6(ops.conv2d(x, W["plain"], B, padding=2, dilation=2)),
    "grouped": lambda x: ops.conv2d(x, W["grouped"], B, groups=4, padding=(0, 1)),
    "depthwise": lambda x: ops.leaky_relu(ops.conv2d(x, W["depthwise"], padding=1, groups=8), slope=0.2),
    "residual": lambda x: ops.relu(ops.conv2d(x, W["square"]) + x),
    "residual_last": lambda x: ops.relu(ops.conv2d(x, W["square"])) + x,
}


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize(("kind", "bits"), [(k, b) for k in LAYERS for b in (8, 16) if (k, b) != ("depthwise", 16)])
def test_a_layer_learns_from_what_it_reads_and_gives(monkeypatch, kind, bits, correct):
    """What is gathered must lead, with the nearest weights, to what the 8-bit layer gives: to half of a step of its
    bias, and a rounding of each of up to 72 products."""
    seen = []

    def learn(weight, scale, calls, **_):
        (places,) = calls
        q = np.rint(weight / scale[:, None, None, None]) * scale[:, None, None, None]
        given = [framework.from_numpy(a) for a in (places.x, places.residual) if a is not None]
        seen.append((places, places.results(framework.from_numpy(q.astype(np.float32)), *given).numpy(), scale))
        return None

    monkeypatch.setattr(reconstruction, "learn", learn)
    whole = traced(LAYERS[kind], X)
    how = {"bias_correction": correct, "sixteen": lambda op: bits == 16}
    small = static(whole, X[:2], X[2:], adaround=AdaRound(steps=1), **how)
    (places, y, scale), op = seen[0], next(op for op in small.block if op.name == "quantized_conv2d")
    wanted, got = (run(p, X)[0].reshape(-1, y.shape[3]) for p in (whole, small))
    np.testing.assert_array_equal(places.target[:, 0, 0], wanted)
    step = op.attr("x_scale") * scale
    assert (np.abs(y[:, 0, 0] - got) <= 0.5 * step * 1.01 + 2e-5).all()


def chain(x):
    x = ops.relu(ops.conv2d(x, W["square"], padding=0))
    x = ops.relu6(ops.conv2d(x, W["depthwise"], padding=1, groups=8))
    return ops.conv2d(x, W["plain"], B, padding=1)


QUICK = AdaRound(steps=150)


def uneven():
    """Inputs, and a layer with one weight a filter that is large and meets next to nothing: its step is coarse."""
    x = np.maximum(normal(3, 32, 32, 3, seed=5) @ normal(3, 8, seed=1), 0)
    x[..., 0] *= 0.01
    w = normal(8, 1, 1, 8, scale=0.3)
    w[..., 0] *= 40
    return x, constant(w)


@pytest.mark.parametrize("passes", [INFERENCE_PASSES, EXPORT_PASSES])
def test_a_network_in_8_bits_comes_nearer_to_float32(passes):
    x, w = uneven()
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, w)), W["plain"], B, padding=1), x, passes=passes)
    wanted = run(whole, x)[0]
    plain, learnt = (static(whole, x[:2], adaround=how) for how in (None, QUICK))
    assert [op.name for op in plain.block] == [op.name for op in learnt.block]
    assert len(report(learnt).matched) >= 1 and not report(plain).matched
    error = {name: np.abs(run(p, x)[0] - wanted).std() for name, p in (("plain", plain), ("learnt", learnt))}
    assert error["learnt"] < 0.9 * error["plain"]


@pytest.mark.parametrize("turned", [False, True])
def test_products_learn_too(turned):
    a, b = normal(24, 96, scale=0.2), normal(96, 48, seed=1, scale=0.1)
    a, b = (constant(np.ascontiguousarray(w.T if turned else w)) for w in (a, b))
    x = normal(200, 4) @ normal(4, 24, seed=2)

    def f(x):
        return ops.matmul(ops.gelu(ops.matmul(x, a, transpose_b=turned)), b, transpose_b=turned)

    whole = traced(f, x)
    wanted = run(whole, x)[0]
    plain, learnt = (static(whole, x, smallest=0, adaround=how) for how in (None, QUICK))
    assert len(report(learnt).matched) == 2
    assert np.abs(run(learnt, x)[0] - wanted).std() < 0.95 * np.abs(run(plain, x)[0] - wanted).std()


def test_it_repeats_bit_for_bit():
    whole = traced(chain, X)
    one, again = (run(static(whole, X, adaround=QUICK), X)[0] for _ in range(2))
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(run(whole, X)[0], run(traced(chain, X), X)[0])  # left as it was


def test_a_layer_that_does_not_get_better_stays_nearest(monkeypatch):
    def worse(weight, scale, places, **_):
        return Learnt(np.zeros(weight.shape, np.int8), 1.0, 1.0)

    monkeypatch.setattr(reconstruction, "learn", worse)
    whole = traced(chain, X)
    got = static(whole, X, adaround=QUICK)
    np.testing.assert_array_equal(run(got, X)[0], run(static(whole, X), X)[0])
    assert len(report(got).missed) == 3 and all(
        "stays at nearest rounding, which is no worse" in m for m in report(got).missed
    )


def test_no_time_leaves_nearest_rounding_and_says_so():
    said = []
    whole = traced(chain, X)
    got = static(whole, X, adaround=AdaRound(seconds=0, say=said.append))
    np.testing.assert_array_equal(run(got, X)[0], run(static(whole, X), X)[0])
    assert len(said) == 3 and said[0].startswith("AdaRound, layer 1 of 3: ")
    assert all("its time was up (0 seconds for all layers)" in line for line in said)


def test_memory_bounds_the_places_that_are_looked_at(monkeypatch):
    sizes = []

    def learn(weight, scale, calls, **_):
        sizes.append(sum(len(places.x) for places in calls))

    monkeypatch.setattr(reconstruction, "learn", learn)
    big = normal(1, 200, 200, 8)
    whole = traced(LAYERS["plain"], big)
    for how in (AdaRound(steps=1, places=100_000), AdaRound(steps=1, places=100_000, megabytes=1), AdaRound(places=64)):
        static(whole, big, adaround=how)
    assert sizes == [40_000, (1 << 20) // (4 * (72 + 24)) + 1, 65]


def test_a_layer_that_is_called_again_learns_from_all_its_calls():
    """A head of two levels, each with channels that the other has not: its one rounding serves both."""
    x, w = uneven()
    far = np.ascontiguousarray(x[:, ::2, ::2, ::-1])
    w.name, last = "first", constant(normal(12, 3, 3, 8, scale=0.1), "last")

    def head(near, far):
        return [ops.relu(ops.conv2d(ops.relu(ops.conv2d(level, w)), last, B, padding=1)) for level in (near, far)]

    whole = traced(head, x, far)
    wanted = run(whole, x, far)
    batches = [[x[:2], far[:2]]]
    plain, learnt = (quantize(whole, mode="static", calibration=batches, adaround=how) for how in (None, QUICK))
    layers = [op.inputs[1] for op in learnt.block if op.name == "quantized_conv2d"]
    assert len(layers) == 4 and len(set(layers)) == 2  # one set of weights each
    assert len(report(learnt).matched) == 2 and all(" in 2 calls: " in line for line in report(learnt).matched)
    errors = np.array(
        [
            [np.square(y - right).mean() for y, right in zip(run(p, x, far), wanted, strict=True)]
            for p in (plain, learnt)
        ]
    )
    assert (errors[1] < errors[0]).all() and errors[1].sum() < 0.9 * errors[0].sum()


def test_products_that_share_their_weights_learn_together():
    w = constant(normal(64, 64, scale=0.1))
    x = normal(600, 4) @ normal(4, 64, seed=2)
    whole = traced(lambda x: ops.matmul(ops.gelu(ops.matmul(x, w)), w), x)
    plain, got = (static(whole, x, smallest=0, adaround=how) for how in (None, QUICK))
    (line,) = report(got).matched
    assert " in 2 calls: " in line and len({op.inputs[1] for op in got.block if op.name == "quantized_matmul"}) == 1
    wanted = run(whole, x)[0]
    before, after = (np.square(run(p, x)[0] - wanted).mean() for p in (plain, got))
    assert after < before


def test_calls_share_the_places_that_are_looked_at(monkeypatch):
    counts = []

    def learn(weight, scale, calls, **_):
        counts.append([len(places.x) for places in calls])

    monkeypatch.setattr(reconstruction, "learn", learn)
    whole = traced(lambda x: [ops.conv2d(y, W["plain"]) for y in (x, x * 2.0)], normal(1, 60, 60, 8))
    static(whole, normal(1, 60, 60, 8), adaround=AdaRound(steps=1, places=1000))
    assert counts == [[501, 501]]


def test_a_layer_whose_bias_is_computed_stays_nearest():
    def f(x, bias):
        return ops.conv2d(x, W["square"], bias)

    whole = traced(f, X, normal(8))
    got = quantize(whole, mode="static", calibration=[[X, normal(8)]], adaround=QUICK)
    assert report(got).missed[0].endswith("stays at nearest rounding: its bias is computed, not a constant")


@pytest.mark.parametrize("name", ["steps", "megabytes", "places"])
def test_bounds_of_0_are_one_error(name):
    with pytest.raises(AttributeValueError, match=f"AdaRound: {name} is 0; it must be (1|64) or more"):
        AdaRound(**{name: 0})
    with pytest.raises(AttributeValueError, match="AdaRound: seconds is -1; it must be 0 or more"):
        AdaRound(seconds=-1)


def test_bad_calibration_is_one_error():
    whole = traced(chain, X)
    with pytest.raises(AttributeValueError, match="adaround is of mode 'static', which has calibration; leave it out"):
        quantize(whole, adaround=QUICK)
    with pytest.raises(AttributeValueError, match="calibration has no batch"):
        quantize(whole, mode="static", adaround=QUICK)
    with pytest.raises(NumericsError, match="has a NaN or an infinity"):
        static(whole, np.full_like(X, np.nan), adaround=QUICK)


def test_a_nan_in_the_network_is_said_or_one_error():
    bad = constant(np.full((12, 3, 3, 8), np.nan, np.float32))
    settings = {"adaround": QUICK, "equalization": "activations"}
    got = static(traced(lambda x: ops.conv2d(x, bad), X), X, **settings)
    assert explain(got)["quantize"].missed[0].endswith("its weights are not all finite")
    assert report(got).missed == ["no layer is in 8 bits, so none learns its rounding"]
    with pytest.raises(NumericsError, match="has a NaN or an infinity"):
        static(traced(lambda x: ops.conv2d(ops.conv2d(x, bad)[:, :, :, :8], W["plain"]), X), X, **settings)


def test_one_picture_a_dead_input_and_a_network_without_layers_are_no_error():
    assert run(static(traced(chain, X), X[:1], adaround=AdaRound(steps=5)), X)[0].shape == (3, 10, 9, 12)
    got = static(traced(lambda x: ops.relu(x), X), X, adaround=QUICK)
    assert report(got).missed == ["no layer is in 8 bits, so none learns its rounding"]
    dead = static(traced(lambda x: chain(ops.relu(x - 1000.0)), X), X, adaround=AdaRound(steps=5))
    assert np.isfinite(run(dead, X)[0]).all()
    same = np.full_like(X, 3)
    assert np.isfinite(run(static(traced(chain, same), same, adaround=AdaRound(steps=5)), X)[0]).all()
