"""Each rule against its definition in NumPy, and dense Adam against the core's Adam on all rows, bit for bit."""

import numpy as np
import pytest

import framework
from framework import optim
from framework.errors import AttributeValueError
from framework.table import FTRL, SGD, Adagrad, Adam, DenseAdam, Normal, RowOptimizer, Table, Uniform, Zeros
from tests.framework.table.reference import DictTable, initial

EPS = float(np.finfo(np.float32).eps)
RULES = [
    SGD(lr=0.1, weight_decay=0.01),
    Adagrad(lr=0.05, weight_decay=0.01),
    Adagrad(lr=0.05, shared=True, initial=3.0),
    Adam(lr=0.01, weight_decay=0.01),
    FTRL(lr=0.1, l1=0.02, weight_decay=0.1),
    FTRL(lr=0.1, l1=0.0),
]
PARTS = [(1, "zeros", 0.0), (4, "uniform", 0.1), (5, "normal", 0.2)]
INIT = [(1, Zeros()), (4, Uniform(0.1)), (5, Normal(0.2))]


def read(table: Table, keys) -> np.ndarray:
    return table.lookup(keys).numpy().copy()


@pytest.mark.parametrize(
    "rule", RULES, ids=lambda r: f"{type(r).__name__}-{getattr(r, 'shared', '')}{getattr(r, 'l1', '')}"
)
def test_a_rule_does_what_its_formula_says(rule):
    """30 steps: each makes some ten roundings of values below 4 and of steps below `lr`-sized ones; FTRL's value comes
    from sums of all gradients so far, divided by beta / lr = 10 at least."""
    rng = np.random.default_rng(0)
    table, model = Table(10, rule=rule, init=INIT, seed=7), DictTable(10, rule.plain(), PARTS, 7)
    steps = 30
    for step in range(steps):
        keys = rng.integers(0, 12, 20)
        grads = rng.normal(size=(20, 10)).astype(np.float32)
        lr = rule.lr if isinstance(rule, FTRL) else rule.lr / (1 + step % 3)
        table.update(keys, grads, lr)
        model.update(keys, grads, float(np.float32(lr)))
    got, expected = read(table, np.arange(12)), model.lookup(np.arange(12))
    np.testing.assert_allclose(got, expected, rtol=0, atol=steps * 10 * EPS * max(1.0, np.abs(expected).max()))


def test_initial_values_come_from_seed_and_key_alone():
    keys = np.array([0, -1, 1, 2**63 - 1, -(2**63), 12345678901234567], np.int64)
    expected = np.array([initial(99, int(k), PARTS) for k in keys])
    table = Table(10, rule=SGD(), init=INIT, seed=99)
    np.testing.assert_array_equal(read(table, keys), expected)  # worked out in double, rounded once
    table.update(keys[::-1], np.zeros((6, 10)))
    np.testing.assert_array_equal(read(table, keys), expected)
    assert not np.array_equal(read(Table(10, rule=SGD(), init=INIT, seed=98), keys), expected)


def test_initial_values_are_spread_as_they_should_be():
    n = 20000
    values = read(Table(4, rule=SGD(), init=[(2, Normal(0.5)), (2, Uniform(0.25))]), np.arange(n))
    normal, uniform = values[:, :2], values[:, 2:]
    assert abs(normal.mean()) < 5 * 0.5 / np.sqrt(2 * n)  # five standard errors
    assert abs(normal.std() - 0.5) < 5 * 0.5 / np.sqrt(4 * n)
    assert abs(np.corrcoef(normal.T)[0, 1]) < 5 / np.sqrt(n)
    assert uniform.min() >= -0.25 and uniform.max() < 0.25
    assert abs(uniform.std() - 0.5 / np.sqrt(12)) < 5 * 0.5 / np.sqrt(12 * n)


class DenseRun:
    """The core's Adam on a parameter that holds every row, fed zeros where a step has no gradient."""

    def __init__(self, table: Table, rows: int, rule: DenseAdam):
        self.p = framework.tensor(read(table, np.arange(rows)), requires_grad=True)
        self.p.persistable = True
        self.adam = optim.Adam(
            [("p", self.p)], rule.lr, rule.beta1, rule.beta2, rule.eps, rule.weight_decay, decay_vectors=True
        )

    def step(self, keys: np.ndarray, grads: np.ndarray, lr: float) -> None:
        dense = np.zeros(self.p.shape, np.float32)
        for k, g in zip(keys, grads, strict=True):
            dense[k] += g
        self.p.grad = framework.tensor(dense)
        self.adam.step(framework.tensor(np.array(lr, np.float32)))


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize("dim", [1, 5, 16, 17, 33])
def test_dense_adam_has_the_bits_of_the_cores_adam_on_all_rows(weight_decay, dim):
    rng = np.random.default_rng(dim)
    rule = DenseAdam(lr=0.05, weight_decay=weight_decay)
    table = Table(dim, rule=rule, init=Normal(0.3), seed=3)
    dense = DenseRun(table, 24, rule)
    for step in range(60):
        keys = rng.integers(0, 24, rng.integers(1, 6))
        grads = rng.normal(size=(len(keys), dim)).astype(np.float32)
        lr = 0.05 if step < 30 else 0.01
        table.update(keys, grads, lr)
        dense.step(keys, grads, lr)
        if step % 7 == 0:  # a row that is read makes up for its steps; one that is not does so later
            some = rng.integers(0, 24, 5)
            np.testing.assert_array_equal(read(table, some), dense.p.numpy()[some])
    np.testing.assert_array_equal(read(table, np.arange(24)), dense.p.numpy())


def test_dense_adam_is_bounded_in_what_it_replays():
    """beta1 = 0.5 replays 40 steps: what is left of the average is then 2^-40 of it, and of a step's size."""
    rule = DenseAdam(lr=0.05, beta1=0.5)
    table = Table(8, rule=rule, init=Normal(0.3))
    dense = DenseRun(table, 2, rule)
    rng = np.random.default_rng(0)
    for step in range(500):
        keys = np.array([0, 1] if step in (3, 450) else [0])
        grads = rng.normal(size=(len(keys), 8)).astype(np.float32)
        table.update(keys, grads, 0.05)
        dense.step(keys, grads, 0.05)
        if step == 449:
            before = dense.p.numpy()[1].copy()
            np.testing.assert_allclose(read(table, [1])[0], before, rtol=EPS, atol=0)
        if step == 450:
            # v was rounded 406 times in the dense run, once here: 406 * eps / 2 of it at most, half of its root.
            moved = np.abs(dense.p.numpy()[1] - before)
            off = np.abs(read(table, [1])[0] - dense.p.numpy()[1])
            assert (off <= 406 * EPS / 4 * moved + EPS * np.abs(before)).all()


def test_a_row_does_not_depend_on_when_it_is_read():
    """Also beyond what is replayed: 40 steps with beta1 = 0.5."""
    rule = DenseAdam(lr=0.05, beta1=0.5)
    often, never = (Table(8, rule=rule, init=Normal(0.3)) for _ in range(2))
    rng = np.random.default_rng(0)
    for step in range(200):
        keys = np.array([0, 1] if step in (3, 180) else [0])
        grads = rng.normal(size=(len(keys), 8))
        for table in (often, never):
            table.update(keys, grads, 0.05)
        read(often, [0, 1])
    np.testing.assert_array_equal(read(often, [0, 1]), read(never, [0, 1]))
    states = [[framework.Tensor(a).numpy() for a in t._native.read_rows(0, 256, 0, False)] for t in (often, never)]
    for one, two in zip(*states, strict=True):
        np.testing.assert_array_equal(one, two)


def test_steps_without_a_finite_scale_are_skipped():
    table = Table(4, rule=DenseAdam(), init=Normal(0.1))
    before = read(table, [1, 2])
    for bad in (np.nan, np.inf):
        scale = framework.tensor(np.array(bad, np.float32))
        y = table.lookup([1, 2])
        framework.ops.sum(y).backward()
        RowOptimizer([table]).step(grad_scale=scale)
    np.testing.assert_array_equal(read(table, [1, 2]), before)
    assert len(table) == 0 and table.stats().steps == 0


def test_a_scale_has_the_bits_of_gradients_scaled_before():
    rng = np.random.default_rng(0)
    grads = rng.normal(size=(3, 6)).astype(np.float32)
    for rule in RULES:
        scaled, before = (Table(6, rule=rule, init=Normal(0.1)) for _ in range(2))
        scale = np.float32(0.37)
        for _ in range(3):
            part = [framework.tensor(a) for a in (np.arange(3), grads, np.zeros(0, np.float32))]
            lr = framework.tensor(np.array(0.05, np.float32))
            scaled._apply(scaled._update, [lr, framework.tensor(scale), *part], ())
            before.update(np.arange(3), grads * scale, 0.05)
        np.testing.assert_array_equal(read(scaled, [0, 1, 2]), read(before, [0, 1, 2]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(beta1=1.0), r"Adam: beta1 is 1.0; it must lie in \[0, 1\)"),
        (lambda: SGD(lr=-1.0), "SGD: lr is -1.0; it must be a finite number of at least 0"),
        (lambda: SGD(lr=float("nan")), "SGD: lr is nan"),
        (lambda: FTRL(beta=0.0), "FTRL: beta is 0.0; it must be above 0"),
        (lambda: FTRL(lr=0.0), "FTRL: lr is 0.0; it must be above 0"),
        (
            lambda: Adagrad(shared=True, initial=0.0),
            "Adagrad: initial is 0.0; it must be above 0 where the sum is shared",
        ),
    ],
)
def test_a_rule_refuses_numbers_outside_of_its_range(make, message):
    with pytest.raises(AttributeValueError, match=message):
        make()
