"""Pixels as channels and back: views and one transposition each, which is all that a kernel of their own would do."""

from __future__ import annotations

from framework.errors import AttributeValueError, ShapeError
from framework.ops.functions import expand_dims, flatten, reshape, transpose
from framework.tensors import Tensor


def pixel_shuffle(x: Tensor, factor: int) -> Tensor:
    """Channels as pixels: an image of more channels becomes a larger one (Shi et al. 2016, arXiv:1609.05158).

    y[n, h r + i, w r + j, c] = x[n, h, w, c r^2 + i r + j], the order of PyTorch's function of the name.

    Args:
        x: [N, H, W, C r^2], any type.
        factor: r, at least 1.

    Returns:
        [N, H r, W r, C].

    Raises:
        AttributeValueError: the factor is below 1.
        ShapeError: x has not 4 axes, or its channels are no multiple of r^2.
    """
    _check("pixel_shuffle", x, factor)
    channels = _extents(x)[3]
    if channels % (factor * factor):
        raise ShapeError(
            f"pixel_shuffle: x has {channels} channels (axis -1 of {list(_extents(x))}), which are no multiple of "
            f"factor^2 = {factor * factor}"
        )
    parts = reshape(x, shape=(0, 0, 0, -1, factor, factor))
    parts = transpose(parts, perm=(0, 1, 4, 2, 5, 3))  # [N, H, r, W, r, C]
    return flatten(flatten(parts, start=3, end=4), start=1, end=2)


def pixel_unshuffle(x: Tensor, factor: int) -> Tensor:
    """Pixels as channels: what undoes `pixel_shuffle`.

    Args:
        x: [N, H r, W r, C], any type.
        factor: r, at least 1.

    Returns:
        [N, H, W, C r^2].

    Raises:
        AttributeValueError: the factor is below 1.
        ShapeError: x has not 4 axes, or its height or width is no multiple of r.
    """
    _check("pixel_unshuffle", x, factor)
    for axis, name in ((1, "height"), (2, "width")):
        if _extents(x)[axis] % factor:
            raise ShapeError(
                f"pixel_unshuffle: x {list(_extents(x))} has {name} {_extents(x)[axis]}, which is no multiple of "
                f"factor {factor}"
            )
    parts = expand_dims(x, axis=3)
    parts = reshape(parts, shape=(0, 0, -1, factor, 0))
    parts = expand_dims(parts, axis=2)
    parts = reshape(parts, shape=(0, -1, factor, 0, 0, 0))  # [N, H, r, W, r, C]
    parts = transpose(parts, perm=(0, 1, 3, 5, 2, 4))
    return flatten(parts, start=3, end=5)


def _extents(x: Tensor) -> tuple[int, ...]:
    """For checks: unlike `shape` this ties no Program to its extents, whose operators check again."""
    return x._value.shape if x._value is not None else x.shape


def _check(who: str, x: Tensor, factor: int) -> None:
    if factor < 1:
        raise AttributeValueError(f"{who}: factor is {factor} but must be at least 1")
    if x.ndim != 4:
        raise ShapeError(f"{who}: x has {x.ndim} axes but must have 4, [N, H, W, C]")
