"""Numerical check of gradients along random directions, of first and second order.

For a user's own operators too: `check_gradients(lambda x: ops.exp(x), [x])`. The derivative along a direction is
compared with a central difference in float64, whose error is about eps^(2/3) of the function's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework.autograd.tape import gradients
from framework.tensor import Tensor, tensor

# Step that balances truncation (step^2) and rounding (eps / step) of a central difference in float64.
STEP = float(np.cbrt(np.finfo(np.float64).eps))


def check_gradients(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    *,
    order: int = 1,
    seed: int = 0,
    tolerance: float = 1e-6,
) -> None:
    """Compares the gradient of sum(w . function(inputs)) for random w with central differences.

    Args:
        function: takes float64 Tensors, gives one or several.
        inputs: float64 arrays at which to check; keep them away from kinks by more than STEP (6e-6).
        order: 2 also checks the gradient of the gradient.
        tolerance: allowed error relative to the derivative's scale.

    Raises:
        AssertionError: the two differ; the message gives both.
    """
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(a, dtype=np.float64) for a in inputs]
    directions = [rng.standard_normal(a.shape) for a in arrays]
    weights = [rng.standard_normal(o.shape) for o in _outputs(function, [tensor(a) for a in arrays])]

    def objective(values: Sequence[np.ndarray]) -> float:
        outs = _outputs(function, [tensor(v) for v in values])
        return float(sum((w * o.numpy()).sum() for w, o in zip(weights, outs, strict=True)))

    plus = objective([a + STEP * d for a, d in zip(arrays, directions, strict=True)])
    minus = objective([a - STEP * d for a, d in zip(arrays, directions, strict=True)])
    numeric = (plus - minus) / (2 * STEP)

    leaves = [tensor(a, requires_grad=True) for a in arrays]
    outs = _outputs(function, leaves)
    live = [(o, tensor(w)) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
    grads = gradients([o for o, _ in live], leaves, [w for _, w in live]) if live else [None] * len(leaves)
    parts = [(g.numpy() * d).sum() for g, d in zip(grads, directions, strict=True) if g is not None]
    exact = float(sum(parts, 0.0))
    scale = max(1.0, abs(numeric), abs(plus), float(np.sum(np.abs(parts), initial=0.0)))
    assert abs(exact - numeric) <= tolerance * scale, f"gradient {exact} but central difference {numeric}"
    for leaf, g in zip(leaves, grads, strict=True):
        assert g is None or g.shape == leaf.shape, f"gradient has shape {g.shape}, input {leaf.shape}"
    if order > 1:
        check_gradients(_gradient_of(function, weights), arrays, order=order - 1, seed=seed + 1, tolerance=tolerance)


def _outputs(function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    out = function(*inputs)
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    return [o for o in outs if o.dtype == "float64"]


def _gradient_of(function: Callable[..., Any], weights: Sequence[np.ndarray]) -> Callable[..., Any]:
    """The gradient itself as a function, for the next order."""

    def gradient(*inputs: Tensor) -> list[Tensor]:
        leaves = [x if x.requires_grad else _as_leaf(x) for x in inputs]
        outs = _outputs(function, leaves)
        pairs = [(o, tensor(w)) for o, w in zip(outs, weights, strict=True) if o.requires_grad]
        grads = gradients([o for o, _ in pairs], leaves, [w for _, w in pairs], create_graph=True)
        return [g for g in grads if g is not None]

    return gradient


def _as_leaf(x: Tensor) -> Tensor:
    leaf = x.detach()
    leaf.requires_grad = True
    return leaf
