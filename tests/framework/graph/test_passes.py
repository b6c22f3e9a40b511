"""Passes: each shown by a Program before and after, and by unchanged results."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.passes import INFERENCE_PASSES
from framework.nn import init
from framework.onnx import EXPORT_PASSES


def rows(n: int = 4, c: int = 3) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, c)).astype(np.float32)


def state(values) -> framework.Tensor:
    t = framework.tensor(np.asarray(values, np.float32))
    t.persistable = True
    return t


def before_and_after(function, x, names):
    """Results of the untouched Program and of the rewritten one, and the operators' names of each."""
    plain = framework.program(function, pass_names=()).program_for(x)
    rewritten = framework.program(function, pass_names=()).program_for(x).program
    report = passes.run(rewritten, names)
    run = CompiledProgram(rewritten).run([framework.tensor(x)])[0].numpy()
    names_of = lambda p: [op.name for op in p.block]  # noqa: E731
    return plain.run([framework.tensor(x)])[0].numpy(), run, names_of(plain.program), names_of(rewritten), report


def test_constants_are_folded():
    c = framework.tensor(np.ones(3, np.float32))
    c2 = state(np.ones(3))
    f = lambda x: x + ops.exp(c2) * ops.exp(c)  # noqa: E731
    a, b, before, after, _ = before_and_after(f, rows(), ["freeze_states", "fold_constants", "drop_dead_code"])
    assert before == ["exp", "mul", "add"] and after == ["add"]
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("pass_names", [INFERENCE_PASSES, EXPORT_PASSES], ids=["inference", "onnx"])
def test_a_layer_that_is_called_twice_has_its_weights_once(pass_names):
    layer = nn.ConvBNAct(3, 4, 3)
    init.initialize(layer, 0)
    layer.eval()
    x = np.random.default_rng(0).standard_normal((1, 6, 6, 3)).astype(np.float32)
    with framework.no_grad():
        found = framework.program(lambda x: layer(x) + layer(-x), pass_names=pass_names).program_for(x).program
    assert "batch_norm_inference" not in [op.name for op in found.block]
    assert sorted(v.shape for v in found.constants if v.shape) == [(4,), (4, 3, 3, 3)]


def test_equal_operations_are_merged_and_different_attributes_are_not():
    f = lambda x: ops.sum(x, axes=(0,)) + ops.sum(x, axes=(0,)) + ops.sum(x, axes=(0,), keepdims=True)  # noqa: E731
    a, b, before, after, _ = before_and_after(f, rows(), ["merge_equal_operations"])
    assert before.count("sum") == 3 and after.count("sum") == 2
    np.testing.assert_array_equal(a, b)


def test_dead_code_is_dropped_with_the_states_only_it_reads():
    unused = state(np.ones(3))

    def f(x):
        ops.exp(x * unused)
        return x + 1.0

    p = framework.program(f, pass_names=()).program_for(rows()).program
    passes.run(p, ["drop_dead_code"])
    assert [op.name for op in p.block] == ["add"] and not p.states


def test_bias_and_activation_become_an_epilogue():
    w, bias = state(np.eye(3)), state([0.1, -0.2, 0.3])
    f = lambda x: ops.leaky_relu(ops.matmul(x, w) + bias, slope=0.2)  # noqa: E731
    a, b, before, after, report = before_and_after(f, rows(), ["fuse_bias", "fuse_activation"])
    assert before == ["matmul", "add", "leaky_relu"] and after == ["matmul"]
    assert len(report["fuse_bias"].matched) == len(report["fuse_activation"].matched) == 1
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("slope", [-0.5, float("nan")])
@pytest.mark.parametrize("fixed", [passes.INFERENCE_PASSES, ["fuse_bias", "fuse_residual", "fuse_activation"]])
def test_no_operator_ends_in_a_leaky_relu_that_turns_signs(slope, fixed):
    """Files have them; operators refuse such a slope."""
    w, filters, x = state(np.eye(3)), state(np.ones((3, 1, 1, 3))), -np.ones((1, 2, 2, 3), np.float32)
    for f in (lambda x: ops.matmul(x, w), lambda x: ops.conv2d(x, filters) + ops.conv2d(x, filters)):
        a, b, *_ = before_and_after(lambda x, f=f: ops.leaky_relu(f(x), slope=slope), x, fixed)
        np.testing.assert_allclose(a, b)


def test_a_residual_becomes_an_epilogue_at_the_place_of_its_addition():
    w, w2, bias = state(np.eye(3) * 0.5), state(np.eye(3)), state([0.1, -0.2, 0.3])

    def f(x):
        y = ops.matmul(x, w, bias)
        return ops.relu(y + ops.exp(x)), ops.relu(ops.tanh(x) + ops.matmul(x, w2))

    names = ["freeze_states", "fuse_bias", "fuse_residual", "fuse_activation"]
    a, b, before, after, report = before_and_after(f, rows(), names)
    assert before == ["matmul", "exp", "add", "relu", "tanh", "matmul", "add", "relu"]
    assert after == ["exp", "matmul", "tanh", "matmul"]
    assert len(report["fuse_residual"].matched) == 2
    # The sum of three products, the bias and the residual, in two orders.
    np.testing.assert_allclose(a, b, atol=8 * np.finfo(np.float32).eps * np.abs(a).max())


def test_of_two_products_that_are_added_one_takes_the_other_as_residual():
    w, w2 = state(np.eye(3)), state(np.ones((3, 3)))
    f = lambda x: ops.matmul(x, w) + ops.matmul(x, w2)  # noqa: E731
    a, b, before, after, report = before_and_after(f, rows(), ["fuse_residual"])
    assert before == ["matmul", "matmul", "add"] and after == ["matmul", "matmul"]
    assert "the addition went into matmul" in report["fuse_residual"].missed[0]
    np.testing.assert_allclose(a, b, atol=8 * np.finfo(np.float32).eps * np.abs(a).max())


def test_a_sum_that_may_broadcast_or_has_other_readers_takes_no_residual():
    w, row = state(np.eye(3)), state(np.ones((1, 3)))

    def f(x):
        y = ops.matmul(x, w)
        return ops.matmul(x, w) + row, y + x, y * 2.0, ops.relu(ops.matmul(x, w)) + x

    *_, before, after, report = before_and_after(f, rows(1), ["fuse_residual"])
    assert before == after
    reasons = "\n".join(report["fuse_residual"].missed)
    assert "is not of float32[1, 3] at all times" in reasons and "is also read by mul" in reasons


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kernel, stride, groups", [(1, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 24), (3, 1, 3)])
def test_a_convolution_may_add_its_residual_in_the_residual_s_own_memory(kernel, stride, groups, last):
    """Large enough for several blocks of the sum, tasks and, at 3 x 3, Winograd's tiles."""
    rng = np.random.default_rng(0)
    channels = 24 if groups > 1 else 600 if kernel == 1 else 72
    w = state(rng.standard_normal((channels, kernel, kernel, channels // groups)) * 0.05)
    attrs = {"stride": stride, "padding": kernel // 2, "groups": groups}

    def f(x):
        r = ops.avg_pool2d(x, kernel=stride, stride=stride) if stride > 1 else ops.tanh(x)
        y = ops.conv2d(x, w, **attrs)
        return (ops.relu(y) + r if last else ops.relu(y + r)) * 1.0

    x = rng.standard_normal((1, 26, 26, channels)).astype(np.float32)
    plain = framework.program(f, pass_names=())
    fused = framework.program(f, pass_names=passes.INFERENCE_PASSES)
    assert [op.name for op in fused.program_for(x).program.block].count("add") == 0
    assert fused.program_for(x).memory_report([framework.tensor(x)]).in_place_count >= 1
    a, b = plain(x).numpy(), fused(x).numpy()
    # The sum of all products and the residual in two orders; Winograd's error is bound by its promise.
    roundings = max(2 * kernel * kernel * channels / groups * np.finfo(np.float32).eps, 2e-5 if kernel == 3 else 0)
    np.testing.assert_allclose(a, b, atol=roundings * np.abs(a).max())


def test_a_residual_after_the_activation_becomes_an_epilogue_of_a_convolution_only():
    w, w2 = state(np.ones((3, 1, 1, 3)) * 0.5), state(np.eye(3))

    def f(x):
        return ops.leaky_relu(ops.conv2d(x, w), slope=0.2) + x, ops.relu(ops.matmul(x, w2)) + x

    x = rows(4 * 5).reshape(1, 4, 5, 3)
    a, b, before, after, report = before_and_after(f, x, ["fuse_residual", "fuse_activation", "fuse_last_residual"])
    assert before == ["conv2d", "leaky_relu", "add", "matmul", "relu", "add"]
    assert after == ["conv2d", "matmul", "add"]
    assert not report["fuse_residual"].matched and len(report["fuse_last_residual"].matched) == 1
    assert report["fuse_last_residual"].missed[0].endswith("it already ends in relu, and matmul adds no residual after")
    np.testing.assert_array_equal(a, b)


def separable_block(x, *, twice=False):
    """An inverted residual of MobileNetV2 without its expansion, with 24 channels."""
    rng = np.random.default_rng(1)
    depth_weight, w = state(rng.standard_normal((24, 3, 3, 1))), state(rng.standard_normal((24, 1, 1, 24)))
    depth_bias, bias = state(rng.standard_normal(24)), state(rng.standard_normal(24))

    def f(x):
        depth = ops.relu6(ops.conv2d(x, depth_weight, depth_bias, padding=1, groups=24))
        y = ops.conv2d(depth, w, bias) + x
        return y + depth if twice else y

    return before_and_after(f, x, passes.INFERENCE_PASSES)


def test_depthwise_and_pointwise_convolution_become_one():
    x = np.random.default_rng(0).standard_normal((2, 9, 7, 24)).astype(np.float32)
    a, b, before, after, report = separable_block(x)
    assert before == ["conv2d", "relu6", "conv2d", "add"] and after == ["separable_conv2d"]
    assert len(report["fuse_separable"].matched) == 1
    # Each of the 24 products' sums with its bias and the residual, in two orders; the depthwise part keeps its bits.
    np.testing.assert_allclose(a, b, atol=2 * 26 * np.finfo(np.float32).eps * np.abs(a).max())


def test_a_depthwise_result_with_another_reader_stays():
    x = np.random.default_rng(0).standard_normal((1, 9, 7, 24)).astype(np.float32)
    *_, after, report = separable_block(x, twice=True)
    assert "separable_conv2d" not in after and not report["fuse_separable"].matched
    assert "is also read by" in report["fuse_separable"].missed[0]


def test_an_intermediate_result_that_is_used_elsewhere_is_not_fused_away():
    w = state(np.eye(3))

    def f(x):
        y = ops.matmul(x, w)
        return ops.relu(y) + y

    a, b, before, after, _ = before_and_after(f, rows(), ["fuse_activation"])
    assert before == after
    np.testing.assert_array_equal(a, b)


def test_batch_norm_is_folded_into_the_convolution_before_it():
    rng = np.random.default_rng(0)
    w = state(rng.standard_normal((5, 3, 3, 2)) * 0.2)
    scale, offset, mean = (state(rng.standard_normal(5)) for _ in range(3))
    var = state(rng.random(5) + 0.5)
    f = lambda x: ops.relu(ops.batch_norm_inference(ops.conv2d(x, w, padding=1), scale, offset, mean, var))  # noqa: E731
    x = rng.standard_normal((2, 6, 6, 2)).astype(np.float32)
    a, b, before, after, _ = before_and_after(f, x, passes.INFERENCE_PASSES)
    assert before == ["conv2d", "batch_norm_inference", "relu"] and after == ["conv2d"]
    # Both round a sum of 18 products and the normalisation, in different orders.
    np.testing.assert_allclose(a, b, atol=32 * np.finfo(np.float32).eps * np.abs(a).max())


def test_an_unknown_pass_is_refused_with_the_list_of_passes():
    with pytest.raises(AttributeValueError, match="there is no pass 'fuse_all'; there are fold_constants"):
        framework.program(lambda x: x + 1.0, pass_names=("fuse_all",))(rows())


def test_constants_that_an_operator_refuses_are_refused_where_it_runs():
    table = nn.parameter(np.ones((4, 2), np.float32))  # a constant when its state is frozen
    wrong = framework.tensor(np.array([9]))

    def chosen(flag):
        return framework.cond(flag, lambda: ops.embedding(table, wrong), lambda: table[:1] * 7.0)

    step = framework.program(chosen, pass_names=passes.INFERENCE_PASSES)
    assert step(framework.tensor(np.array(False))).tolist() == [[7.0, 7.0]]
    with pytest.raises(AttributeValueError, match=r"ids\[0\] is 9"):
        step(framework.tensor(np.array(True)))
