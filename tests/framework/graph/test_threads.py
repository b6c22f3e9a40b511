"""Programs and threads: one trace for many callers, and nobody sees what another thread traces."""

import threading

import numpy as np

import framework
from framework import ops
from tests.framework.fuzz.seams import in_threads


def parameter(values):
    t = framework.tensor(np.asarray(values, np.float32), requires_grad=True)
    t.persistable = True
    return t


def test_first_calls_by_many_threads_make_one_trace():
    w = parameter(np.eye(3))
    x = framework.tensor(np.ones((2, 3), np.float32))
    for _ in range(5):
        f = framework.program(lambda x: ops.relu(ops.matmul(x, w)) + w[0])
        for y in in_threads(*[lambda f=f: f(x).numpy()] * 4):
            np.testing.assert_array_equal(y, [[2.0, 1.0, 1.0]] * 2)
        assert f.traces_made == 1


def test_a_parameter_that_is_traced_stays_readable_in_other_threads():
    w = parameter([1.0, 2.0])
    inside, seen = threading.Event(), threading.Event()
    found = []

    def body(x):
        y = x * w
        w.set(w + 1.0)
        inside.set()
        assert seen.wait(10)
        return y + w

    def reader():
        assert inside.wait(10)
        found.append((w.is_traced, w.numpy().tolist(), (w * 2.0).numpy().tolist(), w.detach().is_traced, w.shape))
        seen.set()

    step = framework.program(body)
    in_threads(lambda: step(framework.tensor([1.0, 1.0])), reader)
    assert found == [(False, [1.0, 2.0], [2.0, 4.0], False, (2,))]


def test_threads_that_trace_different_programs_over_one_model_get_their_own_gradients():
    w = parameter([3.0])

    def step(factor):
        def body(x):
            (x * w * factor).backward()
            gradient, w.grad = w.grad, None
            return gradient * 1.0

        return framework.program(body)

    x = framework.tensor([1.0])
    for _ in range(5):
        got = in_threads(*[lambda k=k: step(float(k))(x).item() for k in range(1, 5)])
        assert got == [1.0, 2.0, 3.0, 4.0]


def test_no_update_is_lost_when_threads_run_one_program():
    w = parameter(np.zeros(100))

    @framework.program
    def step(x):
        w.set(w + x)
        return ops.sum(w)

    x = framework.tensor(np.ones(100, np.float32))

    def many():
        for _ in range(200):
            step(x)

    in_threads(many, many, many)
    np.testing.assert_array_equal(w.numpy(), np.full(100, 600.0))
