"""What backward() in a Program leaves in `grad` is what it leaves eagerly."""

import numpy as np
import pytest

import framework
from framework import ops, optim
from framework.errors import GradientError, TraceError

X = [[1.0, 2.0], [3.0, 5.0]]


def parameter(values, name="w"):
    t = framework.tensor(np.asarray(values, np.float32), requires_grad=True)
    t.persistable, t.name = True, name
    return t


def gather(w):
    return lambda x: ops.sum(ops.square(x * w)).backward()


def test_gradients_are_gathered_over_calls_as_eagerly():
    eager, traced = parameter([0.5, -1.0]), parameter([0.5, -1.0])
    program = framework.program(gather(traced))
    for x in X:
        gather(eager)(framework.tensor(x))
        program(framework.tensor(x))
        assert traced.grad.tolist() == eager.grad.tolist()
    program(framework.tensor(X[0]))
    assert program.traces_made == 2  # without and with a gradient to add to


def test_a_gradient_from_before_the_trace_is_added_to():
    w = parameter([1.0, 1.0])
    w.grad = framework.tensor([10.0, 20.0])
    framework.program(gather(w))(framework.tensor([1.0, 2.0]))
    assert w.grad.tolist() == [12.0, 28.0]


def test_a_function_may_be_traced_before_gradients_are_forgotten_and_used_after():
    w = parameter([1.0, 1.0])
    program = framework.program(gather(w))
    for _ in range(3):
        w.grad = None
        program(framework.tensor([1.0, 2.0]))
        assert w.grad.tolist() == [2.0, 8.0]
    assert program.traces_made == 1


def test_an_argument_gets_its_gradient():
    x = framework.tensor([1.0, 2.0], requires_grad=True)
    program = framework.program(lambda x: ops.sum(x * x).backward())
    program(x)
    program(x)
    assert x.grad.tolist() == [4.0, 8.0]


def test_a_gradient_that_the_function_forgets_is_forgotten():
    w = parameter([1.0])

    @framework.program
    def f():
        (w * w).backward()
        g = w.grad
        w.grad = None
        return g

    assert f().tolist() == [2.0] and w.grad is None


def test_leaves_of_one_program_do_not_share_the_memory_of_a_gradient():
    a, b = parameter([1.0], "a"), parameter([2.0], "b")
    framework.program(lambda: (a + b).backward())()
    a.grad.numpy()[0] = 99
    assert b.grad.tolist() == [1.0]


def test_a_gradient_that_a_step_used_up_is_no_silent_none():
    w = parameter([1.0])
    optimizer = optim.SGD([("w", w)], 0.1)

    @framework.program
    def step():
        (w * w).backward()
        optimizer.step()

    step()
    with pytest.raises(GradientError, match="the gradient of w was used up by an optimizer's step in a Program"):
        _ = w.grad
    with pytest.raises(GradientError, match=r"call zero_grad\(\) before the next backward"):
        step()
    optimizer.zero_grad()
    step()
    np.testing.assert_allclose(w.numpy(), [0.64])


def test_a_step_used_up_gradients_take_no_memory():
    w = parameter(np.ones(1000))
    optimizer = optim.SGD([("w", w)], 0.1)

    @framework.program
    def step():
        optimizer.zero_grad()
        ops.sum(w * w).backward()
        optimizer.step()

    assert step.program_for().program.results == []


def test_a_trace_that_fails_leaves_gradients_alone():
    w = parameter([1.0])
    w.grad = framework.tensor([5.0])

    def f():
        (w * w).backward()
        raise KeyError("no")

    with pytest.raises(KeyError):
        framework.program(f)()
    assert w.grad.tolist() == [5.0]


def test_a_gradient_is_that_of_the_state_before_it_was_set():
    def f(w):
        def call(x):
            y = x * w
            w.set(w * 100.0)
            return framework.gradients([y], [x])[0]

        return call

    eager, traced = parameter([3.0]), parameter([3.0])
    x = framework.tensor([2.0], requires_grad=True)
    assert framework.program(f(traced))(x).tolist() == f(eager)(x).tolist() == [3.0]


def test_a_value_that_leaked_out_of_its_trace_is_no_absent_input():
    kept = []
    framework.program(lambda x: kept.append(x * 2.0))(framework.tensor([[1.0]]))
    a = framework.tensor([[1.0]])
    with pytest.raises(TraceError, match="matmul: bias is a value of a Program that is no longer traced"):
        ops.matmul(a, a, kept[0])
    with pytest.raises(TraceError, match="another, finished trace"):
        framework.program(lambda x: ops.matmul(x, x, kept[0]))(a)


def test_uses_of_one_number_are_one_constant_so_that_equal_operations_merge():
    f = framework.program(lambda x: ops.exp(x * 0.5) + ops.exp(x * 0.5))
    program = f.program_for(framework.tensor([1.0])).program
    assert len(program.constants) == 1
    assert str(program).count("exp") == 1


def test_many_traces_for_changing_numbers_are_told_once_and_bounded(caplog):
    f = framework.program(lambda x, lr: x * lr)
    x = framework.tensor([1.0])
    with caplog.at_level("WARNING", logger="paddock"):
        for i in range(80):
            assert f(x, i / 8).item() == i / 8
    (record,) = caplog.records
    assert "pass what changes from call to call as a tensor" in record.getMessage()
    assert "0.125" in record.getMessage()
    made = f.traces_made
    f(x, 79 / 8)
    assert f.traces_made == made  # the latest are kept
    f(x, 0.0)
    assert f.traces_made == made + 1  # the oldest made room


def test_many_traces_for_changing_shapes_are_told_once_with_what_reads_them(caplog):
    f = framework.program(lambda x: x * float(x.shape[0]))
    with caplog.at_level("WARNING", logger="paddock"):
        for n in range(1, 21):
            assert f(framework.ones(n)).tolist() == [float(n)] * n
    (record,) = caplog.records
    assert "was traced for 8 shapes" in record.getMessage()
    assert "test_gradients_in_programs.py" in record.getMessage() and "ops.extent" in record.getMessage()


def test_an_eager_gradient_is_that_of_a_state_before_a_program_overwrote_it():
    w, x = parameter([3.0]), framework.tensor([2.0], requires_grad=True)
    y = x * w
    framework.program(lambda: w.set(w * 100.0))()
    y.backward()
    assert (x.grad.tolist(), w.grad.tolist(), w.tolist()) == ([3.0], [2.0], [300.0])


def test_the_gradient_of_an_argument_that_is_a_result_goes_on_to_what_it_came_from():
    def step(y, z):
        loss = ops.sum(y * y) + ops.sum(z)
        loss.backward()
        return loss

    found = []
    for function in (step, framework.program(step)):
        w = framework.tensor([1.0, 2.0], requires_grad=True)
        v = w * 2.0
        y, z = v * 1.0, v * 3.0  # with a common history
        function(y, z)
        function(w * 1.0, w.detach())
        assert y.grad is None and z.grad is None and v.grad is None
        found.append(w.grad.tolist())
    assert found[0] == found[1] == [16.0, 26.0]  # 8w + 6, then 2w
