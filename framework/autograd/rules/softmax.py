"""Gradients of framework/native/ops/softmax.cc."""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.autograd.rule_table import joint_rule, rule
from framework.ops import internal

T = Any  # Tensor


def _row(t: T) -> T:
    """A number a row, made to broadcast over the row's classes."""
    return ops.expand_dims(t, axis=-1)


rule("softmax", x=lambda dy, y, axis: y * (dy - ops.sum(dy * y, axes=(axis,), keepdims=True)))
rule("log_softmax", x=lambda dy, y, axis: dy - ops.exp(y) * ops.sum(dy, axes=(axis,), keepdims=True))
rule(
    "cross_entropy",
    logits=lambda dloss, logits, labels, ignore_index, label_smoothing, from_end: internal.cross_entropy_grad(
        dloss, logits, labels, ignore_index, label_smoothing, from_end
    ),
)


def _cross_entropy_grad(
    ddlogits: T, dloss: T, logits: T, labels: T, ignore_index: int, label_smoothing: float, from_end: bool
) -> tuple[T, T]:
    """Gradients of dloss * (softmax(logits) - target) by dloss and logits; ignored rows have none."""
    one = ops.full_like(dloss, value=1.0)
    unit = internal.cross_entropy_grad(one, logits, labels, ignore_index, label_smoothing, from_end)
    p = ops.softmax(logits)
    weight = dloss * ops.cast(ops.not_equal(labels, ignore_index), dtype=logits.dtype)
    to_logits = p * (ddlogits - ops.sum(ddlogits * p, axes=(-1,), keepdims=True)) * _row(weight)
    return ops.sum(ddlogits * unit, axes=(-1,)), to_logits


joint_rule("cross_entropy_grad", "dloss logits", _cross_entropy_grad)
rule(
    "soft_cross_entropy",
    logits=lambda dloss, logits, targets: (
        _row(dloss) * (ops.softmax(logits) * ops.sum(targets, axes=(-1,), keepdims=True) - targets)
    ),
    targets=lambda dloss, logits: -_row(dloss) * ops.log_softmax(logits),
)
rule(
    "sigmoid_cross_entropy",
    logits=lambda dloss, logits, targets: dloss * (ops.sigmoid(logits) - targets),
    targets=lambda dloss, logits: -dloss * logits,
)
