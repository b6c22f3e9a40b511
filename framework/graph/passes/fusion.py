"""Passes that merge neighbouring operations into one with an epilogue, and fold batch norm into convolution."""

from __future__ import annotations

from collections.abc import Callable

from framework.graph.ir import Operation, Program, Value
from framework.ops import dispatch

EPILOGUE_OPERATORS = ("conv2d", "matmul")
ACTIVATIONS = ("relu", "relu6", "leaky_relu")


def freeze_states(program: Program) -> list[str]:
    """Turns states that the Program only reads into constants (a copy): for inference and export."""
    lines = []
    for value, tensor in list(program.states.items()):
        if value in program.updates:
            continue
        program.constants[value] = tensor.detach().array()
        del program.states[value]
        value.kind = "constant"
        lines.append(f"{value} {tensor.name or ''} frozen")
    return lines


class _Rewriter:
    """Emits operations into a new block while walking the old one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.users = program.users()
        self.kept = program.kept()
        self.ops: list[Operation] = []

    def emit(self, name: str, inputs: list[Value | None], where: str, **attrs: object) -> Value:
        """Adds an operation with one output before the one at hand."""
        info = dispatch.OPS[name]
        op = self.program.make_operation(info, inputs, info.attr_values(attrs), where)
        self.ops.append(op)
        return op.outputs[0]

    def single_use(self, value: Value) -> Operation | None:
        """The only reader of a value that does not leave the Program."""
        users = self.users.get(value, [])
        return users[0] if len(users) == 1 and value not in self.kept else None


def fold_batch_norm(program: Program) -> list[str]:
    """conv2d -> batch_norm_inference becomes one conv2d with scaled weights and a bias.

    weight' = weight * f and bias' = (bias - mean) * f + offset, with f = scale / sqrt(var + eps), per output channel.
    """
    lines = []
    rewriter = _Rewriter(program)
    producers = program.producers()
    absorbed: dict[Operation, Operation] = {}  # batch norm -> its convolution
    for op in program.block:
        if op.name != "batch_norm_inference" or op.inputs[0] not in producers:
            continue
        conv = producers[op.inputs[0]]
        if conv.name == "conv2d" and conv.attr("activation") == "none" and rewriter.single_use(conv.outputs[0]) is op:
            absorbed[op] = conv
    convolutions = set(absorbed.values())
    for op in program.block:
        if op in convolutions:
            continue
        if op in absorbed:
            _emit_folded(rewriter, absorbed[op], op)
            lines.append(f"{op} folded into {absorbed[op].name} {absorbed[op].outputs[0]}")
        else:
            rewriter.ops.append(op)
    program.block.ops = rewriter.ops
    return lines


def _emit_folded(rewriter: _Rewriter, conv: Operation, norm: Operation) -> None:
    _, scale, offset, mean, var = norm.inputs
    where = conv.where
    root = rewriter.emit("sqrt", [rewriter.emit("add", [var, _eps(rewriter, norm, var)], where)], where)
    factor = rewriter.emit("div", [scale, root], where)
    per_filter = rewriter.emit("reshape", [factor], where, shape=(-1, 1, 1, 1))
    weight = rewriter.emit("mul", [conv.inputs[1], per_filter], where)
    bias = conv.input("bias")
    centred = rewriter.emit("neg", [mean], where) if bias is None else rewriter.emit("sub", [bias, mean], where)
    new_bias = rewriter.emit("add", [rewriter.emit("mul", [centred, factor], where), offset], where)
    rewriter.ops.append(Operation(conv.info, [conv.inputs[0], weight, new_bias], norm.outputs, conv.attrs, where))


def _eps(rewriter: _Rewriter, norm: Operation, like: Value | None) -> Value:
    return rewriter.emit("full_like", [like], norm.where, value=norm.attr("eps"))


def fuse_bias(program: Program) -> list[str]:
    """conv2d or matmul without bias -> add of a vector becomes its bias."""
    return _fuse_follower(program, _as_bias)


def fuse_activation(program: Program) -> list[str]:
    """conv2d or matmul -> relu, relu6 or leaky_relu becomes its epilogue."""
    return _fuse_follower(program, _as_activation)


def _fuse_follower(program: Program, absorb: Callable[[Operation, Operation], Operation | None]) -> list[str]:
    """Where `absorb(op, follower)` gives a merged operation, it replaces both at the follower's place."""
    lines = []
    rewriter = _Rewriter(program)
    merged: dict[Operation, Operation] = {}  # follower -> merged operation
    gone: set[Operation] = set()
    for op in program.block:
        if op.name not in EPILOGUE_OPERATORS or op.attr("activation") != "none":
            continue
        follower = rewriter.single_use(op.outputs[0])
        new = absorb(op, follower) if follower is not None else None
        if follower is not None and new is not None:
            merged[follower] = new
            gone.add(op)
            lines.append(f"{follower} fused into {op.name} {op.outputs[0]}")
    program.block.ops = [merged.get(op, op) for op in program.block if op not in gone]
    return lines


def _as_bias(op: Operation, follower: Operation) -> Operation | None:
    if follower.name != "add" or op.input("bias") is not None:
        return None
    vector = follower.inputs[1] if follower.inputs[0] is op.outputs[0] else follower.inputs[0]
    # A static vector of the channels' length; anything else may broadcast differently.
    if vector is None or not vector.static or vector.shape != op.outputs[0].shape[-1:] or len(op.outputs[0].shape) < 2:
        return None
    return Operation(op.info, [*op.inputs[:2], vector], follower.outputs, op.attrs, op.where)


def _as_activation(op: Operation, follower: Operation) -> Operation | None:
    if follower.name not in ACTIVATIONS:
        return None
    slope = follower.attr("slope") if follower.name == "leaky_relu" else op.attr("slope")
    attrs = op.with_attrs(activation=follower.name, slope=slope)
    return Operation(op.info, op.inputs, follower.outputs, attrs, op.where)
