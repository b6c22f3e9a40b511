"""Operators of ONNX Runtime's own (domain com.microsoft) that its optimiser and its exporters write most.

Each is what a few of ONNX's operators say together; inputs and attributes that mean more are refused by name.
ONNX Runtime documents them in its ContribOperators.md.
Letters: B sequences, T tokens, D width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import extents, like
from framework.onnx.operators.conv import conv
from framework.onnx.operators.linear import product
from framework.onnx.operators.quantize import dequantized, quantized
from framework.onnx.registry import Function, onnx_op
from framework.tensors import Tensor

DOMAIN = "com.microsoft"
_ALPHA = 1.702  # of QuickGelu
_EPS = 1e-12  # of the norms that follow a sum
_MASKED = -10000.0  # what Attention adds to the score of a token that is not seen


def _op(name: str, *attributes: str, compute: str = "any") -> Callable[[Function], Function]:
    """Declares a converter of `com.microsoft` that knows these attributes; others are refused by name."""

    def declare(function: Function) -> Function:
        @wraps(function)
        def converted(node: Node, *inputs: Any) -> Any:
            if odd := [attribute for attribute in node.attributes if attribute not in attributes]:
                raise node.fail(f"attribute {odd[0]} is not supported")
            return function(node, *inputs)

        onnx_op(name, domain=DOMAIN, compute=compute)(converted)
        return function

    return declare


def _refuse(node: Node, **inputs: Any) -> None:
    """Fails where an input is there, or an attribute set, whose meaning is not known here."""
    for name, value in inputs.items():
        if isinstance(value, Tensor) or value:
            raise node.fail(f"{name} is not supported")


# -- activations
@_op("Gelu", compute="float")
def gelu(node: Node, x: Tensor) -> Tensor:
    """By erf."""
    return ops.gelu(x)


@_op("BiasGelu", compute="float")
def bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    """Of x + bias, by erf."""
    return ops.gelu(x + bias)


@_op("FastGelu", compute="float")
def fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Of x + bias, by tanh."""
    return ops.gelu(x if bias is None else x + bias, approximate=True)


@_op("QuickGelu", "alpha", compute="float")
def quick_gelu(node: Node, x: Tensor) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return x * ops.sigmoid(x * node.attr("alpha", _ALPHA))


# -- products
@_op("FusedMatMul", "alpha", "transA", "transB", "transBatchA", "transBatchB", compute="float")
def fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """alpha * a' @ b'."""
    _refuse(node, transBatchA=node.attr("transBatchA", 0), transBatchB=node.attr("transBatchB", 0))
    if node.attr("transA", 0) and a.ndim > 1:
        a = _turned(a)
    if node.attr("transB", 0) and b.ndim > 1:
        b = _turned(b)
    y, alpha = product(a, b), node.attr("alpha", 1.0)
    return y if alpha == 1.0 else y * alpha


def _turned(x: Tensor) -> Tensor:
    return ops.transpose(x, perm=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


@_op(
    "FusedConv",
    "activation",
    "activation_params",
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
    compute="float",
)
def fused_conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, z: Tensor | None = None) -> Tensor:
    """A convolution, plus z, through an activation."""
    y = conv(node, x, weight, bias)
    y = y if z is None else y + z
    kind, numbers = node.attr("activation", ""), list(node.attr("activation_params", []))
    plain = {"": lambda y: y, "Relu": ops.relu, "Tanh": ops.tanh, "Sigmoid": ops.sigmoid}
    if kind in plain and not numbers:
        return plain[kind](y)
    if kind == "LeakyRelu" and len(numbers) == 1:
        return ops.leaky_relu(y, slope=numbers[0])
    if kind == "Clip" and len(numbers) == 2:
        return ops.clip(y, min=numbers[0], max=numbers[1])
    if kind == "HardSigmoid" and len(numbers) == 2:
        return ops.clip(y * numbers[0] + numbers[1], min=0.0, max=1.0)
    raise node.fail(f"activation '{kind}' with {len(numbers)} parameters is not supported")


# -- norms and embeddings
@_op("SkipLayerNormalization", "epsilon", compute="float")
def skip_layer_norm(
    node: Node, x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None, bias: Tensor | None = None
) -> Any:
    """The layer norm of x + skip + bias over the last axis; the sum is the fourth output."""
    _refuse(node, mean=node.wants(1), inv_std_var=node.wants(2))
    total = x + skip if bias is None else x + skip + bias
    return ops.layer_norm(total, scale, shift, eps=node.attr("epsilon", _EPS))[0], None, None, total


@_op("EmbedLayerNormalization", "epsilon", "mask_index_type")
def embed_layer_norm(
    node: Node,
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    positions: Tensor,
    kinds: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
) -> Any:
    """BERT's embeddings: the layer norm of the vectors of words, positions and segments, [B, T, D]."""
    _refuse(node, mask_index_type=node.attr("mask_index_type", 0), mask=mask)
    if places is None:
        places = ops.expand_dims(ops.arange(start=0, stop=extents(ids)[1], dtype="int64"), axis=0)
    total = ops.gather(words, ids, axis=0) + ops.gather(positions, places, axis=0)
    if segments is not None and kinds is not None:
        total = total + ops.gather(kinds, segments, axis=0)
    none = ops.full(shape=(extents(ids)[0],), value=0.0, dtype="int32")  # lengths, where there is no mask
    return ops.layer_norm(total, scale, shift, eps=node.attr("epsilon", _EPS))[0], none, total


@_op(
    "Attention",
    "num_heads",
    "scale",
    "mask_filter_value",
    "unidirectional",
    "do_rotary",
    "qkv_hidden_sizes",
    "past_present_share_buffer",
    compute="float",
)
def attention(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, *more: Tensor | None
) -> Tensor:
    """BERT's self-attention [B, T, D]: one product for queries, keys and values; `mask` [B, T] says what is seen."""
    _refuse(node, past_and_further_inputs=any(v is not None for v in more), present=node.wants(1))
    for name in ("unidirectional", "do_rotary", "qkv_hidden_sizes", "past_present_share_buffer"):
        _refuse(node, **{name: node.attr(name)})
    if mask is not None and mask.ndim != 2:
        raise node.fail(f"mask_index of {mask.ndim} axes is not supported; [B, T] is")
    heads, (batch, tokens, _) = node.attr("num_heads"), extents(x)
    y = product(x, weight) if bias is None else product(x, weight) + bias
    width = extents(y)[2] // 3
    y = ops.transpose(ops.reshape(y, shape=[batch, tokens, 3, heads, width // heads]), perm=[2, 0, 3, 1, 4])
    q, k, v = (ops.squeeze(part, axis=0) for part in ops.split(y, axis=0, sizes=(1, 1, 1)))
    scores = ops.matmul(q, k, transpose_b=True) * (node.attr("scale") or (width // heads) ** -0.5)
    if mask is not None:
        hidden = (like(x, 1.0) - ops.cast(mask, dtype=x.dtype)) * node.attr("mask_filter_value", _MASKED)
        scores = scores + ops.expand_dims(ops.expand_dims(hidden, axis=1), axis=1)
    seen = ops.transpose(ops.matmul(ops.softmax(scores), v), perm=[0, 2, 1, 3])
    return ops.reshape(seen, shape=[batch, tokens, width])


# -- 8 bits
def _in_floats(node: Node, names: tuple[Tensor | None, ...], compute: Any) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (*names, None)[:8]
    assert a is not None and a_scale is not None and b is not None and b_scale is not None and scale is not None
    y = compute(dequantized(node, a, a_scale, a_zero), dequantized(node, b, b_scale, b_zero))
    return quantized(node, y, scale, zero, a.dtype)


@_op("QLinearAdd")
def qlinear_add(node: Node, *inputs: Tensor | None) -> Tensor:
    """The sum of quantised numbers, quantised."""
    return _in_floats(node, inputs, lambda a, b: a + b)


@_op("QLinearMul")
def qlinear_mul(node: Node, *inputs: Tensor | None) -> Tensor:
    """The product of quantised numbers, quantised."""
    return _in_floats(node, inputs, lambda a, b: a * b)
