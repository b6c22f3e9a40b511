"""Programs with tables of rows and Python functions on a device: what the host does before and behind its part."""

import numpy as np
import pytest

import framework
from framework import ops, optim, program
from framework.errors import AttributeValueError, NotSupportedError, StateError
from framework.table import SGD, Adam, DenseAdam, Limit, Normal, RowOptimizer, Table, Zeros
from tests.devices import DEVICE
from tests.framework.table.test_programs import Model, batches, state
from tests.framework.xla.test_hosts import together
from tests.framework.xla.test_several_devices import run

jax = pytest.importorskip("jax", reason="the extra [xla] is not installed")


@pytest.fixture(autouse=True)
def _on_xla():
    with framework.device(DEVICE):
        yield


@pytest.mark.parametrize("rule", [SGD(lr=0.1), Adam(lr=0.05), DenseAdam(lr=0.05)], ids=lambda r: type(r).__name__)
def test_a_step_gives_the_rows_states_and_counts_of_the_native_step(rule):
    """Sums round in another order, as in the native test of passes, whose bound this is."""
    native, device = Model(rule), Model(rule)
    here, there = program(native.step), program(device.step)
    for batch in batches():
        with framework.device("cpu"):
            loss = float(here(*batch))
        assert float(there(*batch)) == pytest.approx(loss, abs=1e-3)
    np.testing.assert_array_equal(*(m.table.counts(np.arange(30))[:, :3] for m in (native, device)))
    bound = 6 * 100 * 8 * float(np.finfo(np.float32).eps)
    np.testing.assert_allclose(device.seen(), native.seen(), rtol=0, atol=bound)
    np.testing.assert_allclose(device.w.numpy(), native.w.numpy(), rtol=0, atol=bound)


def limited():
    """A table with room for two rows, a weight, and a step of both with a label for each key."""
    table = Table(2, rule=SGD(), init=Normal(1.0), limit=Limit(rows=2), name="signs")
    w = state([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]], "w")
    dense, rows = optim.SGD([("w", w)], lr=0.1), RowOptimizer([table], lr=1.0)

    @program
    def step(keys, labels):
        dense.zero_grad()
        rows.zero_grad()
        loss = ops.mean(ops.cross_entropy(ops.matmul(table.lookup(keys), w), labels))
        loss.backward()
        dense.step()
        rows.step()
        return loss

    return table, w, step


@pytest.mark.parametrize(
    ("keys", "labels", "error", "text"),
    [
        ([1, 3], [0, 1], StateError, r"table signs: 2 rows and 1 new keys .* limit of 2"),
        ([1, 2], [0, 9], AttributeValueError, r"cross_entropy: label 9 is outside of \[0, 3\)"),
    ],
    ids=["a full table", "a bad label"],
)
def test_a_step_that_is_refused_changes_neither_rows_nor_states(keys, labels, error, text):
    table, w, step = limited()
    step(np.array([1, 2]), np.array([0, 1]))
    before, counts = w.detach().numpy().copy(), table.counts([1, 2, 3])
    with pytest.raises(error, match=text):
        step(np.array(keys), np.array(labels))
    np.testing.assert_array_equal(w.numpy(), before)
    np.testing.assert_array_equal(table.counts([1, 2, 3]), counts)
    step(np.array([1, 2]), np.array([0, 1]))
    assert (w.numpy() != before).any()


def test_the_joint_norm_counts_gradients_of_equal_keys_once():
    tables = [Table(2, rule=SGD(), init=Zeros(), name=n) for n in "ab"]
    rows = RowOptimizer(tables, lr=1.0)

    @program
    def clipped(limit, keys):
        rows.zero_grad()
        (ops.sum(tables[0].lookup(keys) * 3.0) + ops.sum(tables[1].lookup(keys[:1]) * 4.0)).backward()
        squares = rows.sum_of_squares()
        rows.step(grad_scale=limit / ops.sqrt(squares))
        return squares

    assert float(clipped(np.float32(1.0), np.array([1, 1, 2]))) == 2 * (36 + 9 + 16)
    with framework.no_grad():
        norm = np.sqrt(sum((t.lookup([1, 2]).numpy() ** 2).sum() for t in tables))
    np.testing.assert_allclose(norm, 1.0, rtol=1e-6)


def test_planning_and_evaluating_make_no_rows_and_shapes_are_compiled_once():
    model = Model(Adam())
    step = program(model.step)
    batch = next(batches())
    compiled = step.program_for(*batch)
    compiled.plan([framework.tensor(a) for a in batch])
    assert "MB of inputs and states" in str(compiled.memory_report([framework.tensor(a) for a in batch]))
    assert len(model.table) == 0 and compiled.plans_made == 1
    step(*batch)
    assert len(model.table) > 0 and compiled.plans_made == 1

    @program
    def evaluate(keys):
        with framework.no_grad():
            return model.table.lookup(keys) * 2.0

    before = len(model.table)
    assert (evaluate(np.array([100, 101])).numpy() == 0).all() and len(model.table) == before


def test_keys_may_come_from_rows_but_not_from_weights():
    numbers, table, w = Table(1, rule=SGD(), init=Zeros()), Table(2, init=Normal(1.0), rule=SGD()), state([3.0])
    numbers.update([5], -np.full((1, 1), 8.0), 1.0)
    table.update([8], np.zeros((1, 2)))
    with framework.no_grad():
        expected = table.lookup([8]).numpy() * 3
        chained = program(lambda k: table.lookup(ops.cast(numbers.lookup(k)[:, 0], "int64")) * w)
        np.testing.assert_array_equal(chained(np.array([5])).numpy(), expected)
        refused = program(lambda k: table.lookup(k + ops.cast(w, "int64")) * 1.0)
        with pytest.raises(NotSupportedError, match=r"table_gather \(used at .*test_tables\.py:\d+\): its keys depend"):
            refused(np.array([5]))


def doubled(x):
    return framework.py_func(lambda a: a * 2, [x], lambda t: t)


def test_a_python_function_at_the_end_of_a_program_runs_on_the_host():
    w, seen = state([1.0, 2.0]), []

    @program
    def step(x):
        w.set(w + x)
        return framework.py_func(lambda a: seen.append(a.copy()) or a * 2, [w * x], lambda t: t) + 1.0

    assert step(np.float32([1, 1])).tolist() == [5.0, 7.0]
    assert step(np.float32([1, 1])).tolist() == [7.0, 9.0]
    assert [a.tolist() for a in seen] == [[2, 3], [3, 4]] and w.tolist() == [3.0, 4.0]


def test_a_python_function_that_fails_leaves_states_as_they_were():
    w = state([1.0])

    @program
    def step(x):
        w.set(w + x)
        return framework.py_func(lambda a: 1 / 0, [w * x], lambda t: t)

    for _ in range(2):
        with pytest.raises(Exception, match="division by zero"):
            step(np.float32([1.0]))
    assert w.tolist() == [1.0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x, w: w.set(doubled(x)), r"in the middle of a Program: .*the new value of w follows from it"),
        (lambda x, w: ops.matmul(doubled(x), doubled(x)), r"in the middle .* matmul \(used at .*\) follows from it"),
        (lambda x, w: framework.cond(ops.sum(x) > 0, lambda: doubled(x), lambda: x), r"is in the body of cond"),
    ],
    ids=["a state", "a product", "a branch"],
)
def test_effects_in_the_middle_of_a_program_are_refused_before_anything_runs(function, text):
    w = state(np.ones((2, 2)), "w")
    with pytest.raises(NotSupportedError, match=rf"no device but the CPU runs py_func.*{text}.*--device cpu"):
        program(lambda x: function(x, w))(np.ones((2, 2), np.float32))
    assert w.tolist() == [[1, 1], [1, 1]]


def test_several_devices_and_several_hosts_give_the_rows_of_one():
    """Two steps of SGD on numbers up to 8: sums in another order round by at most some ulps of them."""
    alone, eight, hosts = run("table", "1"), run("table", "8"), together("table")
    assert hosts[0] == hosts[1]
    for found in (eight, hosts[0]):
        assert found["counts"] == alone["counts"]
        for name in ("rows", "w"):
            np.testing.assert_allclose(found[name], alone[name], rtol=0, atol=16 * 8 * 2**-23)
