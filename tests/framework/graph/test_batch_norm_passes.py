"""fuse_batch_norm and fuse_batch_norm_grad: Programs before and after, the same bits, and what they leave alone."""

import re

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.graph import passes
from framework.nn import init
from framework.optim import Momentum

FUSED = ("merge_equal_operations", "drop_dead_code", "fuse_batch_norm_grad", "fuse_batch_norm")
PLAIN = FUSED[:2]
X = np.random.default_rng(0).standard_normal((2, 5, 5, 6), np.float32)


class Net(nn.Layer):
    """conv -> norm -> `tail(net, normalised, x)`, and its batch norm for the tail."""

    def __init__(self, tail):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm(6)
        self.shortcut = nn.BatchNorm(6)
        self.tail = tail
        init.initialize(self, 0)
        self.norm.bias.set(framework.tensor(np.linspace(-1, 1, 6, dtype=np.float32)))

    def forward(self, x):
        return self.tail(self, self.norm(self.conv(x)), x)


def training_step(tail, pass_names, x=X):
    """Three steps of training: the text of the Program, its report, and all weights and losses at the end."""
    net = Net(tail)
    optimizer = Momentum(net.named_parameters(), lr=0.1)

    @framework.program(pass_names=pass_names)
    def step(images):
        loss = ops.mean(ops.square(net(images) - 0.5))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).numpy().tobytes() for _ in range(3)]
    compiled = step.program_for(x)
    weights = {name: t.numpy().tobytes() for name, t in net.state_dict().items()}
    return str(compiled.program), compiled.explain(), (losses, weights)


def norms(text):
    """Batch norms, activations and adds of images, in order, with their attributes."""
    found = re.findall(r"float32\[2, 5, 5, 6\].* = ((?:batch_norm|relu|relu6|leaky_relu|add)\w*)\((.*)\)", text)
    return [f"{name}({', '.join(a for a in inputs.split(', ') if '=' in a)})" for name, inputs in found]


def fusion_of(tail):
    before, _, plain = training_step(tail, PLAIN)
    after, report, fused = training_step(tail, FUSED)
    assert plain == fused, "the fused operators give other bits"
    return norms(before), norms(after), report


def test_an_activation_joins_forward_and_backward():
    before, after, report = fusion_of(lambda net, y, x: ops.leaky_relu(y, slope=0.1))
    assert before == ["batch_norm()", "leaky_relu(slope=0.1)", "leaky_relu_grad(slope=0.1)", "batch_norm_grad()"]
    how = "activation='leaky_relu', slope=0.1"
    assert after == [f"batch_norm({how})", f"batch_norm_activation_grad({how})"]
    assert re.fullmatch(
        r"leaky_relu_grad %\d+ -> batch_norm_grad %\d+ \(\S+:\d+\) fused into batch_norm_activation_grad",
        report["fuse_batch_norm_grad"].matched[0],
    )
    assert re.fullmatch(r"batch_norm %\d+ -> leaky_relu %\d+ \(\S+:\d+\) fused", report["fuse_batch_norm"].matched[0])


def test_a_residual_before_the_activation_gets_its_gradient_from_the_same_operator():
    before, after, _ = fusion_of(lambda net, y, x: ops.relu(x + y))
    assert before == ["batch_norm()", "add()", "relu()", "relu_grad()", "batch_norm_grad()"]
    assert after == ["batch_norm(activation='relu')", "batch_norm_residual_grad(activation='relu')"]


def test_a_residual_after_the_activation_joins_too():
    _, after, _ = fusion_of(lambda net, y, x: x + ops.relu6(y))
    assert after == [
        "batch_norm(activation='relu6', residual_last=True)",
        "batch_norm_activation_grad(activation='relu6')",
    ]


def test_a_residual_alone_joins_and_its_gradient_is_left_as_it_is():
    _, after, _ = fusion_of(lambda net, y, x: y + x)
    assert after == ["batch_norm()", "batch_norm_grad()"]


def test_of_two_batch_norms_that_are_added_the_later_one_takes_the_other_as_its_residual():
    early = lambda net, y, x: ops.relu(y + net.shortcut(x))  # noqa: E731
    before, after, _ = fusion_of(early)
    assert before.count("batch_norm()") == 2 and "add()" in before
    assert after[:2] == ["batch_norm()", "batch_norm(activation='relu')"]
    assert sorted(after[2:]) == ["batch_norm_grad()", "batch_norm_residual_grad(activation='relu')"]


def test_a_residual_that_is_computed_later_is_moved_before_the_batch_norm():
    _, after, _ = fusion_of(lambda net, y, x: ops.relu(y + ops.sigmoid(x)))
    assert after == ["batch_norm(activation='relu')", "batch_norm_residual_grad(activation='relu')"]


def test_in_a_model_for_inference_the_running_statistics_are_used():
    net = Net(lambda net, y, x: ops.relu(net.shortcut(x) + ops.exp(y) * 0.0))
    net.eval()
    with framework.no_grad():
        expected = net(framework.tensor(X)).numpy()
        run = framework.program(lambda x: net(x), pass_names=passes.INFERENCE_PASSES)
        assert norms(str(run.program_for(X).program)) == ["batch_norm_inference(activation='relu')"]
        np.testing.assert_allclose(run(X).numpy(), expected, atol=1e-6)


def test_a_value_that_is_needed_elsewhere_is_not_swallowed():
    _, after, report = fusion_of(lambda net, y, x: ops.relu(y) + ops.sigmoid(y))
    assert "relu()" in after and "batch_norm()" in after
    assert re.search(
        r"batch_norm %\d+ -> relu %\d+ .* not fused: %\d+ is also read by", report["fuse_batch_norm"].missed[0]
    )
    assert "relu_grad()" in after and "batch_norm_grad()" in after


def test_a_residual_that_broadcasts_or_needs_the_statistics_is_left_alone():
    _, after, report = fusion_of(lambda net, y, x: ops.relu(y + ops.mean(x, axes=(1, 2), keepdims=True)))
    assert "add()" in after
    assert any("the residual broadcasts" in line for line in report["fuse_batch_norm"].missed)

    def with_statistics(net, y, x):
        y, mean, _ = ops.batch_norm(x, net.shortcut.scale, net.shortcut.bias)
        return y + x * mean

    _, after, report = fusion_of(with_statistics)
    assert "add()" in after
    assert any("the residual depends on the statistics" in line for line in report["fuse_batch_norm"].missed)


def test_a_negative_slope_is_left_alone():
    _, after, report = fusion_of(lambda net, y, x: ops.leaky_relu(y, slope=-0.5))
    assert "leaky_relu(slope=-0.5)" in after and "leaky_relu_grad(slope=-0.5)" in after
    assert any("its slope is negative" in line for line in report["fuse_batch_norm"].missed)


def test_shapes_that_were_equal_by_chance_are_traced_again_when_they_are_not():
    scale, bias = (framework.tensor(np.ones(3, np.float32)) for _ in range(2))
    f = framework.program(lambda x, r: ops.batch_norm(x, scale, bias)[0] + r)
    one = np.ones((1, 2, 3), np.float32)
    four = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    assert f(one, one).shape == (1, 2, 3) and f.traces_made == 1
    for _ in range(2):
        np.testing.assert_array_equal(f(one, four).numpy(), four + 1.0)
    assert f.traces_made == 2
    with pytest.raises(framework.errors.ShapeError):
        f(np.ones((2, 2, 3), np.float32), four)


def test_the_gradient_through_a_batch_norm_with_a_residual_of_its_own_keeps_the_activation_s_mask():
    x, scale, bias, residual = (np.linspace(-1, 1.3, n, dtype=np.float32) for n in (35, 5, 5, 35))

    def gradients(pass_names):
        given = framework.tensor(np.outer(x, scale + 2), requires_grad=True)
        wide = framework.tensor(np.repeat(residual[::-1, None], 5, axis=1).copy())

        def step(x):
            y, _, _ = ops.batch_norm(x, framework.tensor(scale), framework.tensor(bias), wide)
            z = ops.relu(y)
            return framework.gradients([z], [x], [z])[0]

        return framework.program(step, pass_names=pass_names)(given).numpy()

    expected = gradients(())
    got = gradients(("fuse_batch_norm_grad",))
    np.testing.assert_allclose(got, expected, rtol=0, atol=64 * np.finfo(np.float32).eps * np.abs(expected).max())
