"""Losses of ONNX."""

from __future__ import annotations

from typing import Any

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import like, moved
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("NegativeLogLikelihoodLoss", compute="float")
def nll_loss(node: Node, log_p: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """-weight[t] * log_p[n, t, ...]; the mean divides by the sum of the weights."""
    return _nll(node, log_p, target, weight)


@onnx_op("SoftmaxCrossEntropyLoss", compute="float")
def softmax_cross_entropy(node: Node, scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Any:
    """The loss above of log_softmax(scores) over axis 1, and that."""
    log_p = ops.log_softmax(scores, axis=1)
    return _nll(node, log_p, labels, weight), log_p


def _nll(node: Node, log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    by_class = moved(log_p, 1, -1)  # [N, ..., C]
    ignored = None
    if "ignore_index" in node.attributes:
        ignored = ops.equal(target, int(node.attr("ignore_index")))
        target = ops.where(ignored, ops.full_like(target, value=0.0), target)
    picked = ops.squeeze(ops.take_along_axis(by_class, ops.expand_dims(target, axis=-1), axis=-1), axis=-1)
    w = ops.full_like(picked, value=1.0) if weight is None else ops.gather(weight, target)
    if ignored is not None:
        w = ops.where(ignored, like(w, 0), w)
    loss = -picked * w
    reduction = node.attr("reduction", "mean")
    if reduction == "none":
        return loss
    return ops.sum(loss) / ops.sum(w) if reduction == "mean" else ops.sum(loss)
