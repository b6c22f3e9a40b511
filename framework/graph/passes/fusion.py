"""Passes that merge neighbouring operations into one with an epilogue, and fold batch norm into convolution."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from framework import _core
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.products import activation_name
from framework.graph.passes.report import chain_of, graph_pass, name_of, place_of
from framework.graph.passes.rewriter import Readers, Rewriter
from framework.graph.reports import PassReport
from framework.ops import registry

ENDINGS = frozenset(name for info in registry.OPS.values() if info.has_epilogue for name in info.choices("activation"))


@graph_pass(before=("fold_constants",))
def freeze_states(program: Program, report: PassReport) -> None:
    """Turns states that the Program only reads into constants (a copy): for inference and export."""
    for value, tensor in list(program.states.items()):
        if value in program.updates:
            report.missed.append(f"{value} {tensor.name or ''} not frozen: the program updates it")
            continue
        program.constants[value] = _core.call(registry.OPS["copy"].native, (tensor.array(),), ())
        del program.states[value]
        value.kind = "constant"
        report.match(f"{value} {tensor.name or ''} frozen")


@graph_pass(requires=("freeze_states",), before=("fold_constants", "fuse_activation"))
def fold_batch_norm(program: Program, report: PassReport) -> None:
    """conv2d -> batch_norm_inference becomes one conv2d with scaled weights and a bias.

    weight' = weight * f and bias' = (bias - mean) * f + offset, with f = scale / sqrt(var + eps), per output channel.
    """
    rewriter = Rewriter(program)
    absorbed = _norms_after_convolutions(program, rewriter, report)  # batch norm -> its convolution
    convolutions = set(absorbed.values())
    for op in program.block:
        if op in convolutions:
            continue
        if op in absorbed:
            _emit_folded(rewriter, absorbed[op], op)
            report.match(f"{op} folded into {name_of(absorbed[op])}{place_of(op)}")
        else:
            rewriter.ops.append(op)
    program.block.ops = rewriter.ops


def _norms_after_convolutions(program: Program, readers: Readers, report: PassReport) -> dict[Operation, Operation]:
    absorbed: dict[Operation, Operation] = {}
    producers = program.producers()
    for op in program.block:
        conv = producers.get(op.inputs[0]) if op.name == "batch_norm_inference" and op.inputs[0] is not None else None
        if conv is None or conv.name != "conv2d":
            continue
        if conv.attr("activation") != "none":
            report.miss(chain_of(conv, op), f"the convolution applies {conv.attr('activation')} first")
        elif op.input("residual") is not None:
            report.miss(chain_of(conv, op), "it adds a residual")
        elif conv.input("residual") is not None:
            report.miss(chain_of(conv, op), "the convolution adds a residual first")
        elif readers.only(conv.outputs[0]) is not op:
            report.miss(chain_of(conv, op), readers.why_not_only(conv.outputs[0], op))
        else:
            absorbed[op] = conv
    return absorbed


def _emit_folded(rewriter: Rewriter, conv: Operation, norm: Operation) -> None:
    _, scale, offset, mean, var = norm.inputs[:5]
    where = conv.where
    root = rewriter.emit("sqrt", [rewriter.emit("add", [var, _eps(rewriter, norm, var)], where)], where)
    factor = rewriter.emit("div", [scale, root], where)
    per_filter = rewriter.emit("reshape", [factor], where, shape=(-1, 1, 1, 1))
    weight = rewriter.emit("mul", [conv.inputs[1], per_filter], where)
    weight.name = conv.inputs[1].name if conv.inputs[1] is not None else None
    bias = conv.input("bias")
    centred = rewriter.emit("neg", [mean], where) if bias is None else rewriter.emit("sub", [bias, mean], where)
    new_bias = rewriter.emit("add", [rewriter.emit("mul", [centred, factor], where), offset], where)
    attrs = conv.with_attrs(activation=norm.attr("activation"), slope=norm.attr("slope"))
    rewriter.ops.append(Operation(conv.info, [conv.inputs[0], weight, new_bias], norm.outputs, attrs, where))


def _eps(rewriter: Rewriter, norm: Operation, like: Value | None) -> Value:
    return rewriter.emit("full_like", [like], norm.where, value=norm.attr("eps"))


@graph_pass(before=("fuse_activation",))
def fuse_bias(program: Program, report: PassReport) -> None:
    """conv2d or matmul without bias -> add of a vector becomes its bias."""
    _fuse_follower(program, report, _is_add, _as_bias)


@graph_pass(after=("fuse_bias",), before=("fuse_activation",))
def fuse_residual(program: Program, report: PassReport) -> None:
    """conv2d or matmul -> add of a tensor of the result's shape becomes its residual.

    Both must vary from call to call or neither: then their shapes stay equal, unless two inputs that were alike when
    traced broadcast against each other later, which the merged operation refuses. The merged operation stands where
    the addition stood, so that the other summand is there by then.
    """
    _fuse_follower(program, report, _is_add, _as_residual)


@graph_pass(after=("fuse_residual", "fuse_activation"))
def fuse_last_residual(program: Program, report: PassReport) -> None:
    """conv2d with an activation -> add of a tensor of the result's shape becomes a residual after the activation.

    The conditions are those of fuse_residual.
    """
    _fuse_follower(program, report, _is_add, _as_last_residual, lambda op: op.attr("activation") != "none")


@graph_pass(after=("fuse_activation", "fuse_last_residual"))
def fuse_separable(program: Program, report: PassReport) -> None:
    """depthwise conv2d -> 1 x 1 conv2d of its result become separable_conv2d: for inference."""
    readers = Readers(program)
    merged: dict[Operation, Operation] = {}  # 1 x 1 convolution -> merged operation
    gone: set[Operation] = set()
    for depth in program.block:
        if depth.name != "conv2d" or not _is_depthwise(depth):
            continue
        y = depth.outputs[0]
        follower = next((f for f in readers.of(y) if f.name == "conv2d" and _is_pointwise(f)), None)
        if follower is None:
            continue
        if depth.input("residual") is not None:
            report.miss(chain_of(depth, follower), "the depthwise convolution adds a residual")
        elif readers.only(y) is not follower or follower.input("residual") is y:
            report.miss(chain_of(depth, follower), readers.why_not_only(y, follower))
        else:
            merged[follower] = _separable(depth, follower)
            gone.add(depth)
            report.match(f"{chain_of(depth, follower)} fused{place_of(follower)}")
    program.block.ops = [merged.get(op, op) for op in program.block if op not in gone]


def _is_depthwise(conv: Operation) -> bool:
    weight = conv.inputs[1]
    return weight is not None and weight.static and weight.shape[3] == 1 and conv.attr("groups") == weight.shape[0] > 1


def _is_pointwise(conv: Operation) -> bool:
    weight = conv.inputs[1]
    plain = {"stride": 1, "padding": 0, "groups": 1}
    return (
        weight is not None
        and weight.static
        and weight.shape[1:3] == (1, 1)
        and all(set(np.atleast_1d(conv.attr(name))) == {value} for name, value in plain.items())
    )


def _separable(depth: Operation, pointwise: Operation) -> Operation:
    info = registry.OPS["separable_conv2d"]
    attrs = {name: depth.attr(name) for name in ("stride", "padding", "dilation", "groups")}
    attrs |= {name: pointwise.attr(name) for name in ("activation", "slope", "residual_last")}
    attrs |= {"depth_activation": depth.attr("activation"), "depth_slope": depth.attr("slope")}
    x, depth_weight = depth.inputs[:2]
    rest = [depth.input("bias"), pointwise.input("bias"), pointwise.input("residual")]
    inputs = [x, depth_weight, pointwise.inputs[1], *rest]
    return Operation(info, inputs, pointwise.outputs, info.attr_values(attrs), depth.where)


@graph_pass()
def fuse_activation(program: Program, report: PassReport) -> None:
    """conv2d or matmul -> an activation becomes its epilogue: relu, relu6, leaky_relu; matmul knows more."""
    _fuse_follower(program, report, _is_activation, _as_activation)


def finish_convolutions(program: Program, names: Collection[str] = ("conv2d",)) -> None:
    """What follows a conv2d becomes its bias, residual and activation, as in the passes; other operators stay.

    Of products, where `names` has "matmul" too, only what a convolution could end in.
    """
    report = PassReport("finish_convolutions")

    def plain(op: Operation) -> bool:
        return op.name in names

    def active(op: Operation) -> bool:
        return plain(op) and op.attr("activation") != "none"

    def ends(op: Operation) -> bool:
        return is_ending(op, registry.OPS["conv2d"])

    _fuse_follower(program, report, _is_add, _as_bias, plain)
    _fuse_follower(program, report, _is_add, _as_residual, plain)
    _fuse_follower(program, report, ends, _as_activation, plain)
    _fuse_follower(program, report, _is_add, _as_last_residual, active)


def is_ending(op: Operation, info: registry.OpInfo) -> bool:
    """Whether operator `info` may end in what this operation computes."""
    return not op.info.derivative_of and activation_name(op) in info.choices("activation") and not _falls(op)


def _falls(op: Operation) -> bool:
    """Whether it is a leaky ReLU that turns signs, or gives NaN: no operator ends in one."""
    return op.name == "leaky_relu" and not op.attr("slope") >= 0


def _is_add(op: Operation) -> bool:
    return op.name == "add"


def _is_activation(op: Operation) -> bool:
    """Whether it is what some operator may end in."""
    return not op.info.derivative_of and activation_name(op) in ENDINGS


def _fuse_follower(
    program: Program,
    report: PassReport,
    follows: Callable[[Operation], bool],
    absorb: Callable[[Operation, Operation], Operation | str],
    wanted: Callable[[Operation], bool] = lambda op: True,
) -> None:
    """Where `absorb(op, follower)` gives a merged operation, it replaces both at the follower's place.

    It gives a reason where the two do not fit. A follower is an operation with `follows` that reads op's result; an op
    that is not `wanted` is left alone.
    """
    readers = Readers(program)
    merged: dict[Operation, Operation] = {}  # follower -> merged operation
    gone: set[Operation] = set()
    for op in program.block:
        if not op.info.has_epilogue or not wanted(op):
            continue
        y = op.outputs[0]
        follower = next((f for f in readers.of(y) if follows(f)), None)
        if follower is None:
            continue
        if follower in merged:
            new: Operation | str = f"the addition went into {name_of(merged[follower])} already"
        elif readers.only(y) is not follower:
            new = readers.why_not_only(y, follower)
        else:
            new = absorb(op, follower)
        if isinstance(new, str):
            report.miss(chain_of(op, follower), new)
            continue
        merged[follower] = new
        gone.add(op)
        report.match(f"{follower} fused into {name_of(op)}{place_of(follower)}")
    program.block.ops = [merged.get(op, op) for op in program.block if op not in gone]


def _ends_in(op: Operation) -> str:
    return f"it already ends in {op.attr('activation')}"


def _as_bias(op: Operation, follower: Operation) -> Operation | str:
    if op.attr("activation") != "none":
        return _ends_in(op)
    if op.input("bias") is not None:
        return "it has a bias already"
    y = op.outputs[0]
    vector = follower.inputs[1] if follower.inputs[0] is y else follower.inputs[0]
    weight = op.inputs[1]
    if weight is None or not weight.static:
        return f"the channels of {y} may vary"
    if vector is None or not vector.static or vector.shape != y.shape[-1:] or len(y.shape) < 2:
        # Anything but a static vector of the channels' length may broadcast differently.
        return f"{vector} is no parameter of shape [{y.shape[-1]}]"
    return Operation(op.info, [*op.inputs[:2], vector, *op.inputs[3:]], follower.outputs, op.attrs, op.where)


def _as_residual(op: Operation, follower: Operation) -> Operation | str:
    return _ends_in(op) if op.attr("activation") != "none" else _with_residual(op, follower, op.attrs)


def _as_last_residual(op: Operation, follower: Operation) -> Operation | str:
    if not any(a["name"] == "residual_last" for a in op.info.attrs):
        return f"{_ends_in(op)}, and {op.name} adds no residual after"
    return _with_residual(op, follower, op.with_attrs(residual_last=True))


def _with_residual(op: Operation, follower: Operation, attrs: tuple[Any, ...]) -> Operation | str:
    if op.input("residual") is not None:
        return "it has a residual already"
    y = op.outputs[0]
    other = follower.inputs[1] if follower.inputs[0] is y else follower.inputs[0]
    if other is None or not y.program.equal_shapes(y, other) or (other.dtype, other.static) != (y.dtype, y.static):
        return f"{other} is not of {y.type_text} at all times"
    y.program.assume_equal_shapes(y, other)
    return Operation(op.info, [*op.inputs[:2], op.input("bias"), other], follower.outputs, attrs, op.where)


def _as_activation(op: Operation, follower: Operation) -> Operation | str:
    if op.attr("activation") != "none":
        return _ends_in(op)
    if activation_name(follower) not in op.info.choices("activation"):
        return f"{op.name} ends in {', '.join(op.info.choices('activation')[1:])} only"
    if _falls(follower):
        return "its slope is negative"
    slope = follower.attr("slope") if follower.name == "leaky_relu" else op.attr("slope")
    attrs = op.with_attrs(activation=activation_name(follower), slope=slope)
    return Operation(op.info, op.inputs, follower.outputs, attrs, op.where)
