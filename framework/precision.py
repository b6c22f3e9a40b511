"""Mixed precision: which operators take half types under `autocast`, and where float32 stays.

Weights are float32 and are read as they are: on a CPU the arithmetic is float32 anyway, so that copies of them in half
would cost memory and accuracy for nothing. What is half is what lies between layers: results of products,
convolutions, attention and normalisations, and their gradients; they are what a training step keeps in memory. An
operator computes half inputs in float32 and rounds its results once, to nearest even. See docs/explanation/design.md.

What an operator does is a fact of its block, `OpInfo.precision`. "half": the inputs that its block calls narrow are
cast to half, unless they are parameters. "follows": half where all inputs are half, float32 where they differ; it moves
values, or gives values that are no larger than what goes in. "float32", the default, also for operators from outside:
softmax and losses, sums and means, exponentials, logarithms and powers, recurrent layers, optimizers. So do operators
with blocks, whose states keep their type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from framework.context import context
from framework.errors import AttributeValueError
from framework.ops import dispatch

if TYPE_CHECKING:
    from framework.ops.registry import OpInfo
    from framework.tensors import Tensor

HALF_TYPES = ("float16", "bfloat16")
PRECISIONS = ("float32", *HALF_TYPES)

Cast = Callable[["OpInfo", Sequence[Any]], Sequence[Any]]


def current() -> str:
    """The type that `autocast` gives what lies between layers here: float32 outside of it."""
    return context.precision


@contextlib.contextmanager
def autocast(dtype: str) -> Iterator[None]:
    """Inside, layers keep what lies between them in `dtype`; eagerly and in Programs, which are traced again inside.

    Products, convolutions, attention and normalisations take and give `dtype`; activations, sums of two such values and
    movements follow; losses, softmax, reductions and optimizers stay float32. Parameters, and so their gradients, are
    float32. Gradients are those of the casts that this puts in: call `backward()` inside or outside, it makes no
    difference. Float16 reaches 65504 and no further, so its gradients want a `LossScaler`.

    Args:
        dtype: "bfloat16", "float16", or "float32" to switch it off for a block.

    Raises:
        AttributeValueError: there is no such choice.

    References:
        Micikevicius et al. 2018, Mixed precision training, arXiv:1710.03740.
    """
    if dtype not in PRECISIONS:
        raise AttributeValueError(f"autocast: dtype is '{dtype}'; takes {', '.join(map(repr, PRECISIONS))}")
    dispatch.casts_begun = True
    state = context
    before = state.precision, state.cast
    state.precision, state.cast = dtype, _autocast if dtype in HALF_TYPES else None
    try:
        yield
    finally:
        state.precision, state.cast = before


def promoting() -> contextlib.AbstractContextManager[None]:
    """Inside, an operator that gets both half and float32 computes in float32: for gradient rules and compositions."""
    return _casting(_promote)


def as_given() -> contextlib.AbstractContextManager[None]:
    """Inside, operators get what they are given, whatever `autocast` says."""
    return _casting(None)


@contextlib.contextmanager
def _casting(cast: Cast | None) -> Iterator[None]:
    dispatch.casts_begun = True
    before, context.cast = context.cast, cast
    try:
        yield
    finally:
        context.cast = before


def like(x: Tensor, other: Tensor) -> Tensor:
    """`x` in the type of `other`."""
    return x if x.dtype == other.dtype else _to(x, other.dtype)


def _autocast(info: OpInfo, inputs: Sequence[Any]) -> Sequence[Any]:
    return _POLICY[info.precision](info, inputs)


def _narrow(info: OpInfo, inputs: Sequence[Any]) -> list[Any]:
    dtype, last = context.precision, len(info.inputs) - 1
    narrow = [info.inputs[min(i, last)]["narrow"] for i in range(len(inputs))]
    return [
        _to(x, dtype) if x is not None and wanted and x.dtype == "float32" and not _is_parameter(x) else x
        for x, wanted in zip(inputs, narrow, strict=True)
    ]


def _is_parameter(x: Tensor) -> bool:
    return x.persistable or (x.requires_grad and x.node is None)


def _promote(info: OpInfo, inputs: Sequence[Any]) -> Sequence[Any]:
    """Makes half inputs float32 where others are that already; a number does not count."""
    last = len(info.inputs) - 1
    types = set()
    for i, x in enumerate(inputs):
        spec = info.inputs[min(i, last)]
        if x is None or spec["shape_only"] or spec["wide"]:
            continue
        dtype = x.dtype
        if dtype in HALF_TYPES or (dtype == "float32" and x.ndim):
            types.add(dtype)
    if len(types) < 2 and (info.takes_half or info.moves or not types & {*HALF_TYPES}):
        return inputs
    return _widen(info, inputs)


def _widen(info: OpInfo, inputs: Sequence[Any]) -> list[Any]:
    last = len(info.inputs) - 1
    return [
        _to(x, "float32")
        if x is not None and not info.inputs[min(i, last)]["shape_only"] and x.dtype in HALF_TYPES
        else x
        for i, x in enumerate(inputs)
    ]


_POLICY: dict[str, Cast] = {"half": _narrow, "follows": _promote, "float32": _widen}


def _to(x: Tensor, dtype: str) -> Tensor:
    """A cast that a pass may leave out, unlike one that somebody wrote."""
    return dispatch.call_by_name("cast", [x], dtype=dtype, elidable=True)
