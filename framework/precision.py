"""Mixed precision: which operators take half types under `autocast`, and where float32 stays.

Weights are float32 and are read as they are: on a CPU the arithmetic is float32 anyway, so that copies of them in half
would cost memory and accuracy for nothing. What is half is what lies between layers: results of products,
convolutions, attention and normalisations, and their gradients; they are what a training step keeps in memory. An
operator computes half inputs in float32 and rounds its results once, to nearest even. See docs/explanation/design.md.
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
    from framework.tensor import Tensor

HALF_TYPES = ("float16", "bfloat16")
PRECISIONS = ("float32", *HALF_TYPES)

# Operators that make half results: the inputs called so are cast to half, unless they are parameters.
NARROWED: dict[str, tuple[str, ...]] = {
    "matmul": ("a", "b", "residual"),
    "conv2d": ("x", "residual"),
    "separable_conv2d": ("x", "residual"),
    "conv2d_transpose": ("x",),
    "ragged_attention": ("q", "k", "v"),
    "ragged_self_attention": ("qkv",),
    "scaled_dot_product_attention": ("q", "k", "v"),
    "batch_norm": ("x", "residual"),
    "batch_norm_inference": ("x", "residual"),
    "layer_norm": ("x",),
    "residual_layer_norm": ("x", "residual"),
    "group_norm": ("x",),
    "rms_norm": ("x",),
}

# Operators that follow their inputs: half where all are half, float32 where they differ. They move values, or give
# values that are no larger than what goes in.
FOLLOWING_FAMILIES = frozenset(("movement", "indexing", "shape", "pool", "resize"))
FOLLOWING: frozenset[str] = frozenset().union(
    ("add", "sub", "mul", "div", "neg", "abs", "sign", "floor", "ceil", "round", "trunc"),
    ("maximum", "minimum", "clip", "where", "lerp", "dropout", "sigmoid", "tanh", "softsign"),
    ("relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "mish", "hardsigmoid", "hardswish", "prelu"),
    ("relu_grad", "relu6_grad", "leaky_relu_grad", "gelu_grad", "silu_grad", "sigmoid_grad", "tanh_grad"),
    ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite"),
    ("max", "min", "argmax", "argmin", "segment_max", "segment_spread", "ragged_window"),
    ("cast", "broadcast_to", "broadcast_like", "chain", "roi_align", "roi_align_grad", "rotary_embedding"),
)
_MOVING = ("cast", "broadcast_to", "broadcast_like")  # outside of these families, and of any type
# Everything else computes in float32 and gives float32: softmax and losses, sums and means, exponentials, logarithms
# and powers, recurrent layers, optimizers, and operators from outside. So do operators with blocks, whose states keep
# their type.

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
    before, context.cast = context.cast, cast
    try:
        yield
    finally:
        context.cast = before


def like(x: Tensor, other: Tensor) -> Tensor:
    """`x` in the type of `other`."""
    return x if x.dtype == other.dtype else _to(x, other.dtype)


def _autocast(info: OpInfo, inputs: Sequence[Any]) -> Sequence[Any]:
    narrowed = NARROWED.get(info.name)
    if narrowed is not None:
        return _narrow(info, inputs, narrowed)
    if info.family in FOLLOWING_FAMILIES or info.name in FOLLOWING:
        return _promote(info, inputs)
    return _widen(info, inputs)


def _narrow(info: OpInfo, inputs: Sequence[Any], names: tuple[str, ...]) -> list[Any]:
    dtype = context.precision
    named = [spec["name"] in names for spec in info.inputs]
    return [
        _to(x, dtype) if x is not None and named[i] and x.dtype == "float32" and not _is_parameter(x) else x
        for i, x in enumerate(inputs)
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
    takes_half = info.takes_half or info.family in FOLLOWING_FAMILIES or info.name in _MOVING
    if len(types) < 2 and (takes_half or not types & {*HALF_TYPES}):
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


def _to(x: Tensor, dtype: str) -> Tensor:
    """A cast that a pass may leave out, unlike one that somebody wrote."""
    return dispatch.call_by_name("cast", [x], dtype=dtype, elidable=True)
