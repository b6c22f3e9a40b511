"""Means over rectangles of pictures: what PyTorch calls interpolation by area, of many cuts at a time.

A table of sums makes a mean four look-ups, whatever its rectangle. Letters: N pictures of H x W, P cuts, S their side.
"""

from __future__ import annotations

import numpy as np

from framework import ops, tensor
from framework.tensors import Tensor


class Areas:
    """The sums of a batch's pixels from the upper left on, float64.

    Args:
        images: [N, H, W, C].
        size: (H, W).
    """

    def __init__(self, images: Tensor, size: tuple[int, int]) -> None:
        height, width = size
        self._stride = width + 1
        padded = ops.pad(ops.cast(images, dtype="float64"), pads=(0, 0, 1, 0, 1, 0, 0, 0))
        sums = ops.cumsum(ops.cumsum(padded, axis=1), axis=2)
        # A batch of other sizes is an error here.
        self._sums = ops.reshape(sums, shape=(-1, (height + 1) * (width + 1), int(images.shape[-1])))
        self._size = size

    def resized(self, size: tuple[int, int]) -> Tensor:
        """The pictures at another size (H', W'), [N, H', W', C]."""
        (top, bottom), (left, right) = (_bins(*sides) for sides in zip(size, self._size, strict=True))
        corners = [(y[:, None] * self._stride + x).reshape(-1) for y in (bottom, top) for x in (right, left)]
        whole, a, b, both = (ops.gather(self._sums, tensor(at), axis=1) for at in corners)
        area = ((bottom - top)[:, None] * (right - left)).reshape(1, -1, 1).astype(np.float64)
        means = ops.cast((whole - a - b + both) / tensor(area), dtype="float32")
        return ops.reshape(means, shape=(0, *size, -1))

    def cuts(self, boxes: Tensor, side: int) -> Tensor:
        """Parts of the pictures at one size, [N * P, S, S, C].

        Args:
            boxes: int64 [N, P, 4], the pixels [x1, x2) and [y1, y2) of each, within the picture and not empty.
            side: S.
        """
        x1, y1, x2, y2 = ops.unstack(boxes, axis=2)
        (top, bottom), (left, right) = _bins_of(y1, y2, side), _bins_of(x1, x2, side)  # [N, P, S] each
        number = ops.positions(boxes, axis=0) * ops.extent(self._sums, axis=1)
        first = ops.reshape(number, shape=(-1, 1, 1, 1))
        flat = ops.flatten(self._sums, start=0, end=1)

        def at(y: Tensor, x: Tensor) -> Tensor:
            return ops.gather(flat, ops.expand_dims(y * self._stride, axis=3) + ops.expand_dims(x, axis=2) + first)

        sums = at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left)  # [N, P, S, S, C]
        area = ops.expand_dims(bottom - top, axis=3) * ops.expand_dims(right - left, axis=2)
        means = sums / ops.expand_dims(ops.cast(area, dtype="float64"), axis=4)
        return ops.cast(ops.flatten(means, start=0, end=1), dtype="float32")


def _bins(count: int, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """First and behind last of `extent` pixels of each of `count` bins, int64."""
    number = np.arange(count)
    return number * extent // count, -((number + 1) * extent // -count)


def _bins_of(low: Tensor, high: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Likewise of pixels from `low` [N, P] up to `high`: int64 [N, P, S] each."""
    number = tensor(np.arange(count))
    start, extent = ops.expand_dims(low, axis=2), ops.expand_dims(high - low, axis=2)
    return start + number * extent // count, start + ((number + 1) * extent + (count - 1)) // count
