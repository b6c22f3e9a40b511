"""fuse_cross_entropy: losses written by hand, before and after, and what the pass leaves alone."""

import re

import numpy as np
import pytest

import framework
from framework import ops
from framework.graph import passes

PASSES = ("merge_equal_operations", "fuse_cross_entropy", "drop_dead_code")
X = np.random.default_rng(0).standard_normal((4, 5), np.float32) * 3
LABELS = np.array([0, 6, 1, 6])
CLASSES = 7


def picked(logs, labels):
    return ops.squeeze(ops.take_along_axis(logs, ops.expand_dims(labels, axis=-1), axis=-1), axis=-1)


LOSSES = {
    "log_softmax, taken": lambda z, y: ops.mean(-picked(ops.log_softmax(z), y)),
    "log_softmax of axis 1, summed": lambda z, y: -ops.sum(picked(ops.log_softmax(z, axis=1), y)),
    "log_softmax, weighted": lambda z, y: ops.mean(picked(ops.log_softmax(z), y) * ops.cast(y, dtype="float32")),
}


def run(loss, pass_names, x=X, labels=LABELS):
    """The loss, the gradient of the weights, the Program and what the pass found."""
    start = np.random.default_rng(1).standard_normal((5, CLASSES), np.float32)
    weights = framework.tensor(start, requires_grad=True)
    weights.persistable = True

    @framework.program(pass_names=pass_names)
    def step(x, labels):
        value = loss(ops.matmul(x, weights), labels)
        value.backward()
        gradient, weights.grad = weights.grad, None
        return value, gradient

    value, gradient = (t.numpy() for t in step(x, labels))
    compiled = step.program_for(x, labels)
    return value, gradient, re.findall(r" = (\w+)\(", str(compiled.program)), compiled.explain()["fuse_cross_entropy"]


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_written_by_hand_becomes_cross_entropy_and_so_does_its_gradient(name):
    value, gradient, before, _ = run(LOSSES[name], PASSES[::2])
    fused_value, fused_gradient, after, report = run(LOSSES[name], PASSES)
    assert {"softmax", "log_softmax"} & set(before) and "cross_entropy" not in before
    assert not {"softmax", "log_softmax", "exp", "take_along_axis", "put_along_axis_add"} & set(after)
    assert after.count("cross_entropy") == 1 and after.count("cross_entropy_grad") == 1
    assert [line.split()[-1] for line in report.matched] == ["cross_entropy", "cross_entropy_grad"]
    # Logits of size 20, probabilities of 7 classes: a few roundings of values up to that size.
    np.testing.assert_allclose(fused_value, value, rtol=0, atol=20 * 8 * np.finfo(np.float32).eps)
    np.testing.assert_allclose(fused_gradient, gradient, rtol=0, atol=20 * 8 * np.finfo(np.float32).eps)


def test_tokens_of_sentences_have_one_axis_more():
    x, labels = np.stack([X, X[::-1]]), np.stack([LABELS, LABELS])
    value, gradient, *_ = run(LOSSES["log_softmax, taken"], PASSES[::2], x, labels)
    fused_value, fused_gradient, after, _ = run(LOSSES["log_softmax, taken"], passes.TRAINING_PASSES, x, labels)
    assert "cross_entropy" in after and "cross_entropy_grad" in after
    np.testing.assert_allclose(fused_value, value, rtol=1e-6)
    np.testing.assert_allclose(fused_gradient, gradient, rtol=0, atol=20 * 8 * np.finfo(np.float32).eps)


def test_log_probabilities_that_others_read_stay():
    def loss(z, labels):
        logs = ops.log_softmax(z)
        return ops.mean(-picked(logs, labels)) + ops.mean(ops.square(logs))

    *_, after, report = run(loss, PASSES)
    assert "log_softmax" in after and "cross_entropy" not in after
    assert re.match(r"log_softmax %\d+ .* not fused: %\d+ is also read by square", report.missed[0])


def test_softmax_along_another_axis_is_something_else():
    def loss(z, labels):
        return ops.mean(-picked(ops.log_softmax(z, axis=0), labels))

    *_, after, report = run(loss, PASSES)
    assert "log_softmax" in after and not report.matched


def by_one_hot(logs, labels):
    return ops.sum(ops.one_hot(labels, depth=CLASSES) * logs, axes=(-1,))


LIMITS = {
    "log of softmax": lambda z, y: picked(ops.log(ops.softmax(z)), y),
    "log_softmax": lambda z, y: picked(ops.log_softmax(z), y),
    "one-hot": lambda z, y: by_one_hot(ops.log_softmax(z), y),
    "one-hot, log of softmax": lambda z, y: by_one_hot(ops.log(ops.softmax(z)), y),
}


@pytest.mark.parametrize("name", LIMITS)
def test_logits_far_apart_infinite_or_nan_give_what_eager_gives(name):
    z = np.tile(np.linspace(-2, 2, CLASSES, dtype=np.float32), (6, 1))
    z[0, 3], z[1, 3], z[2, 3], z[3, 2], z[4, 6], z[5, 3] = -200, -np.inf, np.nan, -np.inf, 1e30, np.inf
    args = framework.tensor(z), framework.tensor(np.full(6, 3))
    np.testing.assert_allclose(framework.program(LIMITS[name])(*args), LIMITS[name](*args), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_labels_below_0_count_from_the_end_and_others_are_errors_in_both_ways(dtype):
    x = framework.tensor(np.random.default_rng(2).standard_normal((4, CLASSES)).astype(np.float32), requires_grad=True)
    lowest = np.iinfo(dtype).min

    def f(z, labels):
        loss = -ops.mean(picked(ops.log_softmax(z), labels))
        return loss, framework.gradients([loss], [z])[0]

    program = framework.program(f)
    good = framework.tensor(np.array([-1, -CLASSES, 0, CLASSES - 1], dtype))
    for a, b in zip(f(x, good), program(x, good), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-6, atol=1e-7)
    assert "cross_entropy_grad" in str(program.program_for(x, good).program)
    for wrong in (CLASSES, -CLASSES - 1, lowest, np.iinfo(dtype).max):
        labels = framework.tensor(np.array([0, wrong, 1, 2], dtype))
        for run in (f, program):
            with pytest.raises(framework.errors.AttributeValueError):
                run(x, labels)


def test_a_label_outside_of_the_classes_is_still_an_error():
    with pytest.raises(framework.errors.AttributeValueError, match="labels holds 9 in row 1 but logits has 7 classes"):
        run(LOSSES["log_softmax, taken"], PASSES, labels=np.array([0, 9, 1, 2]))


def chosen(z, labels):
    return ops.take_along_axis(ops.log_softmax(z), ops.expand_dims(labels, axis=-1), axis=-1)


def squared_gradient(z, labels):
    """The gradient of half the sum of squares begins with the result itself."""
    y = chosen(z, labels)
    return (y, *framework.gradients([y], [z], [y]))


ONE_OF_ANOTHER = {
    "gradient of a result that is its own upstream": squared_gradient,
    "logits that are another's result": lambda z, y: (chosen(chosen(z, y), ops.full_like(y, 0)),),
}


@pytest.mark.parametrize("name", ONE_OF_ANOTHER)
def test_patterns_that_read_each_other_are_rewritten_together(name):
    def step(x, labels):
        x.requires_grad = True
        return ONE_OF_ANOTHER[name](x, labels)

    labels = np.array([0, 4, 1, -1])
    plain, fused = (
        framework.program(lambda x, y: step(x * 1.0, y), pass_names=names)(X, labels) for names in (PASSES[::2], PASSES)
    )
    for a, b in zip(plain, fused, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)  # sums in another order
