"""States of Programs: who else sees their memory keeps its values, and a run that fails leaves them as they were."""

import gc
import signal

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import AttributeValueError, ShapeError, StateError, TraceError
from framework.ops import internal


def state(values, dtype=np.float32, name=None) -> framework.Tensor:
    t = framework.tensor(np.asarray(values, dtype))
    t.persistable, t.name = True, name
    return t


def increment(w: framework.Tensor):
    """A Program that adds 1 to w."""

    def step(x):
        w.set(w + 1.0)
        return x * 2.0

    return framework.program(step), step


# -- aliases
def test_an_input_that_shares_a_states_memory_keeps_its_values():
    w = state([0.0])
    program, _ = increment(w)
    for k in range(3):
        before = w.detach()
        assert program(before).item() == 2.0 * k and w.item() == k + 1
        assert before.item() == k


@pytest.mark.parametrize(
    "share",
    [
        lambda w: w.detach(),
        lambda w: ops.reshape(w, shape=(1, 3)),
        lambda w: w.numpy(),
        lambda w: np.from_dlpack(w),
        lambda w: w._data,
    ],
    ids=["snapshot", "view", "numpy", "dlpack", "array"],
)
def test_what_shares_a_states_memory_keeps_its_values_as_after_an_eager_set(share):
    w = state([1.0, 2.0, 3.0])
    program, eager = increment(w)
    for step in (program, eager, program):
        snapshot, before = share(w), w.numpy().copy()
        step(framework.tensor(1.0))
        held = snapshot.numpy() if hasattr(snapshot, "numpy") else snapshot
        np.testing.assert_array_equal(np.asarray(held).reshape(-1), before)
        np.testing.assert_array_equal(w.numpy(), before + 1)


def test_an_array_that_a_state_was_made_from_is_not_written():
    data = np.zeros(3, np.float32)
    w = framework.from_numpy(data)
    w.persistable = True
    increment(w)[0](framework.tensor(1.0))
    assert not data.any() and (w.numpy() == 1).all()


def test_a_snapshot_that_a_program_captured_keeps_its_values():
    w = state([1.0])
    then = w.detach()

    @framework.program
    def step():
        w.set(w + then)
        return w * 1.0

    assert [step().item() for _ in range(3)] == [2.0, 3.0, 4.0]


def test_two_states_on_the_same_memory_part_as_they_do_eagerly():
    a = state([1.0])
    b = a.detach()
    b.persistable = True

    @framework.program
    def step():
        a.set(a + 1.0)
        return b * 1.0

    assert [step().item() for _ in range(2)] == [1.0, 1.0] and a.item() == 3.0


def test_detach_of_a_state_is_its_value_at_that_place_of_the_program():
    w = state([1.0])

    @framework.program
    def step():
        old = w.detach()
        w.set(w + 1.0)
        return old, w.detach()

    for k in (1.0, 2.0):
        assert [t.item() for t in step()] == [k, k + 1]


def test_a_state_that_nobody_else_sees_stays_where_it_is():
    w = state(np.zeros(1000))
    program, _ = increment(w)
    x = framework.tensor(1.0)
    program(x)
    gc.collect()
    places = set()
    for _ in range(3):
        program(x)
        places.add(w._data.address)
    assert len(places) == 1


def test_an_argument_that_the_function_sets_is_refused():
    w = state([1.0], name="w")
    program, _ = increment(w)
    program(framework.tensor(1.0))
    with pytest.raises(TraceError, match=r"argument 0 is w, which the function updates too; .* pass its detach\(\)"):
        program(w)
    assert w.item() == 2.0


# -- runs that fail
TABLE = np.arange(8.0, dtype=np.float32).reshape(4, 2)


def test_refused_indices_leave_states_as_they_were_wherever_they_stand():
    w, count = state([1.0, 2.0]), state(0, np.int64)
    table = framework.tensor(TABLE)

    @framework.program
    def step(ids, labels):
        count.set(count + 1)
        w.set(w * 2.0)
        rows = ops.embedding(table, ids)
        return ops.cross_entropy(rows * w, labels)

    step(np.array([0, 3]), np.array([0, 1]))
    for ids, labels in (([0, 4], [0, 1]), ([0, 3], [0, 2])):
        with pytest.raises(AttributeValueError):
            step(np.array(ids), np.array(labels))
        np.testing.assert_array_equal(w.numpy(), [2.0, 4.0])
        assert count.item() == 1
    step(np.array([0, 3]), np.array([0, 1]))
    assert count.item() == 2


def test_a_new_value_of_another_shape_is_refused_with_the_plan_and_leaves_the_state():
    w = state([1.0, 2.0])

    @framework.program
    def step(x):
        w.set(w * 2.0 if x.ndim == 0 else x + 1.0)  # of w's shape when it was traced
        return x * 2.0

    step(framework.tensor(np.zeros(2, np.float32)))
    compiled = step.program_for(framework.tensor(np.zeros(2, np.float32)))
    made = compiled.plans_made
    for x in (np.zeros(3, np.float32), np.zeros(3, np.float32)):
        for refused in (compiled.run, compiled.plan):
            with pytest.raises(ShapeError, match=r"state 0 of type float32 \[2\] would be updated with float32 \[3\]"):
                refused([framework.tensor(x)])
        np.testing.assert_array_equal(w.numpy(), [1.0, 1.0])
    assert compiled.plans_made == made
    step(framework.tensor(np.ones(2, np.float32)))
    np.testing.assert_array_equal(w.numpy(), [2.0, 2.0])


def test_refused_rows_in_a_block_leave_states_as_they_were():
    w = state([1.0])
    table = framework.tensor(TABLE)

    @framework.program
    def step(flag, ids):
        w.set(w + 1.0)
        rows = framework.cond(flag, lambda i: ops.embedding(table, i), lambda i: ops.embedding(table, i * 0), ids)
        return ops.sum(rows)

    yes = framework.tensor(np.array(True))
    step(yes, np.array([1]))
    with pytest.raises(AttributeValueError):
        step(yes, np.array([9]))
    assert w.item() == 2.0


def test_a_step_that_looks_up_and_takes_gradients_updates_in_place():
    """What the lookup has checked, its gradient cannot refuse."""
    table = state(np.ones((4, 2)), name="table")
    table.requires_grad = True

    @framework.program
    def step(ids, labels):
        loss = ops.mean(ops.cross_entropy(ops.embedding(table, ids), labels))
        loss.backward()
        table.set(internal.sgd_step(table, table.grad, framework.tensor(0.1)))
        return loss

    ids, labels = framework.tensor(np.array([0, 3])), framework.tensor(np.array([0, 1]))
    plan = step.program_for(ids, labels)
    plan.plan([ids, labels])
    places = [row[2] for row in plan.execution.executable.last_plan()["values"]]
    program = plan.program
    new = next(iter(program.updates.values()))
    assert places[plan.execution.numbers[new]] == "state"


def failing_late(w):
    """A Program whose Python function fails after w was written, where its input is not positive."""

    def check(x):
        if not (x > 0).all():
            raise RuntimeError("not positive")
        return x

    def step(x):
        w.set(w + x)
        return framework.py_func(check, [w * 1.0], lambda t: t)

    return step


def test_a_python_function_that_fails_leaves_states_as_they_were():
    w = state([1.0], name="w")
    step = framework.program(failing_late(w))
    with pytest.raises(Exception, match="not positive"):
        step(framework.tensor([-5.0]))
    assert w.item() == 1.0


class Torn:
    """An executable whose run fails when it has written to state 0."""

    torn = (0,)

    def run(self, inputs, states):
        raise MemoryError("no room for scratch")


def test_a_state_that_a_failed_run_has_written_in_part_is_an_error_until_it_is_set():
    w = state([1.0], name="layer.weight")
    program, _ = increment(w)
    x = framework.tensor(1.0)
    program(x)
    compiled = program.program_for(x)
    execution = compiled.execution
    sound, execution.executable = execution.executable, Torn()
    with pytest.raises(MemoryError):
        program(x)
    execution.executable = sound
    text = r"layer.weight: a run of a Program failed .*\(MemoryError: no room for scratch\); give it a value again"
    for use in (lambda: w + 1.0, w.numpy, w.item, lambda: program(x), lambda: w.detach().tolist()):
        with pytest.raises(StateError, match=text):
            use()
    w.set(framework.tensor([5.0]))
    program(x)
    assert w.item() == 6.0


def test_a_state_that_was_set_again_is_not_torn_by_a_run_that_never_began():
    first, second = state([1.0], name="first"), state([2.0], name="second")

    @framework.program
    def step(n):
        first.set(first + 1.0)
        second.set(second + 1.0)
        return framework.while_loop(lambda i: i < n, lambda i: i + 1, (framework.tensor(np.int64(0)),))

    step(np.array(3))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            step(np.array(2**40))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    for t in (first, second):
        with pytest.raises(StateError):
            t.numpy()
    first.set(framework.tensor([5.0]))
    held = second.detach()  # somebody else sees it, so it is looked at before the run
    with pytest.raises(StateError, match="second"):
        step(np.array(3))
    assert first.item() == 5.0
    del held
    second.set(framework.tensor([6.0]))
    step(np.array(3))
    assert (first.item(), second.item()) == (6.0, 7.0)
