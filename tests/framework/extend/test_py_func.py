"""py_func: NumPy code as an operator, eagerly and in a Program, with errors that say whose they are."""

import logging
import threading
import traceback

import numpy as np
import pytest

import framework
from framework import TensorType, no_grad, ops, program, py_func
from framework.errors import (
    AttributeValueError,
    DTypeError,
    GradientError,
    NotSupportedError,
    ShapeError,
    UserFunctionError,
)
from framework.graph.files import save_program

X = np.array([3.0, 1.0, 2.0], np.float32)


def same(x):
    return x


def both_ways(function, *inputs):
    """The results eagerly and in a Program, which must have the same bits."""
    eager, traced = function(*inputs), program(function)(*inputs)
    assert eager.numpy().tobytes() == traced.numpy().tobytes()
    return traced.numpy()


def test_numpy_code_runs_eagerly_and_in_a_program():
    got = both_ways(lambda x: py_func(np.sort, [ops.neg(x)], same) * 2.0, framework.tensor(X))
    np.testing.assert_array_equal(got, [-6.0, -4.0, -2.0])


def test_several_inputs_and_outputs_of_all_kinds():
    def statistics(x, n):
        assert not x.flags.writeable
        return x.mean(dtype=x.dtype), np.argsort(x) + n

    def types(x, n):
        return TensorType((), x.dtype), TensorType(x.shape, "int64")

    def f(x):
        mean, order = py_func(statistics, [x, 10], types)
        return mean, order

    for run in (f, program(f)):
        mean, order = run(framework.tensor(X))
        assert mean.item() == 2.0 and order.tolist() == [11, 12, 10]


def test_one_program_serves_other_shapes_with_the_rule_asked_again():
    f = program(lambda x: py_func(lambda a: a.sum(0), [x], lambda t: TensorType(t.shape[1:], t.dtype)))
    for n in (1, 4, 7):
        np.testing.assert_array_equal(f(np.ones((n, 3), np.float32)).numpy(), np.full(3, n))
    assert f.traces_made == 1


def test_it_runs_at_each_run_of_the_program_also_without_inputs_or_readers():
    calls = []

    def source():
        calls.append("source")
        return np.float32(len(calls))

    @program
    def f(x):
        py_func(lambda a: calls.append("seen"), [x], ())
        return x + py_func(source, [], TensorType((), "float32"))

    first, second = f(X).numpy(), f(X).numpy()
    assert calls == ["seen", "source"] * 2 or calls == ["source", "seen"] * 2
    assert (second != first).all()


def test_a_tuple_comes_back_where_the_rule_gives_a_sequence():
    (y,) = py_func(np.sort, [X], lambda x: [x])
    assert y.tolist() == [1.0, 2.0, 3.0]
    assert py_func(lambda a: None, [X], ()) == ()


def broken(x):
    raise KeyError("no such row")


@pytest.mark.parametrize("run", [lambda f: f, program], ids=["eager", "program"])
def test_an_error_names_the_function_and_carries_its_traceback(run):
    with pytest.raises(UserFunctionError, match=r"py_func: broken \(.*test_py_func.py:\d+\) raised KeyError") as caught:
        run(lambda x: py_func(broken, [x], same))(framework.tensor(X))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "broken" in [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]


def test_a_program_works_again_after_an_error():
    f = program(lambda x: py_func(lambda a: np.sort(a) if a[0] >= 0 else broken(a), [x], same) + 1.0)
    f(X)
    with pytest.raises(UserFunctionError):
        f(-X)
    assert f(X).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("run", [lambda f: f, program], ids=["eager", "program"])
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a: a.astype(np.float64), DTypeError, r"returned float64\[3\] as output 0, .* declared float32\[3\]"),
        (lambda a: a[:2], ShapeError, r"returned shape \[2\] as output 0, .* declared float32\[3\]"),
        (lambda a: (a, a), ShapeError, "returned 2 arrays; its output types name 1"),
        (lambda a: None, ShapeError, "returned 0 arrays; its output types name 1"),
    ],
)
def test_what_is_not_as_declared_is_refused(run, function, error, message):
    with pytest.raises(error, match=message):
        run(lambda x: py_func(function, [x], same))(framework.tensor(X))


@pytest.mark.parametrize(
    ("types", "error", "message"),
    [
        (TensorType((2,), "float31"), AttributeValueError, r"float31\[2\]; .*types are float32"),
        (TensorType((-1,), "float32"), AttributeValueError, "at least 0"),
        (3, AttributeValueError, "3 is no type of an output"),
        (lambda t: t.shape, AttributeValueError, "3 is no type of an output"),
        (lambda t: t.nonsense, UserFunctionError, "rule of output types .* raised AttributeError"),
    ],
)
def test_a_wrong_rule_of_output_types_is_refused(types, error, message):
    with pytest.raises(error, match=message):
        py_func(np.sort, [X], types)


def test_a_gradient_through_it_is_refused_with_advice():
    x = framework.tensor(X, requires_grad=True)
    with pytest.raises(GradientError, match=r"py_func\.sort: it has no gradient; .* wrap it in a Function"):
        py_func(np.sort, [x], same).sum().backward()


def test_a_program_with_it_cannot_be_saved(tmp_path):
    with no_grad():
        compiled = program(lambda x: py_func(np.sort, [x], same)).program_for(X)
    with pytest.raises(NotSupportedError, match=r"py_func\.sort \(.*test_py_func.py:\d+\) runs Python code"):
        save_program(compiled.program, tmp_path)


def test_it_is_logged_once_that_a_program_calls_python(caplog):
    f = program(lambda x: py_func(np.sort, [x], same))
    with caplog.at_level(logging.WARNING, logger="paddock"):
        f(X)
        f(X)
    assert [r.getMessage() for r in caplog.records] == [
        "py_func.sort: Python code in a Program holds the interpreter's lock and is slow"
    ]


def test_threads_run_one_program_and_ask_for_its_plan_without_locking_each_other():
    f = program(lambda x: py_func(np.sort, [x], same) + 1.0)
    compiled = f.program_for(X)
    wrong = []

    def work(i):
        for n in range(2, 40):
            x = np.arange(n, 0, -1, dtype=np.float32) + i
            if not np.array_equal(f(x).numpy(), np.sort(x) + 1.0):
                wrong.append((i, n))
            compiled.memory_report()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert not any(t.is_alive() for t in threads) and not wrong


def test_a_program_that_its_own_function_calls_is_refused():
    f = program(lambda x: py_func(lambda a: f(np.array(a)).numpy(), [x], same))
    with pytest.raises(NotSupportedError, match="it cannot recur"):
        f(X)


def test_a_profile_shows_it():
    f = program(lambda x: py_func(np.sort, [x], same))
    f(X)
    with framework.Profile() as p:
        f(X)
    assert "py_func.sort" in str(p.table())
