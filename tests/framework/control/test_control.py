"""cond, while_loop and scan: eagerly and as blocks of a Program, with gradients, saved, profiled, and refused."""

import copy

import numpy as np
import pytest

import framework
from framework import cond, gradients, no_grad, ops, program, py_func, scan, while_loop
from framework.autograd.check import check_gradients
from framework.errors import (
    AttributeValueError,
    GradientError,
    NotSupportedError,
    ShapeError,
    TraceError,
)
from framework.graph.files import from_json, load_program, save_program, to_json
from framework.predictor import Predictor

X = np.array([0.5, -1.0, 2.0])


def both(f, *inputs):
    """The results of a function eagerly and in a Program, which are the same bits."""
    eager, traced = f(*inputs), program(f)(*inputs)
    for a, b in zip(flat(eager), flat(traced), strict=True):
        assert (a.shape, a.dtype, a.numpy().tobytes()) == (b.shape, b.dtype, b.numpy().tobytes())
    return traced


def flat(tree):
    return [t for part in tree for t in flat(part)] if isinstance(tree, (tuple, list)) else [tree]


def branch(x):
    """A captured value, an argument, and two results."""
    twice = x * 2.0
    return cond(x.sum() > 0.0, lambda a: (a + twice, twice), lambda a: (a - twice, a * a), x)


def collatz(n):
    return while_loop(
        lambda n, steps: n > 1,
        lambda n, steps: (ops.where(even(n), half(n), n * 3 + 1), steps + 1),
        (n, n * 0),
    )


def even(n):
    return half(n) * 2 == n


def half(n):
    return ops.cast(ops.cast(n, dtype="float64") * 0.5, dtype="int64")


def running(x, weight):
    """A running state over rows, with a captured weight."""
    return scan(lambda s, row: (ops.tanh(s * weight + row), s * row), weight * 0.0, x)


def root(x, n=30):
    """Newton's square root of x: steps until it is exact enough."""

    def off(y):
        return ops.max(ops.abs(y * y - x)) > 1e-12

    return while_loop(off, lambda y: (y + x / y) * 0.5, x * 0.0 + 1.0, max_iterations=n)


@pytest.mark.parametrize("x", [X, -X])
def test_cond_runs_one_of_two_blocks(x):
    one, two = both(branch, framework.tensor(x))
    np.testing.assert_array_equal(one.numpy(), 3 * x if x.sum() > 0 else -x)
    np.testing.assert_array_equal(two.numpy(), 2 * x if x.sum() > 0 else x * x)


def test_one_program_takes_both_branches_and_all_sizes():
    f = program(branch)
    for x in (X, -X, np.ones(7), -np.ones(2)):
        f(x)
    assert f.traces_made == 1


def test_while_loop_runs_until_its_condition_fails():
    f = program(collatz)
    for n, steps in ((1, 0), (6, 8), (27, 111)):
        assert [t.item() for t in f(framework.tensor(n))] == [1, steps]
        assert [t.item() for t in collatz(framework.tensor(n))] == [1, steps]
    assert f.traces_made == 1


def test_a_loop_stops_at_its_bound_or_says_that_it_does_not_end():
    def count(x, **bound):
        return while_loop(lambda i: i < 10.0, lambda i: i + 1.0, x, **bound)

    x = framework.tensor(0.0)
    assert both(lambda x: count(x, max_iterations=4), x).item() == 4.0
    assert both(lambda x: count(x, max_iterations=10, must_end=True), x).item() == 10.0
    for run in (lambda f: f, program):
        with pytest.raises(NotSupportedError, match="loop: it does not end after 9 steps"):
            run(lambda x: count(x, max_iterations=9, must_end=True))(x)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_gathers_rows_for_any_length(reverse):
    f = program(lambda x: scan(lambda s, row: (s + row, s * 1.0), framework.tensor([0.0, 0.0]), x, reverse=reverse))
    for steps in (3, 1, 0, 5):
        x = np.arange(2.0 * steps, dtype=np.float32).reshape(steps, 2)
        last, before = f(x)
        np.testing.assert_array_equal(last.numpy(), x.sum(0))
        sums = np.concatenate([np.zeros((1, 2), np.float32), np.cumsum(x[::-1] if reverse else x, axis=0)])[:-1]
        np.testing.assert_array_equal(before.numpy(), sums[::-1] if reverse else sums)
    assert f.traces_made == 1


def test_scan_takes_several_states_and_columns_or_no_state():
    def f(x, y):
        (a, b), rows = scan(lambda s, r: ((s[0] + r[0], s[1] * r[1]), (r[0] * r[1],)), (x[0], y[0]), (x, y))
        nothing, single = scan(lambda s, row: ((), row + 1.0), (), x)
        assert nothing == ()
        return a, b, rows, single

    a, b, (rows,), single = both(f, framework.tensor(X), framework.tensor(X * 2))
    assert a.item() == 0.5 + X.sum() and b.item() == np.prod(X * 2)
    np.testing.assert_array_equal(rows.numpy(), 2 * X * X)
    np.testing.assert_array_equal(single.numpy(), X + 1)


def test_blocks_within_blocks():
    def f(x):
        def step(s, row):
            s = cond(row > 0.0, lambda: while_loop(lambda s: s < 5.0, lambda s: s + row, s), lambda: s - 1.0)
            return s, s

        return scan(step, framework.tensor(0.0, dtype="float64"), x)

    last, rows = both(f, framework.tensor(X))
    assert rows.tolist() == [5.0, 4.0, 6.0] and last.item() == 6.0


# -- gradients
CASES = {
    "cond, first": (lambda x: branch(x)[0], [X]),
    "cond, second": (lambda x: branch(x)[1], [-X]),
    "scan, state": (lambda x, w: running(x, w)[0], [np.outer([0.3, -0.2, 0.5], X), X[::-1].copy()]),
    "scan, rows": (lambda x, w: running(x, w)[1], [np.outer([0.3, -0.2, 0.5], X), X[::-1].copy()]),
    "bounded loop": (root, [np.array([2.0, 3.0, 5.0])]),
    "nested": (
        lambda x: scan(lambda s, r: (cond(r.sum() > 0.0, lambda: s * r, lambda: s + r), s), x[0], x)[0],
        [np.outer([0.3, -0.2, 0.5], [1.0, 2.0])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_orders_equal_central_differences_in_a_program(name):
    function, inputs = CASES[name]

    def values(*xs):
        """Value, gradient and second derivative along ones, eagerly or traced."""
        y = function(*xs)
        first = gradients([y], list(xs), [y * 0.0 + 1.0], create_graph=True)
        total = sum((g.sum() for g in first[1:]), first[0].sum())
        return [y, *first, *gradients([total], list(xs))] if total.requires_grad else [y, *first]

    check_gradients(function, inputs, order=2)  # eagerly
    leaves = [framework.tensor(x, requires_grad=True) for x in inputs]
    for eager, traced in zip(values(*leaves), program(values)(*leaves), strict=True):
        magnitude = max(1.0, np.abs(eager.numpy()).max())
        np.testing.assert_allclose(
            traced.numpy(), eager.numpy(), rtol=0, atol=64 * np.finfo(np.float64).eps * magnitude
        )


def test_gradients_reach_parameters_that_a_body_captures_and_train_them():
    weight = framework.tensor(np.array([0.1, 0.1], np.float32), requires_grad=True)
    weight.persistable = True

    @program
    def step(x, target):
        last, _ = scan(lambda s, row: (s * 0.5 + row * weight, ()), weight * 0.0, x)
        error = last - target
        loss = (error * error).sum()
        (g,) = gradients([loss], [weight])
        weight.set(weight - g * 0.1)
        return loss

    x, target = np.ones((4, 2), np.float32), np.array([1.0, -1.0], np.float32)
    losses = [step(x, target).item() for _ in range(30)]
    assert losses[-1] < 1e-6 * losses[0]


def test_tensors_of_one_value_keep_their_own_histories():
    def f(x):
        fixed = x.detach()
        y = cond(x.sum() > 0.0, lambda: x * fixed, lambda: x)
        return gradients([y], [x], [ops.full_like(x, value=1.0)])[0]

    x = framework.tensor(X, requires_grad=True)
    np.testing.assert_array_equal(both(f, x).numpy(), X)


def test_a_loop_without_a_bound_has_no_gradient_and_says_what_to_do():
    x = framework.tensor(1.0, requires_grad=True)
    with pytest.raises(GradientError, match=r"while_loop: it has no gradient without a bound.*give max_iterations"):
        program(lambda x: gradients([while_loop(lambda s: s < 9.0, lambda s: s * 2.0, x)], [x]))(x)


# -- what else sees blocks
def everything(x):
    one, _ = branch(x)
    last, rows = scan(lambda s, row: (s + row * 3.0, s), framework.tensor(1.0, dtype="float64"), x)
    return while_loop(lambda s: s.sum() < 100.0, lambda s: s * 2.0 + 1.0, one + last), rows


@pytest.mark.parametrize("passes", [(), framework.graph.passes.INFERENCE_PASSES])
def test_a_saved_program_has_its_blocks(tmp_path, passes):
    with no_grad():
        compiled = program(everything, pass_names=passes).program_for(X)
        expected = [t.numpy() for t in everything(framework.tensor(X))]
    save_program(compiled.program, tmp_path)
    for a, b in zip(Predictor(tmp_path).run([X]), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)
    assert str(load_program(tmp_path)[0]).count("block(") == str(compiled.program).count("block(") == 5


def test_a_damaged_file_of_blocks_is_refused():
    with no_grad():
        good = to_json(program(everything, pass_names=()).program_for(X).program)
    tensors = {}

    def changed(name, **values):
        data = copy.deepcopy(good)
        op = next(op for op in data["operations"] if op["op"] == name)
        op.update(values)
        return data

    deep = {"format": 1, "inputs": [], "states": [], "constants": [], "operations": [], "results": [], "updates": []}
    deep["shape_reads"] = []
    nested = deep
    for _ in range(40):
        nested = deep | {"operations": [{"op": "cond", "inputs": [], "outputs": [], "attrs": {}, "blocks": [nested]}]}
    loop = next(op for op in good["operations"] if op["op"] == "loop")
    for data in (
        nested,
        changed("loop", blocks=loop["blocks"][:1]),
        changed("loop", op="forever"),
        changed("loop", attrs=loop["attrs"] | {"carried": 7}),
        changed("loop", attrs=loop["attrs"] | {"carried": -1}),
        changed("loop", attrs=loop["attrs"] | {"max_iterations": -1}),
        changed("loop", blocks=[loop["blocks"][0], loop["blocks"][0]]),
    ):
        with pytest.raises((framework.errors.PaddockError, KeyError)):
            from_json(data, tensors)


def test_printing_and_explaining_show_blocks():
    f = program(lambda x: cond(x.sum() > 0.0, lambda: ops.exp(x) * 2.0 + 1.0, lambda: x))
    text = str(f.program_for(X).program)
    assert text.count("block(") == 2 and "cond(" in text
    assert "in cond %" in str(f.explain(X))  # the chain of its first branch


def test_inference_gives_blocks_the_constants_that_they_capture():
    weight = framework.tensor(np.eye(3) * 2.0)
    weight.persistable = True
    unused = framework.tensor(np.ones(3))
    unused.persistable = True

    def f(x):
        def step(s, row):
            s = cond(ops.sum(row) > 0.0, lambda: (s + row) @ (weight * 3.0), lambda: s + unused)
            return s, s

        return scan(step, x[0], x)

    x = np.array([[[1.0, 2.0, 3.0]], [[-1.0, -2.0, 0.5]]])
    with no_grad():
        run = program(f, pass_names=framework.graph.passes.INFERENCE_PASSES)
        for a, b in zip(run(x), f(framework.tensor(x)), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    (operation,) = [op for op in run.program_for(x).program.block if op.name == "scan"]
    assert len(operation.inputs) == 2  # the state and the rows
    yes, no = next(op for op in operation.blocks[0].block if op.name == "cond").blocks
    assert len(yes.constants) == len(no.constants) == 1 and [op.name for op in yes.block][-1] == "matmul"


def test_the_memory_of_blocks_is_reported():
    f = program(
        lambda x: scan(lambda s, row: (ops.exp(ops.sum(s * row) + s) @ framework.tensor(np.eye(3)), ()), x[0], x)
    )
    f(np.ones((2, 3, 3)))
    report = f.program_for(np.ones((2, 3, 3))).memory_report()
    assert report.block_bytes >= 9 * 8 and "for blocks" in str(report)


def test_a_profile_shows_what_blocks_run():
    f = program(lambda x: scan(lambda s, row: (ops.tanh(s + row), ()), framework.tensor(0.0, dtype="float64"), x)[0])
    f(X)
    with framework.Profile() as p:
        f(X)
    assert [c.operator for c in p.calls if c.operator != "scan"] and all(c.operator != "scan" for c in p.calls)
    assert len(p.calls) >= 3 and all(c.where for c in p.calls)


def test_python_functions_run_in_blocks_and_are_not_saved(tmp_path):
    f = program(lambda x: scan(lambda s, row: (s + py_func(np.negative, [row], lambda t: t), ()), x[0] * 0.0, x)[0])
    assert f(X).item() == -X.sum()
    with pytest.raises(NotSupportedError, match=r"py_func.negative"):
        save_program(f.program_for(X).program, tmp_path)


# -- what is refused
def test_what_a_body_must_not_do_is_refused():
    state = framework.tensor(X)
    state.persistable = True
    x = framework.tensor(X, requires_grad=True)
    with pytest.raises(TraceError, match=r"set: the body of cond, while_loop or scan cannot set"):
        program(lambda x: cond(x.sum() > 0.0, lambda: state.set(x) or x, lambda: x))(x)
    with pytest.raises(TraceError, match=r"backward: cannot run in the body.*use framework.gradients"):
        program(lambda x: cond(x.sum() > 0.0, lambda: (x * x).sum().backward() or x, lambda: x))(x)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: cond(x.sum() > 0.0, lambda: x, lambda: (x, x)), ShapeError, "return different structures"),
        (
            lambda x: cond(x.sum() > 0.0, lambda: x, lambda: x.sum()),
            ShapeError,
            r"cond: one branch gives float64 \[3\]",
        ),
        (lambda x: cond(x > 0.0, lambda: x, lambda: x), ShapeError, r"cond: pred is bool \[3\] but must be one bool"),
        (
            lambda x: while_loop(lambda s: s.sum() > 0.0, lambda s: (s, s), x),
            ShapeError,
            "returns 2 tensors for a state",
        ),
        (
            lambda x: while_loop(lambda s: s.sum() < 9.0, lambda s: ops.concat([s, s], axis=0), x),
            ShapeError,
            r"loop: value 0 enters as float64 \[3\] but leaves as float64 \[6\]; what is carried",
        ),
        (lambda x: scan(lambda s, r: (s, ()), x, ()), AttributeValueError, "scan: it needs at least one column"),
        (lambda x: scan(lambda s, r: (x, ()), x[0], x), ShapeError, r"scan: value 0 enters as .* leaves as"),
        (lambda x: scan(lambda s, r: ((s, s), ()), x[0], x), ShapeError, "returns a state of 2 tensors, not of 1"),
        (lambda x: scan(lambda s, r: (s, ()), (), (x, x[:2])), ShapeError, r"scan: column.* rows"),
        (lambda x: while_loop(lambda s: s, lambda s: s, x, max_iterations=-1), AttributeValueError, "at least 0"),
    ],
)
def test_bodies_that_do_not_fit_are_refused(function, error, message):
    with pytest.raises(error, match=message):
        program(function)(framework.tensor(X))


def test_an_error_of_a_size_seen_later_names_the_line():
    f = program(lambda x, y: cond(x.sum() > 0.0, lambda: x + 0.0, lambda: y + 0.0))
    f(X, X)
    with pytest.raises(ShapeError, match=r"cond: one branch gives float64 \[3\].*test_control.py:\d+"):
        f(X, np.ones(2))
