"""Operators of framework/native/ops/quantized.cc serve inference: rounding has no useful gradient."""

from framework.autograd.rule_table import no_gradient

no_gradient(
    "it serves inference, with weights of 8 bits; train in float32 and quantise the result",
    "quantized_matmul",
    "quantized_embedding",
    "quantize_linear",
    "dequantize_linear",
    "quantized_conv2d",
    "quantized_add",
    "requantize",
)
