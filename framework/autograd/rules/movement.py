"""Gradients of framework/native/ops/movement.cc."""

from framework import ops
from framework.autograd.rule_table import no_gradient, rule
from framework.ops import internal


def inverse(perm: tuple[int, ...], rank: int) -> list[int]:
    """The permutation that undoes `perm`; an empty one reverses and undoes itself."""
    order = [p % rank for p in perm]
    return [order.index(axis) for axis in range(len(order))]


def _negated(shifts: tuple[int, ...]) -> list[int]:
    return [-s for s in shifts]


rule("transpose", x=lambda dy, perm: ops.transpose(dy, perm=inverse(perm, max(1, dy.ndim))))
rule("concat", xs=lambda dy, xs, axis: ops.split_like(dy, xs, axis=axis))
rule("split", x=lambda dys, axis: ops.concat(dys, axis=axis))
rule("split_like", x=lambda dys, axis: ops.concat(dys, axis=axis))
rule("slice", x=lambda dy, x, starts, ends, axes, steps: internal.slice_grad(dy, x, starts, ends, axes, steps))
rule("slice_grad", dy=lambda ddx, starts, ends, axes, steps: ops.slice(ddx, starts, ends, axes, steps))
rule("pad", x=lambda dy, x, pads, mode: internal.pad_grad(dy, x, pads=pads, mode=mode))
rule("pad_grad", dy=lambda ddx, pads, mode: ops.pad(ddx, pads=pads, mode=mode))
rule("flip", x=lambda dy, axes: ops.flip(dy, axes=axes))
rule("roll", x=lambda dy, shifts, axes: ops.roll(dy, shifts=_negated(shifts), axes=axes))
rule("triu", x=lambda dy, k: ops.triu(dy, k=k))
rule("tril", x=lambda dy, k: ops.tril(dy, k=k))
rule("tile", x=lambda dy, x, repeats: internal.tile_grad(dy, x, repeats=repeats))
rule("tile_grad", dy=lambda ddx, repeats: ops.tile(ddx, repeats=repeats))
no_gradient("its value does not depend on its inputs", "arange")
