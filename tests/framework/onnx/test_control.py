"""If, Loop and Scan are blocks of the Program when read, and are written from them."""

import logging

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import framework
from framework import cond, no_grad, ops, program, scan, while_loop
from framework.graph.compiled import CompiledProgram
from framework.graph.files import load_program, save_program
from framework.onnx import EXPORT_PASSES, Session, load, open_model
from framework.onnx.export import to_model

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.array([[0.5, -1.0], [2.0, 0.25], [-0.5, 1.0]], np.float32)


def port(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(name, inputs, outputs, *nodes, **constants):
    given = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    return helper.make_graph(list(nodes), name, inputs, outputs, given)


def model(main):
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=outputs[0], **attributes)


def an_if():
    """y = 2x where its sum is above 0, else x^2; x comes from around the bodies."""
    yes = graph("yes", [], [port("a")], node("Add", ["x", "x"], ["a"]))
    no = graph("no", [], [port("b")], node("Mul", ["x", "x"], ["b"]))
    return model(
        graph(
            "if",
            [port("x", ["n", 2])],
            [port("y")],
            node("ReduceSum", ["x"], ["s"], keepdims=0),
            node("Greater", ["s", "zero"], ["c"]),
            node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
            zero=np.float32(0),
        )
    )


def a_counted_loop():
    """Four steps of s = s * 0.5 + x + i, each gathered."""
    body = graph(
        "body",
        [port("i", [], INT), port("go", [], BOOL), port("s")],
        [port("on", None, BOOL), port("t"), port("seen")],
        node("Identity", ["go"], ["on"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["s", "half"], ["h"]),
        node("Add", ["h", "x"], ["hx"]),
        node("Add", ["hx", "f"], ["t"]),
        node("Neg", ["t"], ["seen"]),
        half=np.float32(0.5),
    )
    return model(
        graph(
            "counted",
            [port("x", ["n", 2])],
            [port("last"), port("all")],
            node("Loop", ["four", "yes", "x"], ["last", "all"], body=body),
            four=np.int64(4),
            yes=np.array(True),
        )
    )


def a_while_loop():
    """Doubles x until its sum reaches the limit, or so many steps are made."""
    body = graph(
        "body",
        [port("i", [], INT), port("go", [], BOOL), port("s")],
        [port("on", None, BOOL), port("t")],
        node("Add", ["s", "s"], ["t"]),
        node("ReduceSum", ["t"], ["sum"], keepdims=0),
        node("Less", ["sum", "limit"], ["on"]),
        limit=np.float32(50),
    )
    return model(
        graph(
            "while",
            [port("x", ["n", 2]), port("steps", [], INT)],
            [port("y")],
            node("Loop", ["steps", "yes", "x"], ["y"], body=body),
            yes=np.array(True),
        )
    )


def a_scan():
    """Running sums over the columns of x, from the last one, gathered along axis 1."""
    body = graph(
        "body",
        [port("s"), port("row")],
        [port("t"), port("out")],
        node("Add", ["s", "row"], ["t"]),
        node("Mul", ["t", "two"], ["out"]),
        two=np.float32(2),
    )
    attributes = {"scan_input_axes": [1], "scan_input_directions": [1], "scan_output_axes": [1]}
    return model(
        graph(
            "scan",
            [port("x", ["n", 2])],
            [port("last"), port("all")],
            node("ReduceSum", ["x", "one"], ["total"], keepdims=0),
            node("Sub", ["total", "total"], ["start"]),
            node("Scan", ["start", "x"], ["last", "all"], body=body, num_scan_inputs=1, **attributes),
            one=np.array([1], np.int64),
        )
    )


def expectation(made, feeds):
    """What ONNX's own evaluator gives, or NumPy: the evaluator lacks backward scans, and joins what a Loop gathers."""
    x = feeds[0]
    if made.graph.name == "scan":
        sums = np.cumsum(x[:, ::-1], axis=1)
        return sums[:, -1], 2 * sums
    if made.graph.name == "counted":
        states = [x]
        for i in range(4):
            states.append(states[-1] * 0.5 + x + i)
        return states[-1], -np.stack(states[1:])
    return ReferenceEvaluator(made).run(None, dict(zip([p.name for p in made.graph.input], feeds, strict=True)))


def operators(made):
    return [op.name for op in made.operations()]


@pytest.mark.parametrize(
    ("make", "extra", "operator"),
    [
        (an_if, [], "cond"),
        (a_counted_loop, [], "scan"),
        (a_while_loop, [3], "loop"),
        (a_while_loop, [9], "loop"),
        (a_scan, [], "scan"),
    ],
    ids=["If", "Loop counted", "Loop bounded", "Loop until", "Scan"],
)
def test_a_file_s_control_flow_is_a_block_that_serves_every_size(make, extra, operator, tmp_path):
    made = make()
    shapes = {"x": X.shape} | ({"steps": ()} if extra else {})
    read = load(made, shapes)
    assert operator in operators(read) and not read.shape_reads
    save_program(read, tmp_path)
    runners = [CompiledProgram(read), CompiledProgram(load_program(tmp_path)[0])]
    for x in (X, -X, np.concatenate([X, X]), X[:1]):
        feeds = [x, *(np.array(e, np.int64) for e in extra)]
        expected = expectation(made, feeds)
        for run in runners:
            for g, e in zip(run.run([framework.from_numpy(f) for f in feeds]), expected, strict=True):
                np.testing.assert_allclose(g.numpy(), e, rtol=1e-6)


def test_a_body_whose_values_grow_is_unrolled_and_said_so(caplog):
    body = graph(
        "body",
        [port("i", [], INT), port("go", [], BOOL), port("s")],
        [port("on", None, BOOL), port("t")],
        node("Identity", ["go"], ["on"]),
        node("Concat", ["s", "x"], ["t"], axis=0),
    )
    loop = node("Loop", ["two", "", "x"], ["y"], body=body)
    made = model(graph("grows", [port("x", ["n", 2])], [port("y")], loop, two=np.int64(2)))
    with caplog.at_level(logging.INFO, logger="paddock"):
        read = load(made, {"x": X.shape})
    assert "scan" not in operators(read)
    assert "Loop 'y' is no block of the Program" in caplog.text
    (y,) = CompiledProgram(read).run([framework.from_numpy(X)])
    np.testing.assert_array_equal(y.numpy(), np.concatenate([X] * 3))


def test_a_loop_that_gathers_as_often_as_the_data_says_runs_node_by_node():
    made = a_counted_loop()
    made.graph.input.append(port("four", [], INT))
    del made.graph.initializer[0]
    session = Session(open_model(made))
    _, rows = session.run([X, np.int64(2)])
    assert session.is_eager and rows.shape == (2, 3, 2)


def test_an_endless_loop_of_a_file_ends_with_an_error():
    body = graph(
        "body",
        [port("i", [], INT), port("go", [], BOOL), port("s")],
        [port("on", None, BOOL), port("t")],
        node("Less", ["i", "many"], ["on"]),
        node("Add", ["s", "s"], ["t"]),
        many=np.int64(10**9),
    )
    made = model(graph("endless", [port("x", [2])], [port("y")], node("Loop", ["", "", "x"], ["y"], body=body)))
    with framework.limits.allow(unrolled_steps=5):
        read = CompiledProgram(load(made))
    with pytest.raises(framework.errors.NotSupportedError, match="loop: it does not end after 5 steps"):
        read.run([framework.tensor([1.0, 2.0])])


def everything(x, reverse):
    """All three, one inside of another, with captured values."""
    bias = x[0] * 2.0
    one = cond(ops.sum(x) > 0.0, lambda: x + bias, lambda: x * 0.5)
    two = while_loop(lambda s, n: ops.max(s) < 20.0, lambda s, n: (s * 2.0 + bias, n + 1.0), (one, x[0]))

    def step(s, row):
        s = cond(ops.sum(row) > 0.0, lambda: s + row * bias, lambda: s)
        return s, (row, s * 3.0)

    last, rows = scan(step, bias, x, reverse=reverse)
    return (*two, last, *rows)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("x", [X, -X])
def test_blocks_are_written_as_standard_operators_and_read_again(x, reverse):
    with no_grad():
        made = to_model(program(lambda x: everything(x, reverse), pass_names=EXPORT_PASSES).program_for(X).program)
    onnx.checker.check_model(made, full_check=True)
    assert {"If", "Loop", "Scan"} <= {n.op_type for n in made.graph.node}
    again = load(made, {"input0": X.shape})
    assert {"cond", "loop", "scan"} <= set(operators(again))
    results = [[t.numpy() for t in CompiledProgram(again).run([framework.from_numpy(x)])]]
    if not reverse:  # which the evaluator lacks
        results.append(ReferenceEvaluator(made).run(None, {"input0": x}))
    for got in results:
        for g, e in zip(got, everything(framework.from_numpy(x), reverse), strict=True):
            np.testing.assert_allclose(g, e.numpy(), rtol=1e-6)


def test_a_scan_that_gathers_nothing_is_written():
    def f(x):
        return scan(lambda s, row: (s * 0.5 + row, ()), x[0], x)[0]

    with no_grad():
        made = to_model(program(f, pass_names=EXPORT_PASSES).program_for(X).program)
    onnx.checker.check_model(made, full_check=True)
    (got,) = CompiledProgram(load(made, {"input0": X.shape})).run([framework.from_numpy(X)])
    for found in (got.numpy(), ReferenceEvaluator(made).run(None, {"input0": X})[0]):
        np.testing.assert_allclose(found, f(framework.from_numpy(X)).numpy(), rtol=1e-6)
