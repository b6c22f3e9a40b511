"""Numerical check of gradients along random directions, of first and second order.

For a user's own operators too: `check_gradients(lambda x: ops.exp(x), [x])`. The derivative along a direction is
compared with a central difference in float64; how far the two may be apart follows from the rounding of the function's
values and from how much the difference changes with twice the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework.autograd.tape import gradients
from framework.tensors import Tensor, tensor

# Step that balances truncation (step^2) and rounding (eps / step) of a central difference in float64.
EPS = float(np.finfo(np.float64).eps)
STEP = float(np.cbrt(EPS))
# A smooth function's difference changes by about step^2 = 4e-11 of its third derivative where the step doubles; one
# that changes by more than this share of the function's scale has a kink or a pole within two steps.
SMOOTH = 1e-5


def check_gradients(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    *,
    order: int = 1,
    seed: int = 0,
    roundings: float = 64.0,
) -> None:
    """Compares the gradient of sum(w . function(inputs)) for random w with central differences.

    The directions are a random one of all inputs together, and one of each input by itself.

    Args:
        function: takes float64 Tensors, gives one or several.
        inputs: float64 arrays at which to check; keep them away from kinks by more than twice STEP (1.2e-5).
        order: 2 also checks the gradient of the gradient.
        seed: of the weights and directions.
        roundings: error of the function's values in units of eps times their size or the inputs', whichever is larger:
            the number of roundings on the way to one of them.

    Raises:
        AssertionError: the two differ, or there is a kink; the message gives both numbers.
    """
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(a, dtype=np.float64) for a in inputs]
    weights = [rng.standard_normal(o.shape) for o in _outputs(function, [tensor(a) for a in arrays])]
    grads = _gradients(function, arrays, weights)
    together = [rng.standard_normal(a.shape) for a in arrays]
    directions = [together]
    if len(arrays) > 1:
        directions += [[d if i == k else 0.0 * d for i, d in enumerate(together)] for k in range(len(arrays))]
    for direction in directions:
        _check_direction(function, arrays, weights, grads, direction, roundings)
    if order > 1:
        gradient = _gradient_of(function, weights)
        check_gradients(gradient, arrays, order=order - 1, seed=seed + 1, roundings=4 * roundings)


def _check_direction(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    grads: Sequence[np.ndarray | None],
    direction: Sequence[np.ndarray],
    roundings: float,
) -> None:
    size = max((float(np.abs(a).mean()) for a in arrays if a.size), default=0.0)  # of what a small value is made from
    terms: list[float] = []  # sizes of the sums of which differences are taken

    def objective(step: float) -> float:
        outs = _outputs(function, [tensor(a + step * d) for a, d in zip(arrays, direction, strict=True)])
        pairs = [(w, o.numpy()) for w, o in zip(weights, outs, strict=True)]
        terms.append(float(sum((np.abs(w) * (np.abs(o) + size)).sum() for w, o in pairs)))
        return float(sum((w * o).sum() for w, o in pairs))

    numeric = (objective(STEP) - objective(-STEP)) / (2 * STEP)
    twice = (objective(2 * STEP) - objective(-2 * STEP)) / (4 * STEP)
    products = [(g * d, g * a) for g, d, a in zip(grads, direction, arrays, strict=True) if g is not None]
    exact = float(sum((p.sum() for p, _ in products), 0.0))
    # A value is off by its roundings, and by what the rounding of `a + step * d` changes.
    rounding = EPS * (roundings * max(terms, default=0.0) + sum(float(np.abs(p).sum()) for _, p in products)) / STEP
    # The difference is off by a third of what it changes where the step doubles.
    truncation = abs(twice - numeric)
    scale = max(terms, default=0.0) + sum(float(np.abs(p).sum()) for p, _ in products)
    assert truncation <= rounding + SMOOTH * scale, (
        f"central differences of {numeric} and, with twice the step, {twice}: a kink is within {2 * STEP:.2g}"
    )
    allowed = rounding + truncation + roundings * EPS * scale
    assert abs(exact - numeric) <= allowed, f"gradient {exact} but central difference {numeric} +- {allowed:.2g}"


def _gradients(
    function: Callable[..., Any], arrays: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> list[np.ndarray | None]:
    """The gradient by each input, None where there is none."""
    leaves = [tensor(a, requires_grad=True) for a in arrays]
    live = [(o, tensor(w)) for o, w in zip(_outputs(function, leaves), weights, strict=True) if o.requires_grad]
    grads = gradients([o for o, _ in live], leaves, [w for _, w in live]) if live else [None] * len(leaves)
    for leaf, g in zip(leaves, grads, strict=True):
        assert g is None or g.shape == leaf.shape, f"gradient has shape {g.shape}, input {leaf.shape}"
    return [None if g is None else g.numpy() for g in grads]


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
