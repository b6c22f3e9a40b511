"""The memory plan: random programs equal eager, states and aliases included, in little more than the minimum memory."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.ops import internal

UNARY = [ops.exp, ops.tanh, ops.neg, ops.relu, ops.copy, lambda x: ops.reshape(x, (-1, 2)), lambda x: x * x]
UNARY += [lambda x: internal.sum_to(x, x), lambda x: ops.broadcast_like(x, x)]  # nothing to do: views


def random_function(seed: int):
    """A random straight-line function of two inputs and two states, with reuse, views, updates and several results."""

    def function(x, y, states):
        rng = np.random.default_rng(seed)
        values = [x, y, *states]
        for _ in range(int(rng.integers(5, 40))):
            a, b = (values[int(rng.integers(len(values)))] for _ in range(2))
            kind = rng.random()
            if kind < 0.5:
                new = UNARY[int(rng.integers(len(UNARY)))](ops.tanh(a))
            elif kind < 0.85:
                new = ops.add(a, ops.reshape_like(b, a))
            else:
                s = states[int(rng.integers(len(states)))]
                s.set(ops.reshape_like(ops.tanh(a) + ops.reshape_like(s, a), s))
                continue
            values.append(new)
        picks = rng.integers(len(values), size=4)
        return [values[int(i)] for i in picks] + [states[0] * 1.0]

    return function


def make_states() -> list[framework.Tensor]:
    states = [framework.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(shape)) for shape in ((4, 6), (24,))]
    for s in states:
        s.persistable = True
    return states


@pytest.mark.parametrize("seed", range(150))
def test_a_random_program_equals_eager_run_after_run(seed):
    function = random_function(seed)
    x, y = (
        framework.tensor(np.random.default_rng(seed + i).standard_normal((4, 6)).astype(np.float32)) for i in (0, 1)
    )
    eager_states, program_states = make_states(), make_states()
    traced = framework.program(lambda a, b: function(a, b, program_states))
    for _ in range(3):  # the second and third run start from updated states and a used arena
        expected = function(x, y, eager_states)
        got = traced(x, y)
        for e, g in zip([*expected, *eager_states], [*got, *program_states], strict=True):
            assert e.numpy().tobytes() == g.numpy().tobytes()
    assert traced.traces_made == 1
    report = traced.program_for(x, y).memory_report([x, y])
    assert (
        report.lower_bound_bytes
        <= report.arena_bytes
        <= max(1.5 * report.lower_bound_bytes, report.lower_bound_bytes + 256)
    )


def test_a_result_that_is_an_input_or_a_state_is_copied_out():
    s = make_states()[0]
    f = framework.program(lambda x: (x, ops.reshape(x, (-1,)), s))
    x = framework.tensor(np.ones((2, 3), np.float32))
    out = f(x)
    for o in out:
        o.numpy()[...] = 7
    assert x.numpy().max() == 1 and s.numpy().max() == 1


def test_results_of_an_earlier_run_stay_as_they_were():
    f = framework.program(lambda x: ops.exp(x))
    first = f(np.zeros((3, 3), np.float32))
    f(np.ones((3, 3), np.float32))
    assert first.numpy().max() == 1.0


def test_broadcasting_to_an_equal_shape_takes_no_memory_and_to_a_larger_one_does():
    traced = framework.program(lambda x, like: ops.exp(ops.broadcast_like(ops.exp(x), like)), pass_names=())
    like = framework.tensor(np.zeros((64, 4), np.float32))
    for rows, size in ((64, 64 * 16), (1, 16 + 64 * 16)):
        x = framework.tensor(np.ones((rows, 4), np.float32))
        np.testing.assert_array_equal(traced(x, like).numpy(), np.broadcast_to(ops.exp(ops.exp(x)).numpy(), (64, 4)))
        assert traced.program_for(x, like).memory_report([x, like]).naive_bytes == size
    assert traced.traces_made == 1
