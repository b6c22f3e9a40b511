"""Gradients of framework/native/ops/indexing.cc."""

from framework.autograd.rule_table import no_gradient, rule
from framework.ops import (
    embedding,
    full_like,
    gather,
    gather_nd,
    put_along_axis_add,
    scatter,
    scatter_add,
    take_along_axis,
)
from framework.ops.internal import embedding_grad, scatter_nd_add, scatter_pick
from framework.tensors import Tensor


def _put_back(dvalues: Tensor, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    return put_along_axis_add(full_like(x, value=0.0), indices, dvalues, axis=axis)


rule("gather", x=lambda dy, x, indices, axis: scatter_add(full_like(x, value=0.0), indices, dy, axis=axis))
rule("scatter_add", x=lambda dy: dy, updates=lambda dy, indices, axis: gather(dy, indices, axis=axis))
rule(
    "scatter",
    x=lambda dy, updates, indices, axis: scatter(dy, indices, full_like(updates, value=0.0), axis=axis),
    updates=lambda dy, indices, axis: scatter_pick(dy, indices, axis=axis),
)
rule("scatter_pick", x=lambda dy, x, indices, axis: scatter(full_like(x, value=0.0), indices, dy, axis=axis))
rule("gather_nd", x=lambda dy, x, indices: scatter_nd_add(full_like(x, value=0.0), indices, dy))
rule("scatter_nd_add", x=lambda dy: dy, updates=lambda dy, indices: gather_nd(dy, indices))
rule("take_along_axis", x=lambda dy, x, indices, axis: _put_back(dy, x, indices, axis))
rule(
    "put_along_axis_add",
    x=lambda dy: dy,
    updates=lambda dy, indices, axis: take_along_axis(dy, indices, axis=axis),
)
rule(
    "embedding",
    weight=lambda dy, weight, ids, padding_idx: embedding_grad(dy, ids, weight, padding_idx=padding_idx),
)
rule(
    "embedding_grad",
    dy=lambda ddweight, ids, padding_idx: embedding(ddweight, ids, padding_idx=padding_idx),
)
rule("topk", x=lambda dvalues, x, indices, axis: _put_back(dvalues, x, indices, axis))
rule("sort", x=lambda dvalues, x, indices, axis: _put_back(dvalues, x, indices, axis))
no_gradient("its value does not depend smoothly on the ids", "one_hot")
no_gradient("it is for optimizers, which come after all gradients; embedding_grad has one", "embedding_grad_rows")
