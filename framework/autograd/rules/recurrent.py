"""Gradients of framework/native/ops/recurrent.cc."""

from framework.autograd.rule_table import first_order_only, joint_rule
from framework.ops import internal

joint_rule(
    "lstm",
    "x_gates weight_h h0 c0",
    lambda y, gates, cells, weight_h, offsets, h0, c0, direction, dy=None, dh=None, dc=None, dgates=None, dcells=None: (
        internal.lstm_grad(y, gates, cells, weight_h, offsets, h0, c0, dy, dh, dc, dgates, dcells, direction=direction)
    ),
)


def _gru(y, gates, weight_h, offsets, h0, direction, dy=None, dh=None, dgates=None):  # type: ignore[no-untyped-def]
    """Gradients by x_gates, weight_h, bias_h and h0."""
    return internal.gru_grad(y, gates, weight_h, offsets, h0, dy, dh, dgates, direction=direction)


joint_rule("gru", "x_gates weight_h bias_h h0", _gru)
first_order_only(
    "second order back through time is not supported; write the cell with matmul, sigmoid and tanh for it",
    "lstm_grad",
    "gru_grad",
)
