"""Cross-layer equalisation: float32 computes the same, channels come to reach alike, and what is left alone is told."""

import numpy as np
import pytest

import framework
from framework import no_grad, ops, program
from framework.errors import AttributeValueError, NumericsError
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.passes import INFERENCE_PASSES
from framework.quantization import EQUALIZATIONS, equalize, quantize
from tests.framework.quantization.helpers import constant, normal

UNIT = 2.0**-24


def traced(function, *inputs):
    with no_grad():
        return program(function, pass_names=INFERENCE_PASSES).program_for(*map(framework.from_numpy, inputs)).program


def run(p, *inputs):
    return [t.numpy() for t in CompiledProgram(p).run([framework.from_numpy(x) for x in inputs])]


def report(p):
    return explain(p)["equalize"]


def uneven(*shape, seed=0):
    """Weights whose filters differ in size by up to a hundred times."""
    rows = 10.0 ** np.random.default_rng(seed).uniform(-1, 1, (shape[0], 1, 1, 1))
    return (normal(*shape, seed=seed) * rows / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


X = normal(2, 12, 12, 3)
FIRST, DEPTH, LAST = uneven(16, 3, 3, 3), uneven(16, 3, 3, 1, seed=1), uneven(8, 1, 1, 16, seed=2)
GROUPED = uneven(8, 3, 3, 4, seed=3)
BIAS = normal(16, scale=0.1)

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": ops.relu,
    "leaky_relu": lambda x: ops.leaky_relu(x, slope=0.1),
    "relu6": ops.relu6,
}


def network(activation, first=FIRST, depth=DEPTH, last=LAST):
    """Two convolutions with a depthwise one and pooling between."""
    a, b, c, d = constant(first), constant(BIAS), constant(depth), constant(last)

    def f(x):
        x = activation(ops.conv2d(x, a, b, padding=1))
        x = activation(ops.conv2d(x, c, padding=1, stride=2, groups=16))
        return ops.conv2d(ops.max_pool2d(x, 2), d)

    return f


def bound(x, first, depth, last):
    """How far two float32 evaluations of `network` with other factors can lie apart.

    With n products to a sum each evaluation is within (n + 2) units of the sum of the magnitudes (a rounding of each
    weight and of each bias with them); activations make no error larger (slopes are at most 1).
    """
    x = traced(network(lambda x: x, np.abs(first), np.abs(depth), np.abs(last)), x), np.abs(x)
    terms = 27 + 1 + 9 + 16 + 3 * 2
    return 2 * terms * UNIT * (run(*x)[0] + run(*x)[0].max() * np.abs(BIAS).max())


@pytest.mark.parametrize("by", EQUALIZATIONS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_float32_computes_the_same(by, activation):
    whole = traced(network(ACTIVATIONS[activation]), X)
    got = equalize(whole, [[X]], by=by)
    assert len(report(got).matched) == 2
    assert (np.abs(run(got, X)[0] - run(whole, X)[0]) <= bound(X, FIRST, DEPTH, LAST)).all()
    assert [op.name for op in whole.block] != []  # the one given stays as it was
    np.testing.assert_array_equal(run(whole, X)[0], run(traced(network(ACTIVATIONS[activation]), X), X)[0])


def weights_of(p):
    return [framework.Tensor(p.constants[op.inputs[1]]).numpy().astype(np.float64) for op in p.block]


def test_two_layers_get_the_scales_of_the_paper():
    """Equation 11 of arXiv:1906.04721: s = sqrt(r1 r2) / r2, after which the ranges of both are sqrt(r1 r2)."""
    a, b, last = constant(FIRST), constant(BIAS), constant(LAST)
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, a, b)), last), X)
    got = equalize(whole, [[X]], by="weights", absorb=False)
    r1, r2 = np.abs(FIRST).max(axis=(1, 2, 3)).astype(float), np.abs(LAST).max(axis=(0, 1, 2)).astype(float)
    s = np.sqrt(r1 * r2) / r2
    first, second = weights_of(got)
    np.testing.assert_allclose(first, FIRST / s[:, None, None, None], rtol=1e-6)
    np.testing.assert_allclose(second, LAST * s, rtol=1e-6)
    np.testing.assert_allclose(np.abs(first).max(axis=(1, 2, 3)), np.sqrt(r1 * r2), rtol=1e-6)


def test_by_activations_what_lies_between_reaches_as_far_as_the_weights_behind():
    a, b, last = constant(FIRST), constant(BIAS), constant(LAST)
    between = traced(lambda x: ops.relu(ops.conv2d(x, a, b)), X)
    reach = run(between, X)[0].max(axis=(0, 1, 2)).astype(float)
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, a, b)), last), X)
    first, _ = weights_of(equalize(whole, [[X]], by="activations", absorb=False))
    s = np.sqrt(reach / np.abs(LAST).max(axis=(0, 1, 2)))
    np.testing.assert_allclose(first, FIRST / s[:, None, None, None], rtol=1e-5)


def test_a_depthwise_layer_between_ends_with_equal_ranges_on_both_sides():
    whole = traced(network(ops.relu), X)
    first, depth, last = weights_of_layers(equalize(whole, [[X]], by="weights", absorb=False))
    rows = [np.abs(w).max(axis=(1, 2, 3)) for w in (first, depth)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=0.03)  # ended where no factor moved by a hundredth
    np.testing.assert_allclose(rows[1], np.abs(last).max(axis=(0, 1, 2)), rtol=0.03)


def weights_of_layers(p):
    layers = [op for op in p.block if op.name == "conv2d"]
    return [framework.Tensor(p.constants[op.inputs[1]]).numpy().astype(np.float64) for op in layers]


def test_groups_are_scaled_each_by_the_channels_that_they_read():
    a, b = constant(FIRST), constant(GROUPED)
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, a)), b, groups=4), X)
    got = equalize(whole, [[X]], by="weights", absorb=False)
    np.testing.assert_allclose(run(got, X)[0], run(whole, X)[0], rtol=1e-4, atol=1e-5)
    r1 = np.abs(FIRST).max(axis=(1, 2, 3))
    r2 = np.abs(GROUPED).reshape(4, 2, 3, 3, 4).max(axis=(1, 2, 3)).reshape(-1)
    np.testing.assert_allclose(np.abs(weights_of(got)[0]).max(axis=(1, 2, 3)), np.sqrt(r1 * r2), rtol=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_products_are_layers_too(turned):
    a, b = uneven(32, 1, 1, 12)[:, 0, 0].T, uneven(5, 1, 1, 32, seed=1)[:, 0, 0].T
    a, b = (constant(np.ascontiguousarray(w.T if turned else w)) for w in (a, b))
    x = normal(7, 12)
    whole = traced(lambda x: ops.matmul(ops.relu(ops.matmul(x, a, transpose_b=turned)), b, transpose_b=turned), x)
    got = equalize(whole, [[x]], by="weights", absorb=False)
    assert len(report(got).matched) == 1
    np.testing.assert_allclose(run(got, x)[0], run(whole, x)[0], rtol=1e-4, atol=1e-5)


def test_channels_that_relu6_cuts_are_left_alone_and_the_others_grow_below_the_clip():
    last = constant(LAST)
    a, b = constant(FIRST * 10), constant(BIAS)
    whole = traced(lambda x: ops.conv2d(ops.relu6(ops.conv2d(x, a, b)), last), X)
    reach = run(traced(lambda x: ops.relu6(ops.conv2d(x, a, b)), X), X)[0].max(axis=(0, 1, 2))
    assert 0 < (reach >= 6).sum() < 16
    got = equalize(whole, [[X]], by="activations")
    factor = (FIRST * 10 / weights_of(got)[0]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(factor[reach >= 6 / 1.25], 1, rtol=1e-6)
    assert (factor <= 1 + 1e-6).all() and (reach / factor <= 6 / 1.25 * (1 + 1e-5))[reach < 6 / 1.25].all()
    (line,) = report(got).matched
    assert line.endswith("left alone, for ReLU6 cuts them")


def test_what_relu_never_falls_below_is_absorbed_by_the_next_bias():
    """Exact on what was seen: relu(v - c) = relu(v) - c where v >= c (section 4.1.3)."""
    a, b, last = constant(FIRST), constant(BIAS + np.float32(20)), constant(LAST)
    x = np.abs(X)

    def f(x):
        return ops.conv2d(ops.relu(ops.conv2d(x, a, b)), last)

    whole = traced(f, x)
    got, plain = (equalize(whole, [[x]], by="weights", absorb=absorb) for absorb in (True, False))
    between = [run(traced_part(p), x)[0] for p in (got, plain)]
    assert report(got).matched[0].endswith("never fall below is absorbed")
    shifts = (between[1] - between[0]).mean(axis=(0, 1, 2))
    rounding = 64 * UNIT * np.abs(between[1]).max(axis=(0, 1, 2))  # 28 terms a sum, twice
    assert (shifts > 0).sum() >= 8 and between[0].min() >= 0
    assert ((between[1] - between[0]).std(axis=(0, 1, 2)) < rounding).all()
    a, last = constant(np.abs(FIRST)), constant(np.abs(LAST))
    magnitude = run(traced(f, x), x)[0]  # of the terms of both layers' sums: 27 and a bias, 16 and a bias
    assert (np.abs(run(got, x)[0] - run(whole, x)[0]) <= 2 * 64 * UNIT * magnitude).all()


def traced_part(p):
    part = p.clone()
    part.results = [next(op for op in part.block if op.name == "conv2d").outputs[0]]
    part.block.ops = [next(op for op in part.block if op.name == "conv2d")]
    return part


def test_nothing_is_absorbed_before_a_border_of_zeros():
    a, b, last = constant(FIRST), constant(BIAS + np.float32(20)), constant(uneven(8, 3, 3, 16, seed=5))
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, a, b)), last, padding=1), np.abs(X))
    assert "absorbed" not in report(equalize(whole, [[np.abs(X)]])).matched[0]


def branch(x):
    x = ops.relu(ops.conv2d(x, constants["first"]))
    return ops.conv2d(x, constants["last"]), x


def joined(x):
    y = ops.relu(ops.conv2d(x, constants["first"]))
    return ops.conv2d(
        ops.conv2d(y, constants["square"]) + ops.relu(ops.conv2d(x, constants["first"])), constants["last"]
    )


def curved(x):
    return ops.conv2d(ops.sigmoid(ops.conv2d(x, constants["first"])), constants["last"])


def shared(x):
    w = constants["square"]
    return ops.conv2d(ops.conv2d(ops.conv2d(x, constants["first"])[:, :, :, :16], w), w)


constants = {
    "first": constant(FIRST),
    "last": constant(LAST),
    "square": constant(uneven(16, 1, 1, 16, seed=4)),
}


@pytest.mark.parametrize("f", [branch, curved, shared])
def test_branches_other_activations_and_shared_weights_are_left_alone(f):
    whole = traced(f, X)
    got = equalize(whole, [[X]])
    assert not report(got).matched
    for found, wanted in zip(run(got, X), run(whole, X), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_weights_that_another_layer_shares_are_told():
    told = [line for line in report(equalize(traced(shared, X), [[X]])).missed if "share their weights" in line]
    assert len(told) == 1


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_layers_that_are_called_again_are_equalised_once_by_all_that_they_saw(activation):
    """As where a network looks at a picture and at its mirror image."""
    once = network(ACTIVATIONS[activation])
    whole = traced(lambda x: once(x) + once(ops.flip(x, axes=(2,))), X)
    got = equalize(whole, [[X]])
    alone = equalize(traced(once, X), [[np.concatenate([X, X[:, :, ::-1]])]])
    assert len(report(got).matched) == len(report(alone).matched) == 2 and not report(got).missed
    weights = [constants_of(p) for p in (got, alone)]
    assert len(weights[0]) == len(weights[1])
    for found, wanted in zip(*weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    (found,), (wanted,) = run(got, X), run(whole, X)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def test_what_pooling_sees_in_one_call_is_absorbed_in_none():
    """A shift does not pass where pooling counts the zeros around a picture."""
    first, last, bias = constant(FIRST), constant(LAST), constant(np.full(16, 50, np.float32))

    def f(x, pooled):
        x = ops.relu(ops.conv2d(x, first, bias))
        return ops.conv2d(ops.avg_pool2d(x, 3, stride=1, padding=1) if pooled else x, last)

    (said,) = report(equalize(traced(lambda x: f(x, False), X), [[X]])).matched
    assert "absorbed" in said
    for order in ((False, True), (True, False)):
        whole = traced(lambda x, order=order: f(x, order[0]) + f(-x, order[1]), X)
        got = equalize(whole, [[X]])
        (said,) = report(got).matched
        assert "absorbed" not in said
        (found,), (wanted,) = run(got, X), run(whole, X)
        np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def constants_of(p):
    """The constants that operations read, each once, in the order of their readers."""
    read = dict.fromkeys(v for op in p.block for v in op.inputs if v is not None and v in p.constants)
    return [p.constants[v].numpy() for v in read]


def test_a_residual_between_is_told():
    got = equalize(traced(joined, X), [[X]])
    assert any("a residual joins between" in line for line in report(got).missed)


@pytest.mark.parametrize("by", EQUALIZATIONS)
def test_dead_channels_and_weights_of_one_value_stay_finite(by):
    first, last = FIRST.copy(), LAST.copy()
    first[0], last[:, :, :, 1] = 0, 0
    first[2] = 0.5
    whole = traced(network(ops.relu, first, DEPTH, last), X)
    got = equalize(whole, [[X]], by=by)
    assert all(np.isfinite(w).all() for w in weights_of_layers(got))
    np.testing.assert_allclose(run(got, X)[0], run(whole, X)[0], rtol=1e-3, atol=1e-4)


def test_activations_that_never_vary_are_no_error():
    x = np.zeros_like(X)
    whole = traced(network(ops.relu), x)
    for by in EQUALIZATIONS:
        assert np.isfinite(run(equalize(whole, [[x]], by=by), X)[0]).all()


def test_a_network_without_pairs_is_said():
    whole = traced(lambda x: ops.relu(x), X)
    assert report(equalize(whole, [[X]])).missed == ["no two layers stand behind each other, so nothing is equalised"]


def test_bad_words_and_bad_batches_are_one_error():
    whole = traced(network(ops.relu), X)
    with pytest.raises(AttributeValueError, match="equalize: by is 'hope'; takes 'weights', 'activations'"):
        equalize(whole, [[X]], by="hope")
    with pytest.raises(AttributeValueError, match="calibration has no batch"):
        equalize(whole, [])
    with pytest.raises(NumericsError, match="has a NaN or an infinity"):
        equalize(whole, [[np.full_like(X, np.nan)]])
    with pytest.raises(AttributeValueError, match="equalization is of mode 'static'"):
        quantize(whole, equalization="weights")


def test_channels_of_very_different_reach_lose_less_in_8_bits():
    """The largest channel here reaches a hundred times as far as the smallest, which one scale for all rounds away."""
    whole = traced(network(ops.relu), X)
    wanted = run(whole, X)[0]

    def error(**settings):
        return np.abs(run(quantize(whole, mode="static", calibration=[[X]], **settings), X)[0] - wanted).std()

    assert error(equalization="activations") < 0.7 * error()
