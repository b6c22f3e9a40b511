"""A pass that moves transpositions towards the results until they meet their inverses, so that images change their
layout once at the border and not at every convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import graph_pass, name_of, place_of
from framework.graph.passes.rewriter import Rewriter
from framework.graph.reports import PassReport

Perm = tuple[int, ...]


@graph_pass(before=("fold_constants", "drop_dead_code", "fuse_bias", "fuse_activation"))
def sink_transposes(program: Program, report: PassReport) -> None:
    """op(transpose(x)) becomes transpose(op(x)) where op allows it; two transpositions become one, or none."""
    _Sinker(program, report).run()


class _Sinker:
    """Walks a Program once. `sunk[v] = (x, perm)` says that v, not computed so far, is transpose(x, perm)."""

    def __init__(self, program: Program, report: PassReport) -> None:
        self.program = program
        self.report = report
        self.rewriter = Rewriter(program)
        self.sunk: dict[Value, tuple[Value, Perm]] = {}
        self.made: dict[Value, Value] = {}  # sunk values that somebody needs after all

    def run(self) -> None:
        for op in self.program.block:
            if op.name == "transpose":
                self._compose(op)
            elif not any(v in self.sunk for v in op.inputs if v is not None) or not self._push(op):
                op.inputs = [None if v is None else self._plain(v) for v in op.inputs]
                self.rewriter.ops.append(op)
        self.program.results = [self._plain(v) for v in self.program.results]
        self.program.updates = {s: self._plain(v) for s, v in self.program.updates.items()}
        self.program.block.ops = self.rewriter.ops

    def _compose(self, op: Operation) -> None:
        """Notes a transposition; after another one they are one."""
        x = op.inputs[0]
        assert x is not None
        rank = len(x.shape)
        perm = tuple(int(p) % rank for p in op.attr("perm")) or tuple(reversed(range(rank)))
        if x in self.sunk:
            x, before = self.sunk[x]
            perm = tuple(before[p] for p in perm)
            self.report.match(f"{name_of(op)}{place_of(op)} met another transposition")
        self.sunk[op.outputs[0]] = (x, perm)

    def _plain(self, v: Value) -> Value:
        """The value itself, computed now if it is a transposition that nothing has swallowed."""
        if v not in self.sunk:
            return v
        x, perm = self.sunk[v]
        if perm == tuple(range(len(perm))):
            return x
        if v not in self.made:
            self.made[v] = self.rewriter.emit("transpose", [x], "", perm=list(perm))
        return self.made[v]

    # -- operators that let a transposition through
    def _push(self, op: Operation) -> bool:
        if op.info.is_elementwise:
            return self._elementwise(op)
        rule = _along if op.info.along else _RULES.get(op.name)
        if rule is None:
            return False
        found = [self.sunk.get(v) if v is not None else None for v in op.inputs]
        if any(f is None or f[1] != found[0][1] for f in found) or found[0] is None:  # type: ignore[index]
            return False
        perm = found[0][1]
        changed = rule(op, perm)
        if changed is None:
            return False
        attrs, out_perm = changed
        self._emit(op, [f[0] for f in found if f is not None], op.with_attrs(**attrs), out_perm)
        return True

    def _elementwise(self, op: Operation) -> bool:
        rank = len(op.outputs[0].shape)
        perms = [self.sunk[v][1] for v in op.inputs if v in self.sunk and len(v.shape) == rank]
        if not perms:
            return False
        perm = perms[0]
        if not all(v is None or self._fits(v, perm) for v in op.inputs):
            return False
        self._emit(op, [None if v is None else self._aligned(v, perm, op.where) for v in op.inputs], op.attrs, perm)
        return True

    def _fits(self, v: Value, perm: Perm) -> bool:
        return (v in self.sunk and self.sunk[v][1] == perm) or len(v.shape) == 0 or (v.static and v not in self.sunk)

    def _aligned(self, v: Value, perm: Perm, where: str) -> Value:
        """`v` as it meets the untransposed inputs; a static one is rearranged, which constant folding then does."""
        if v in self.sunk and self.sunk[v][1] == perm:
            return self.sunk[v][0]
        if len(v.shape) == 0:
            return self._plain(v)
        full = v
        for _ in range(len(perm) - len(v.shape)):
            full = self.rewriter.emit("expand_dims", [full], where, axis=0)
        inverse = [perm.index(i) for i in range(len(perm))]
        return self.rewriter.emit("transpose", [full], where, perm=inverse)

    def _emit(self, op: Operation, inputs: Sequence[Value | None], attrs: tuple[Any, ...], perm: Perm) -> None:
        new = self.program.make_operation(op.info, inputs, attrs, op.where)
        self.rewriter.ops.append(new)
        for old, out in zip(op.outputs, new.outputs, strict=True):
            self.sunk[old] = (out, perm)
        self.report.match(f"{name_of(op)}{place_of(op)} works before its transposition")


Change = tuple[dict[str, Any], Perm] | None


def _along(op: Operation, perm: Perm) -> Change:
    """Operators that work along an axis, or some; they may drop those (keepdims)."""
    name, rank = op.info.along, len(perm)
    given, drops = op.attr(name), any(a["name"] == "keepdims" for a in op.info.attrs) and not op.attr("keepdims")
    axes = [given % rank] if isinstance(given, int) else [a % rank for a in given] or list(range(rank))
    moved = {name: perm[axes[0]] if isinstance(given, int) else sorted(perm[a] for a in axes)}
    if not drops:
        return moved, perm
    kept = [perm[i] for i in range(rank) if i not in axes]
    return moved, tuple(sorted(kept).index(p) for p in kept)


def _padded(op: Operation, perm: Perm) -> Change:
    pads, moved = op.attr("pads"), [0] * (2 * len(perm))
    for i, p in enumerate(perm):
        moved[2 * p], moved[2 * p + 1] = pads[2 * i], pads[2 * i + 1]
    return {"pads": moved}, perm


def _sliced(op: Operation, perm: Perm) -> Change:
    axes = list(op.attr("axes")) or list(range(len(op.attr("starts"))))
    return {"axes": [perm[a % len(perm)] for a in axes]}, perm


def _each(op: Operation, perm: Perm) -> Change:
    """Operators of one input that work element by element."""
    return {}, perm


_RULES: dict[str, Callable[[Operation, Perm], Change]] = {
    "pad": _padded,
    "slice": _sliced,
    "quantize_linear": _each,
    "dequantize_linear": _each,
}
