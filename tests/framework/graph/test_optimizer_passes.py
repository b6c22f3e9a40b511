"""Optimizer steps in a Program: clipping's factor inside of the step, and small parameters in one operator."""

import numpy as np
import pytest

import framework
from framework import ops, optim
from framework.graph import passes
from framework.ops import internal

X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
PLAIN = ("fold_constants", "merge_equal_operations", "drop_dead_code")


def parameters() -> dict[str, framework.Tensor]:
    rng = np.random.default_rng(1)
    shapes = {"weight": (3, 8000), "bias": (8000,), "scale": (8000,), "gain": ()}
    made = {n: framework.tensor(rng.standard_normal(s).astype(np.float32)) for n, s in shapes.items()}
    for n, t in made.items():
        t.persistable = t.requires_grad = True
        t.name = n
    return made


def train(make, pass_names, clip=None, steps=3):
    """Parameters and slots after some steps, and the Program."""
    params = parameters()
    optimizer = make(list(params.items()))

    @framework.program(pass_names=pass_names)
    def step(x):
        y = (ops.matmul(x, params["weight"]) + params["bias"]) * params["scale"] * params["gain"]
        loss = ops.mean(ops.square(y))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            optim.clip_by_global_norm(params.values(), clip)
        optimizer.step()
        return loss

    for _ in range(steps):
        step(X)
    state = [t.numpy().copy() for t in (*params.values(), *optimizer.state_dict().values())]
    return state, step.program_for(X)


OPTIMIZERS = {
    "sgd": (lambda ps: optim.SGD(ps, lr=0.01, weight_decay=0.1, decay_vectors=True), "sgd_step"),
    "momentum": (lambda ps: optim.Momentum(ps, lr=0.01), "momentum_step"),
    "nesterov": (lambda ps: optim.Momentum(ps, lr=0.01, nesterov=True), "momentum_step"),
    "adamw": (lambda ps: optim.AdamW(ps, lr=0.01), "adam_step"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_training_gives_the_same_with_and_without_the_passes(name, clip):
    make, step_name = OPTIMIZERS[name]
    before, plain = train(make, PLAIN, clip)
    after, fused = train(make, (*PLAIN, "fold_gradient_scale", "group_optimizer_steps"), clip)
    count = lambda p, n: sum(op.name == n for op in p.program.block)  # noqa: E731
    assert count(plain, step_name) == 4 and count(plain, step_name + "s") == 0
    assert count(fused, step_name) == 1 and count(fused, step_name + "s") == 1  # the large weight, and the others
    eps = np.finfo(np.float32).eps
    for a, b in zip(before, after, strict=True):
        # Bits are equal but for clipping, whose product is rounded once less: 3 steps of a few roundings, which Adam's
        # division by a root enlarges where a gradient is near 0.
        if clip is None:
            assert a.tobytes() == b.tobytes()
        elif name != "adamw":
            np.testing.assert_allclose(a, b, rtol=32 * eps, atol=32 * eps * max(1e-3, np.abs(a).max()))


def test_clipping_writes_no_scaled_gradients():
    make, _ = OPTIMIZERS["momentum"]
    _, fused = train(make, passes.TRAINING_PASSES, clip=0.1)
    assert len(fused.explain()["fold_gradient_scale"].matched) == 4
    steps = [op for op in fused.program.block if op.name in ("momentum_step", "momentum_steps")]
    assert all(op.input("grad_scale") is not None for op in steps)


def test_grouped_parameters_are_updated_in_their_own_memory():
    make, _ = OPTIMIZERS["momentum"]
    _, fused = train(make, passes.TRAINING_PASSES)
    x = framework.tensor(X)
    rows = fused.memory_report([x]).rows
    assert {place for op, _, place, _ in rows if op in ("momentum_step", "momentum_steps")} == {"state"}


def test_a_large_parameter_is_left_alone_and_the_report_says_so():
    make, _ = OPTIMIZERS["momentum"]
    _, fused = train(make, passes.TRAINING_PASSES)
    report = fused.explain()["group_optimizer_steps"]
    assert report.matched == ["3 momentum_step in one momentum_steps"]
    assert any("24000 elements are enough for an operator of its own" in line for line in report.missed)


def test_averages_of_updated_parameters_are_grouped_after_them():
    params = parameters()
    optimizer = optim.SGD(list(params.items()), lr=0.01)
    averages = {n: framework.tensor(np.zeros(p.shape, np.float32)) for n, p in params.items()}
    for t in averages.values():
        t.persistable = True

    @framework.program
    def step(x):
        loss = ops.mean(ops.matmul(x, params["weight"]) * params["scale"] + params["bias"]) * params["gain"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with framework.no_grad():
            for n, p in params.items():
                averages[n].set(internal.ema_step(averages[n], p, DECAY))
        return loss

    step(X)
    names = [op.name for op in step.program_for(X).program.block]
    assert names.count("ema_steps") == 1 and names.count("sgd_steps") == 1 and names.count("ema_step") == 1
    for n, p in params.items():
        # average + (1 - 0.9f) * (value - average): two roundings.
        np.testing.assert_allclose(averages[n].numpy(), (1 - np.float64(np.float32(0.9))) * p.numpy(), rtol=3e-7)


DECAY = framework.tensor(np.array(0.9, np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_clipping_a_gradient_that_is_not_finite_makes_weights_nan_in_both_ways(name, bad):
    def run(make_step):
        params = parameters()
        optimizer = OPTIMIZERS[name][0](list(params.items()))

        def step(x):
            loss = ops.mean(ops.matmul(x, params["weight"]) * params["scale"] * params["gain"] + params["bias"])
            optimizer.zero_grad()
            loss.backward()
            optim.clip_by_global_norm(params.values(), 0.1)
            optimizer.step()
            optimizer.zero_grad()

        x = X.copy()
        make_step(step)(framework.tensor(x))
        x[0, 0] = bad
        make_step(step)(framework.tensor(x))
        return [np.isnan(p.numpy()) for p in params.values()]

    for eager, traced in zip(run(lambda f: f), run(framework.program), strict=True):
        np.testing.assert_array_equal(eager, traced)
    assert any(nan.all() for nan in run(framework.program))


def test_clipping_rows_of_a_table_by_a_norm_that_is_nan_makes_all_rows_nan():
    """The gradient's zeros times NaN are NaN, whether they are written or not."""

    def run(wrap):
        table = framework.tensor(np.ones((3000, 8), np.float32), requires_grad=True)
        table.persistable = True
        optimizer = optim.AdamW([("table", table)], lr=0.1)

        @wrap
        def step(ids, weight):
            (ops.sum(ops.embedding(table, ids)) * weight).backward()
            optim.clip_by_global_norm([table], 1.0)
            optimizer.step()
            optimizer.zero_grad()

        for weight in (1.0, np.nan):
            step(framework.tensor(np.array([1, 5])), framework.tensor(weight))
        return table.numpy()

    assert np.isnan(run(lambda f: f)).all() and np.isnan(run(framework.program)).all()
