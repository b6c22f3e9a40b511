"""What the tape keeps of a tensor, and where the tensor's gradient goes."""

from __future__ import annotations

from typing import Any

from framework.context import context
from framework.tensors import Tensor


def keep(x: Any) -> Any:
    """A tensor with the data or traced value that it has now: `Tensor.set` gives it others. None stays None."""
    return None if x is None else (x, x._data, _value_now(x))


def kept(saved: Any) -> Any:
    """A tensor as `keep` found it: itself, or its earlier value with the same place for gradients."""
    if saved is None:
        return None
    x, data, value = saved
    if x._data is data and (value is None or _value_now(x) is value):
        return x
    earlier = Tensor(data, requires_grad=x.requires_grad)
    earlier._value = value
    earlier.node = edge_of(x)
    return earlier


def _value_now(x: Tensor) -> Any:
    """What it stands for in the Program that is traced; only the trace knows that of a state."""
    trace = context.trace
    return x._value if trace is None else trace.now(x)


def edge_of(x: Any) -> Any:
    """Where a tensor's gradient goes: the node and number of an output, the leaf itself, or None."""
    return None if x is None or not x.requires_grad else place_of(x)


def place_of(x: Tensor) -> Any:
    """Where the gradient of a tensor that requires one goes."""
    return x if x.node is None else x.node
