"""LossScaler and skipped updates: the scale follows its rule, and an overflow leaves everything as it was."""

import numpy as np
import pytest

import framework
from framework import nn, ops, program
from framework.errors import AttributeValueError, CheckpointError, GradientError
from framework.optim import SGD, Adam, AdamW, LossScaler, Momentum

OPTIMIZERS = [
    pytest.param(lambda p: SGD(p, weight_decay=0.1), id="SGD"),
    pytest.param(lambda p: Momentum(p, weight_decay=0.1, nesterov=True), id="Momentum"),
    pytest.param(Adam, id="Adam"),
    pytest.param(AdamW, id="AdamW"),
]


def parameter(array):
    t = framework.tensor(np.asarray(array, np.float32), requires_grad=True)
    t.persistable = True
    return t


def modelled(good_or_bad, initial, growth, backoff, interval, floor, ceiling):
    """(scale, good, skipped, stuck) after each update, by the rule as the documentation states it."""
    scale, good, skipped, stuck, rows = initial, 0, 0, 0, []
    for fine in good_or_bad:
        if fine:
            good, stuck = good + 1, 0
            if good == interval:
                scale, good = min(scale * growth, ceiling), 0
        else:
            stuck = stuck + 1 if scale <= floor else 0
            scale, good, skipped = max(scale * backoff, floor), 0, skipped + 1
        rows.append((scale, good, skipped, stuck))
    return rows


@pytest.mark.parametrize("traced", [False, True])
def test_the_scale_follows_its_rule_under_injected_infinities(traced):
    rng = np.random.default_rng(0)
    fine = np.concatenate([rng.random(60) > 0.2, np.zeros(12, bool), np.ones(40, bool)])
    rule = {"initial": 64.0, "growth": 4.0, "backoff": 0.25, "interval": 3, "floor": 0.5, "ceiling": 4096.0}
    scaler, w = LossScaler(**rule), parameter([1.0, 2.0])
    optimizer = SGD([("w", w)])

    def step(x, lr):
        loss = ops.sum(w * x)
        optimizer.zero_grad()
        scaler.scaled(loss).backward()
        factor = scaler.factor([w])
        optimizer.step(lr, factor)
        scaler.update(factor)
        return factor

    run = program(step) if traced else step
    expected = modelled(fine, **rule)
    weights, scale = w.numpy().copy(), 64.0
    for ok, row in zip(fine, expected, strict=True):
        # A gradient that overflows is one of the kinds: infinite, or NaN.
        x = np.array([0.25, -0.5 if ok else rng.choice([np.inf, -np.inf, np.nan])], np.float32)
        factor = run(framework.tensor(x), framework.tensor(0.5))
        if ok:
            weights = weights - np.float32(0.5) * x
            assert factor.item() == 1 / scale
        np.testing.assert_array_equal(w.numpy(), weights)
        scale = row[0]
        assert (scaler.scale.item(), scaler.good.item(), scaler.skipped.item(), scaler.stuck.item()) == row
    assert optimizer.steps.item() == fine.sum()


def test_a_static_scale_stays_and_skips_all_the_same():
    scaler, w = LossScaler(8.0, dynamic=False, interval=1), parameter([1.0])
    for x in (1.0, np.inf, np.inf, 1.0):
        w.grad = framework.tensor(np.float32([x]))
        scaler.update(scaler.factor([w]))
    assert (scaler.scale.item(), scaler.skipped.item(), scaler.stuck.item()) == (8.0, 2, 0)


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("traced", [False, True])
def test_a_skipped_update_changes_nothing_and_a_good_one_is_as_without_a_scale(make, traced):
    """Small and large parameters, so that Programs have both grouped steps and single ones."""
    rng = np.random.default_rng(1)
    shapes = {"small": (3,), "other": (5, 2), "large": (200, 100)}
    start = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    xs = [{name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(5)]
    xs[1]["other"][3, 1], xs[3]["large"][7, 7] = np.inf, np.nan

    def train(scaled):
        params = {name: parameter(a) for name, a in start.items()}
        optimizer, scaler = make(params.items()), LossScaler(1024.0)

        def step(x):
            loss = sum((ops.sum(params[name] * x[name]) for name in sorted(x)), start=framework.tensor(0.0))
            optimizer.zero_grad()
            (scaler.scaled(loss) if scaled else loss).backward()
            factor = scaler.factor(params.values()) if scaled else None
            optimizer.step(None, factor)
            if factor is not None:
                scaler.update(factor)
            return loss

        run = program(step) if traced else step
        for i, x in enumerate(xs):
            if scaled or i not in (1, 3):
                before = {n: t.numpy().copy() for n, t in {**params, **optimizer.state_dict()}.items()}
                run({name: framework.tensor(a) for name, a in x.items()})
                if i in (1, 3):
                    for n, t in {**params, **optimizer.state_dict()}.items():
                        np.testing.assert_array_equal(t.numpy(), before[n], err_msg=n)
        return {**params, **optimizer.state_dict()}

    plain, scaled = train(False), train(True)
    for name, t in plain.items():
        np.testing.assert_array_equal(scaled[name].numpy(), t.numpy(), err_msg=name)


def test_a_step_on_rows_of_a_table_is_skipped_too():
    table, ids = parameter(np.ones((4000, 8))), framework.tensor(np.array([3, 5, 3]))
    optimizer, scaler = AdamW([("table", table)], weight_decay=0.1), LossScaler(4.0)

    @program
    def step(x):
        optimizer.zero_grad()
        scaler.scaled(ops.sum(ops.embedding(table, ids) * x)).backward()
        optimizer.step(None, scaler.factor([table]))

    x = np.ones((3, 8), np.float32)
    assert "adam_rows_step" in str(step.program_for(framework.tensor(x)).program)
    step(framework.tensor(x))
    after = {n: t.numpy().copy() for n, t in {"table": table, **optimizer.state_dict()}.items()}
    x[1, 2] = np.inf
    step(framework.tensor(x))
    for n, t in {"table": table, **optimizer.state_dict()}.items():
        np.testing.assert_array_equal(t.numpy(), after[n])


def test_the_factor_takes_the_scale_off_and_clips():
    scaler, w = LossScaler(1024.0), parameter([0.0, 0.0])
    w.grad = framework.tensor(np.float32([3 * 1024, 4 * 1024]))  # norm 5 without the scale
    assert scaler.factor([w]).item() == 1 / 1024
    # One division and one product more than the exact 0.2 / 1024.
    assert scaler.factor([w], max_norm=1.0).item() == pytest.approx(0.2 / 1024, rel=4 * 2.0**-24)
    assert scaler.factor([w], max_norm=50.0).item() == 1 / 1024


def test_a_state_is_taken_up_and_another_ones_refused():
    first, second, w = LossScaler(64.0), LossScaler(2.0), parameter([1.0])
    w.grad = framework.tensor(np.float32([np.nan]))
    first.update(first.factor([w]))
    second.load_state_dict({n: t.numpy() for n, t in first.state_dict().items()})
    assert (second.scale.item(), second.skipped.item()) == (32.0, 1)
    with pytest.raises(
        CheckpointError, match="LossScaler: a state has scale, good, skipped, stuck; this one has scale"
    ):
        second.load_state_dict({"scale": 1.0})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"initial": 0.0}, "initial is 0.0 but must lie between floor, 1.0, and ceiling"),
        ({"growth": 0.5}, "growth is 0.5; it must be 1 or more"),
        ({"backoff": 2.0}, "backoff is 2.0; it must lie in"),
        ({"interval": 0}, "interval is 0; it must be 1 or more"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(given, message):
    with pytest.raises(AttributeValueError, match=message):
        LossScaler(**given)


def test_a_factor_needs_gradients_and_a_positive_norm():
    w = parameter([1.0])
    with pytest.raises(GradientError, match=r"no parameter has a gradient; call backward\(\) first"):
        LossScaler().factor([w])
    with pytest.raises(AttributeValueError, match="max_norm is 0"):
        LossScaler().factor([w], max_norm=0)


def test_one_thread_and_two_give_the_same_bits():
    rng = np.random.default_rng(3)
    model = nn.Linear(64, 512)
    nn.init.initialize(model, 0)
    x = framework.tensor(rng.standard_normal((256, 64)).astype(np.float32))
    factors = []
    before = framework.num_threads()
    for threads in (1, 2):
        framework.set_num_threads(threads)
        scaler = LossScaler()
        for p in model.parameters():
            p.grad = None
        with framework.autocast("float16"):
            loss = ops.mean(ops.square(model(x)))
        scaler.scaled(loss).backward()
        grads = [p.grad.numpy().copy() for p in model.parameters()]
        factors.append((scaler.factor(model.parameters(), max_norm=0.01).item(), grads))
    framework.set_num_threads(before)
    assert factors[0][0] == factors[1][0]
    for a, b in zip(factors[0][1], factors[1][1], strict=True):
        np.testing.assert_array_equal(a, b)
