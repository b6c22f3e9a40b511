"""From a network to a label map: the whole image at once, or a window slid over it.

Letters: N batch, H W image size, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from framework import ops, tensor
from framework.errors import AttributeValueError
from framework.tensor import Tensor
from suites.segmentation.models.base import Segmenter


@dataclass(frozen=True)
class Labelling:
    """How a label is found for every pixel.

    Args:
        mode: "whole" gives the network the whole image; "slide" gives it windows and averages where they overlap, for
            networks trained on crops of images much larger. A sliding Program is made for one image size.
        window: side of the square window in pixels.
        stride: step from window to window, at most `window`.
        flip: also predict the mirrored image, and average the probabilities.
    """

    mode: Literal["whole", "slide"] = "whole"
    window: int = 512
    stride: int = 341
    flip: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.window:
            raise AttributeValueError(
                f"inference: window is {self.window} and stride {self.stride}; needed is 1 <= stride <= window"
            )

    def labels(self, network: Segmenter, images: Tensor) -> Tensor:
        """Class of every pixel, uint8 [N, H, W], of images [N, H, W, 3]."""
        if self.mode == "whole" and not self.flip:
            return ops.cast(ops.argmax(network(images), axis=-1), dtype="uint8")
        found = self._probabilities(network, images)
        if self.flip:
            found = found + ops.flip(self._probabilities(network, ops.flip(images, axes=(2,))), axes=(2,))
        return ops.cast(ops.argmax(found, axis=-1), dtype="uint8")

    def _probabilities(self, network: Segmenter, images: Tensor) -> Tensor:
        """[N, H, W, K]. They are what is averaged: a logit far below all others would outvote every pass."""
        if self.mode == "whole":
            return ops.softmax(network(images), axis=-1)
        return self._slid(network, images)

    def _slid(self, network: Segmenter, images: Tensor) -> Tensor:
        """Mean probabilities of the windows over each pixel; all windows go through the network as one batch."""
        _, height, width, _ = images.shape
        tall, wide = min(self.window, height), min(self.window, width)
        corners = [(y, x) for y in starts(height, tall, self.stride) for x in starts(width, wide, self.stride)]
        windows = [ops.slice(images, starts=(y, x), ends=(y + tall, x + wide), axes=(1, 2)) for y, x in corners]
        windowed = ops.softmax(network(ops.concat(windows, axis=0)), axis=-1)
        found = ops.split(windowed, axis=0, sizes=(images.shape[0],) * len(windows))
        cover = np.zeros((1, height, width, 1), np.float32)
        placed = []
        for (y, x), probabilities in zip(corners, found, strict=True):
            cover[:, y : y + tall, x : x + wide] += 1
            placed.append(ops.pad(probabilities, pads=(0, 0, y, height - y - tall, x, width - x - wide, 0, 0)))
        return sum(placed[1:], start=placed[0]) * tensor(1 / cover)


def starts(length: int, window: int, stride: int) -> list[int]:
    """Where windows begin along an axis: every `stride` pixels, the last one at the end."""
    return sorted({min(at, length - window) for at in range(0, max(length - window, 0) + stride, stride)})
