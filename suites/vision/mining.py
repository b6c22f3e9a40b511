"""Online hard example mining: the hardest of many examples count, the others do not (Shrivastava et al. 2016)."""

from __future__ import annotations

from framework import ops
from framework.autograd.tape import no_grad
from framework.tensors import Tensor


def hardest(losses: Tensor, candidates: Tensor, count: Tensor) -> Tensor:
    """The sum of the `count` largest losses among the candidates of each image; of equal ones the lower index counts.

    Args:
        losses: float32 [N, P], each 0 or more.
        candidates: bool [N, P].
        count: float32 [N], how many; all candidates where there are fewer.

    Returns:
        float32 [N]. The gradient reaches the losses that count.
    """
    masked = ops.where(candidates, losses, ops.full_like(losses, value=-1.0))
    ordered, _ = ops.sort(masked, axis=1, descending=True)
    with no_grad():
        place = ops.cast(ops.positions(ordered, axis=1), "float32") + 1.0  # 1 ... P
        chosen = (place <= ops.expand_dims(count, axis=1)) & (ordered >= 0.0)
    return ops.sum(ops.where(chosen, ordered, ops.full_like(ordered, value=0.0)), axes=(1,))


def negatives_for(positives: Tensor, ratio: float, least: float = 0.0) -> Tensor:
    """How many negatives each image trains: `ratio` times its positives, at least `least`.

    Args:
        positives: bool or float32 [N, P], not 0 where a positive is.
        ratio: 3 for SSD.
        least: for images without objects; 0 for SSD, whose images without objects train nothing.
    """
    with no_grad():
        counted = ops.sum(ops.cast(positives, "float32"), axes=(1,))
        return ops.maximum(counted * ratio, least)
