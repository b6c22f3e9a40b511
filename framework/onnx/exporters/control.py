"""Control flow as If, Loop and Scan, whose graphs read what they capture by its name around them."""

from __future__ import annotations

from collections.abc import Sequence

from framework.graph.ir import Operation, Value
from framework.onnx.writer import Writer, exports

_ENDLESS = 2**62  # max_iterations of a loop without a bound


@exports("cond")
def _cond(w: Writer, op: Operation) -> None:
    pred, *names = [w.get(v) for v in op.inputs]
    yes, no = [w.graph(block, dict(zip(block.inputs, names, strict=True)), []) for block in op.blocks]
    _set(w, op.outputs, w.nodes_out("If", [pred], len(op.outputs), then_branch=yes, else_branch=no))


@exports("loop")
def _loop(w: Writer, op: Operation) -> None:
    """The condition is computed before the loop, and by the body for the next step."""
    test, body = op.blocks
    names, carried, most = [w.get(v) for v in op.inputs], op.attr("carried"), op.attr("max_iterations")
    (first,) = w.inline(test, names)
    parameters = [Value(body, "temporary", (), "int64"), Value(body, "temporary", (), "bool"), *body.inputs[:carried]]
    captured = dict(zip(body.inputs[carried:], names[carried:], strict=True))

    def with_condition(inner: Writer, state: Sequence[str]) -> list[str]:
        return [*inner.inline(test, [*state, *names[carried:]]), *state]

    graph = w.graph(body, captured, parameters, with_condition, test.results)
    trips = "" if most >= _ENDLESS else w.ints(most)
    _set(w, op.outputs, w.nodes_out("Loop", [trips, first, *names[:carried]], carried, body=graph))


@exports("scan")
def _scan(w: Writer, op: Operation) -> None:
    names, block = [w.get(v) for v in op.inputs], op.blocks[0]
    carried, columns, way = op.attr("carried"), op.attr("columns"), int(op.attr("reverse"))
    own = carried + columns
    graph = w.graph(block, dict(zip(block.inputs[own:], names[own:], strict=True)), block.inputs[:own])
    outputs = w.nodes_out(
        "Scan",
        names[:own],
        len(op.outputs),
        body=graph,
        num_scan_inputs=columns,
        scan_input_directions=[way] * columns,
        scan_output_directions=[way] * (len(op.outputs) - carried),
    )
    _set(w, op.outputs, outputs)


def _set(w: Writer, values: Sequence[Value], names: Sequence[str]) -> None:
    for v, name in zip(values, names, strict=True):
        w.set(v, name)
