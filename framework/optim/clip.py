"""Gradient clipping: changes `grad` of parameters between `backward()` and `step()`, eagerly and in a trace."""

from __future__ import annotations

from collections.abc import Iterable

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor

_TINY = 1e-12  # keeps the factor finite where the norm is 0


def clip_by_value(params: Iterable[Tensor], limit: float) -> None:
    """Cuts every element of every gradient to [-limit, limit]."""
    _positive("clip_by_value", limit)
    with no_grad():
        for p in params:
            if p.grad is not None:
                p.grad = ops.clip(p.grad, min=-limit, max=limit)


def clip_by_norm(params: Iterable[Tensor], max_norm: float) -> None:
    """Scales each gradient down to a Euclidean norm of at most `max_norm`."""
    for p in params:
        clip_by_global_norm([p], max_norm)


def clip_by_global_norm(params: Iterable[Tensor], max_norm: float) -> Tensor | None:
    """Scales all gradients by one factor, so that their joint norm is at most `max_norm` (Pascanu et al. 2013).

    Returns:
        The joint norm before clipping, []; None where no parameter has a gradient.
    """
    _positive("clip_by_norm", max_norm)
    with no_grad():
        held = [p for p in params if p.grad is not None]
        if not held:
            return None
        norm = ops.sqrt(ops.sum_of_squares([p.grad for p in held if p.grad is not None]))
        factor = ops.minimum(max_norm / (norm + _TINY), 1.0)
        for p in held:
            assert p.grad is not None
            p.grad = p.grad * factor
        return norm


def _positive(who: str, value: float) -> None:
    if not value > 0:
        raise AttributeValueError(f"{who}: the limit is {value}; it must be positive")
