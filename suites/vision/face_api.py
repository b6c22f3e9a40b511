"""What networks of face-api.js (https://github.com/vladmandic/face-api) that look at one face have in common."""

from __future__ import annotations

import numpy as np

from framework import tensor
from framework.errors import ShapeError
from framework.tensors import Tensor
from suites.engine.weights import drawn

SCHEME = "faceapi"  # of names
MEAN = (122.782, 117.001, 104.298)  # of red, green, blue


def drawn_face(side: int) -> Tensor:
    """A drawn image as these networks take it: [1, side, side, 3], (pixel - mean) / 255."""
    image = drawn(side * side * 3, 256).reshape(1, side, side, 3).astype(np.float32)
    return tensor((image - np.array(MEAN, np.float32)) / 255)


def expect_side(network: str, images: Tensor, side: int) -> None:
    """Raise ShapeError where images [N, H, W, 3] are not `side` by `side` pixels."""
    height, width = images.shape[1:3]
    if (height, width) != (side, side):
        raise ShapeError(f"{network}: images are {width}x{height}; its size is {side}, square")
