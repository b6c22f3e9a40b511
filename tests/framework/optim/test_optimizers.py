"""Optimizers against their formulas in NumPy, eagerly and in a Program; parameter rules; state."""

import inspect
import math

import numpy as np
import pytest

import framework
from framework import optim
from framework.errors import AttributeValueError, CheckpointError
from framework.graph.passes import TRAINING_PASSES
from framework.io import load_tensors, save_tensors
from framework.nn import parameter

RNG = np.random.default_rng(1)
W = RNG.standard_normal((3, 4)).astype(np.float32)
B = RNG.standard_normal(4).astype(np.float32)
GRADS = [(RNG.standard_normal((3, 4)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)) for _ in range(4)]
LR = 0.1


def sgd(p, g, s, t, decay):
    return p - LR * (g + decay * p)


def momentum(p, g, s, t, decay, nesterov=False):
    g = g + decay * p
    s["v"] = 0.9 * s.get("v", 0) + g
    return p - LR * (g + 0.9 * s["v"] if nesterov else s["v"])


def adam(p, g, s, t, decay, decoupled=False):
    g = g if decoupled else g + decay * p
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    update = (s["m"] / (1 - 0.9**t)) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-8)
    return p - LR * (update + (decay * p if decoupled else 0))


def rmsprop(p, g, s, t, decay, momentum=0.0):
    """Tieleman and Hinton 2012, with PyTorch's momentum."""
    g = g + decay * p
    s["s"] = 0.99 * s.get("s", 0) + 0.01 * g * g
    s["v"] = momentum * s.get("v", 0) + g / (np.sqrt(s["s"]) + 1e-8)
    return p - LR * s["v"]


def adagrad(p, g, s, t, decay, initial=0.0):
    """Duchi et al. 2011."""
    g = g + decay * p
    s["s"] = s.get("s", initial) + g * g
    return p - LR * g / (np.sqrt(s["s"]) + 1e-10)


def lamb(p, g, s, t, decay):
    """You et al. 2020, algorithm 2 with phi(z) = z."""
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["v"] = 0.999 * s.get("v", 0) + 0.001 * g * g
    update = (s["m"] / (1 - 0.9**t)) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-6) + decay * p
    return p - LR * np.linalg.norm(p) / np.linalg.norm(update) * update


CASES = {
    "sgd": (optim.SGD, {}, sgd),
    "momentum": (optim.Momentum, {}, momentum),
    "nesterov": (optim.Momentum, {"nesterov": True}, lambda *a: momentum(*a, nesterov=True)),
    "adam": (optim.Adam, {}, adam),
    "rmsprop": (optim.RMSProp, {}, rmsprop),
    "rmsprop with momentum": (optim.RMSProp, {"momentum": 0.9}, lambda *a: rmsprop(*a, momentum=0.9)),
    "adagrad": (optim.Adagrad, {}, adagrad),
    "adagrad from 0.1": (optim.Adagrad, {"initial": 0.1}, lambda *a: adagrad(*a, initial=0.1)),
    "lamb": (optim.LAMB, {}, lamb),
    "adamw": (optim.AdamW, {}, lambda *a: adam(*a, decoupled=True)),
}


def make(kind, **kwargs):
    w, b = parameter(W), parameter(B)
    return w, b, kind([("w", w), ("b", b)], lr=LR, weight_decay=0.01, **kwargs)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "program"])
@pytest.mark.parametrize("case", CASES)
def test_updates_are_the_formulas(case, traced):
    kind, options, formula = CASES[case]
    w, b, optimizer = make(kind, **options)

    def step(gw, gb):
        w.grad, b.grad = gw, gb
        optimizer.step()
        return optimizer.steps

    run = framework.program(step) if traced else step
    expected, states = {"w": W.astype(np.float64), "b": B.astype(np.float64)}, {"w": {}, "b": {}}
    for t, (gw, gb) in enumerate(GRADS, start=1):
        run(framework.tensor(gw), framework.tensor(gb))
        expected["w"] = formula(expected["w"], gw, states["w"], t, 0.01)
        expected["b"] = formula(expected["b"], gb, states["b"], t, 0.0)  # a vector: not decayed
    # A few roundings of float32 a step, enlarged where Adam divides by a small root.
    np.testing.assert_allclose(w.numpy(), expected["w"], rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(b.numpy(), expected["b"], rtol=1e-5, atol=2e-6)
    assert int(optimizer.steps) == 4


def test_a_new_learning_rate_needs_no_new_trace():
    w, b, optimizer = make(optim.SGD)

    def step(g):
        w.grad = g
        optimizer.step()
        return g.sum()

    run = framework.program(step)
    for lr in (0.5, 0.0):
        before = w.numpy().copy()
        optimizer.set_lr(lr)
        run(framework.tensor(np.ones((3, 4), np.float32)))
        np.testing.assert_allclose(before - w.numpy(), lr * (1 + 0.01 * before), rtol=1e-4, atol=1e-6)
    assert run.traces_made == 1
    np.testing.assert_array_equal(b.numpy(), B)  # it had no gradient


def test_a_rate_given_to_step_goes_before_the_optimizers_own():
    w, _, optimizer = make(optim.SGD)
    w.grad = framework.tensor(np.ones((3, 4), np.float32))
    optimizer.step(framework.tensor(np.array(0.0, np.float32)))
    np.testing.assert_array_equal(w.numpy(), W)


def test_vectors_are_decayed_where_asked_and_rates_multiplied_by_name():
    w, b, optimizer = make(optim.SGD, decay_vectors=True, lr_multipliers={"b": 0.5, "*": 1.0})
    zero = [framework.tensor(np.zeros_like(x)) for x in (W, B)]
    w.grad, b.grad = zero
    optimizer.step()
    np.testing.assert_allclose(w.numpy(), W * (1 - 0.1 * 0.01), rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), B * (1 - 0.05 * 0.01), rtol=1e-6)
    with pytest.raises(AttributeValueError, match=r"no parameter is called 'backbone.*'; names look like w, b"):
        make(optim.SGD, lr_multipliers={"backbone.*": 0.1})


def test_a_frozen_parameter_is_left_out():
    w, b = parameter(W), parameter(B)
    b.requires_grad = False
    assert list(optim.SGD([("w", w), ("b", b)]).params) == ["w"]
    w.requires_grad = False
    with pytest.raises(AttributeValueError, match="there are no parameters to train"):
        optim.SGD([("w", w), ("b", b)])


def test_a_loaded_state_continues_exactly():
    w1, b1, one = make(optim.Adam)
    for w, b, optimizer, grads in [(w1, b1, one, GRADS[:2])]:
        for gw, gb in grads:
            w.grad, b.grad = framework.tensor(gw), framework.tensor(gb)
            optimizer.step()
    w2, b2, two = make(optim.Adam)
    w2.set(framework.tensor(w1))
    b2.set(framework.tensor(b1))
    two.load_state_dict({name: t.numpy().copy() for name, t in one.state_dict().items()})
    for w, b, optimizer in ((w1, b1, one), (w2, b2, two)):
        w.grad, b.grad = (framework.tensor(g) for g in GRADS[2])
        optimizer.step()
    np.testing.assert_array_equal(w1.numpy(), w2.numpy())
    with pytest.raises(CheckpointError, match=r"Momentum: this state is of another optimizer or model; .* 'm/b'"):
        make(optim.Momentum)[2].load_state_dict(one.state_dict())


def test_clipping_bounds_values_norms_and_the_joint_norm():
    def grads():
        w, b = parameter(W), parameter(B)
        w.grad, b.grad = framework.tensor(W * 10), framework.tensor(B * 10)
        return w, b

    w, b = grads()
    optim.clip_by_value([w, b], 0.5)
    np.testing.assert_allclose(w.grad.numpy(), np.clip(W * 10, -0.5, 0.5))
    w, b = grads()
    optim.clip_by_norm([w, b], 2.0)
    assert np.linalg.norm(w.grad.numpy()) == pytest.approx(2, rel=1e-5)
    assert np.linalg.norm(b.grad.numpy()) == pytest.approx(2, rel=1e-5)
    w, b = grads()
    total = np.sqrt((W * W).sum() + (B * B).sum()) * 10
    assert float(optim.clip_by_global_norm([w, b], 2.0)) == pytest.approx(total, rel=1e-5)
    np.testing.assert_allclose(w.grad.numpy(), W * 10 * (2 / total), rtol=1e-5)
    w, b = grads()
    optim.clip_by_global_norm([w, b], 1e6)
    np.testing.assert_allclose(b.grad.numpy(), B * 10, rtol=1e-6)
    assert optim.clip_by_global_norm([parameter(W)], 1.0) is None
    with pytest.raises(AttributeValueError, match="the limit is 0"):
        optim.clip_by_norm([w], 0.0)


@pytest.mark.parametrize("kind", [optim.RMSProp, optim.Adagrad, optim.LAMB])
def test_a_state_survives_its_file(kind, tmp_path):
    """What is saved and loaded continues with the bits of what was not."""
    w1, b1, one = make(kind)
    step = lambda w, b, optimizer, k: _step(w, b, optimizer, GRADS[k])  # noqa: E731
    step(w1, b1, one, 0)
    w2, b2, two = make(kind)
    w2.set(framework.tensor(w1))
    b2.set(framework.tensor(b1))
    save_tensors(tmp_path / "state.safetensors", one.state_dict())
    two.load_state_dict(load_tensors(tmp_path / "state.safetensors"))
    step(w1, b1, one, 1)
    step(w2, b2, two, 1)
    assert w1.numpy().tobytes() == w2.numpy().tobytes() and b1.numpy().tobytes() == b2.numpy().tobytes()


def _step(w, b, optimizer, grads):
    w.grad, b.grad = (framework.tensor(g) for g in grads)
    optimizer.step()


@pytest.mark.parametrize(("kind", "options", "message"), [
    (optim.RMSProp, {"rho": 1.0}, r"RMSProp: rho is 1.0; it must lie in \[0, 1\)"),
    (optim.RMSProp, {"momentum": -0.1}, r"RMSProp: momentum is -0.1"),
    (optim.Adagrad, {"initial": -1.0}, "Adagrad: initial is -1.0; it must be 0 or more, and finite"),
    (optim.LAMB, {"beta2": 1.0}, r"LAMB: beta2 is 1.0"),
])  # fmt: skip
def test_options_out_of_range_are_refused(kind, options, message):
    with pytest.raises(AttributeValueError, match=message):
        make(kind, **options)


EVERY = [each for each in vars(optim).values() if isinstance(each, type) and issubclass(each, optim.Optimizer)]


@pytest.mark.parametrize("kind", [each for each in EVERY if each is not optim.Optimizer])
def test_no_option_is_taken_that_makes_no_numbers_of_weights(kind):
    numbers = [name for name, p in inspect.signature(kind).parameters.items() if type(p.default) is float]
    assert "lr" in numbers
    for name in numbers:
        for value in (-1.0, math.inf, math.nan):
            with pytest.raises(AttributeValueError, match=f"{kind.__name__}: {name} is {value}"):
                kind([("w", parameter(W))], **{name: value})


@pytest.mark.parametrize("kind", [optim.RMSProp, optim.Adagrad, optim.LAMB])
def test_a_program_groups_small_parameters_with_the_bits_of_single_steps(kind):
    def run(traced):
        params = [parameter(np.full((3, i + 1), 0.5 + i, np.float32)) for i in range(5)]
        optimizer = kind([(f"p{i}", p) for i, p in enumerate(params)], lr=LR)

        def step(x):
            for i, p in enumerate(params):
                p.grad = framework.ops.full_like(p, value=0.1 * i) + x
            optimizer.step()
            return x

        call = framework.program(step, pass_names=TRAINING_PASSES) if traced else step
        for k in range(3):
            call(framework.tensor(np.array(k + 1.0, np.float32)))
        if traced:
            names = {op.name for op in call.program_for(framework.tensor(np.array(1.0, np.float32))).program.block}
            assert any(name.endswith("_steps") for name in names), names
        return [p.numpy().tobytes() for p in params]

    assert run(True) == run(False)


def test_adagrad_in_a_program_touches_only_the_rows_that_were_looked_up():
    table = np.random.default_rng(0).standard_normal((5000, 8)).astype(np.float32)
    ids = framework.tensor(np.array([3, 7, 3, 4999]))
    after = []
    for traced in (False, True):
        w = parameter(table)
        optimizer = optim.Adagrad([("w", w)], lr=LR)

        def step(ids, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            loss = framework.ops.sum(framework.ops.square(framework.ops.embedding(w, ids)))
            loss.backward()
            optimizer.step()
            return loss

        call = framework.program(step, pass_names=TRAINING_PASSES) if traced else step
        call(ids)
        call(ids)
        if traced:
            names = [op.name for op in call.program_for(ids).program.block]
            assert "adagrad_rows_step" in names and "adagrad_step" not in names
        after.append(w.numpy().copy())
    np.testing.assert_array_equal(after[0], after[1])
    assert (after[0] != table).any(axis=1).sum() == 3
