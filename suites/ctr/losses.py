"""What is minimised: the log loss of each label."""

from __future__ import annotations

from collections.abc import Sequence

from framework import no_grad, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register, register_role


class ClickLoss:
    """Base: takes logits and labels [N, L] and weights [N], gives a term a label."""

    def __call__(self, names: Sequence[str], logits: Tensor, labels: Tensor, weights: Tensor | None) -> dict[str, Loss]:
        """Terms by the labels' names."""
        raise NotImplementedError


register_role("click_loss", ClickLoss, doc="What is minimised, of logits and labels.")


@register("click_loss")
class LogLoss(ClickLoss):
    """Mean over rows of -ln of the probability given to what happened; a row counts by its weight where it has one.

    Args:
        label_weights: factor on the term of each label; null for 1.
    """

    def __init__(self, label_weights: list[float] | None = None) -> None:
        self._factors = label_weights

    def __call__(self, names: Sequence[str], logits: Tensor, labels: Tensor, weights: Tensor | None) -> dict[str, Loss]:
        """See `ClickLoss`."""
        if self._factors is not None and len(self._factors) != len(names):
            raise AttributeValueError(
                f"LogLoss: label_weights has {len(self._factors)} numbers for {len(names)} labels"
            )
        terms: dict[str, Loss] = {}
        each = ops.sigmoid_cross_entropy(logits, labels)  # [N, L]
        with no_grad():
            total = count_of(labels) if weights is None else ops.sum(weights)
        for place, name in enumerate(names):
            column = each[:, place] if len(names) > 1 else ops.reshape(each, shape=(-1,))
            if weights is None:
                mean = ops.mean(column)
            else:
                mean = ops.sum(column * weights) / ops.maximum(total, 1e-12)
            factor = 1.0 if self._factors is None else self._factors[place]
            terms[f"log_loss_{name}" if len(names) > 1 else "log_loss"] = Loss(
                mean if factor == 1.0 else mean * factor, total
            )
        return terms
