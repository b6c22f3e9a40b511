"""What every model of good pictures is: a frozen backbone, numbers of good places, and how far a picture is from them.

Letters: N pictures, H W their size, h w the grid, P = h * w positions, D numbers a position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register_role
from suites.vision.augmentation.pixels import pair
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import freeze_norms


class Fit(ABC):
    """What is gathered of good pictures, and what a model keeps of it in the end."""

    @abstractmethod
    def add(self, rows: np.ndarray) -> None:
        """Takes in pictures, float32 [N, P, D]."""

    @abstractmethod
    def settle(self) -> dict[str, np.ndarray]:
        """The model's buffers by name; DataError where too little was gathered."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Arrays and numbers by name, from which `load_state_dict` goes on."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` returned."""


class AnomalyModel(nn.Layer):
    """Images [N, H, W, 3] to `scores` [N] and `maps` [N, H, W], in which 1 is the threshold.

    Args:
        backbone: image to maps; it is frozen.
        size: H and W, one number or two, in pixels.
        smooth: sigma of the Gaussian over the heat map, in pixels; 0 for none.

    Attributes:
        size: (H, W).
        grid: (h, w), that of the finest map.
        limits: float32 [2], the thresholds of pictures and pixels.
    """

    size: tuple[int, int]
    grid: tuple[int, int]
    limits: Tensor

    def __init__(self, backbone: Backbone, size: int | list[int], smooth: float) -> None:
        super().__init__()
        if smooth < 0:
            raise AttributeValueError(f"{type(self).__name__}: smooth is {smooth}; it must be 0 or more")
        self.backbone = backbone
        freeze_norms(backbone)
        for parameter in backbone.parameters():
            parameter.requires_grad = False
        height, width = self.size = pair(size, type(self).__name__)
        coarsest, finest = backbone.strides[-1], backbone.strides[0]
        if height % coarsest or width % coarsest:
            raise AttributeValueError(
                f"{type(self).__name__}: size is {height}x{width}; both must be multiples of {coarsest}, the largest "
                "stride of the backbone"
            )
        self.grid = height // finest, width // finest
        self._rows, self._columns = (spread(*sides, smooth) for sides in zip(self.grid, self.size, strict=True))
        self.register_buffer("limits", np.ones(2, np.float32))

    @abstractmethod
    def embed(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; y: [N, P, D]."""

    @abstractmethod
    def compare(self, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """rows: [N, P, D]; scores [N], None for the largest of the heat map, and distances [N, P]."""

    @abstractmethod
    def fit(self, seed: int) -> Fit:
        """A new, empty gathering of good pictures."""

    @abstractmethod
    def memory(self, pictures: int) -> str:
        """What fitting on so many pictures takes, and what is kept of it, in words."""

    def rate(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """rows: [N, P, D]; scores [N] and heat maps [N, H, W], without the threshold."""
        scores, distances = self.compare(rows)
        coarse = ops.reshape(distances, (0, *self.grid))
        maps = ops.matmul(ops.matmul(tensor(self._rows), coarse), tensor(self._columns), transpose_b=True)
        return (ops.max(maps, axes=(1, 2)) if scores is None else scores), maps

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """images: [N, H, W, 3]; `scores` [N] and `maps` [N, H, W]; above 1 is a defect."""
        scores, maps = self.rate(self.embed(images))
        return {"scores": scores / self.limits[0], "maps": maps / self.limits[1]}


register_role("anomaly_model", AnomalyModel, doc="A model of good pictures.")


def spread(short: int, long: int, sigma: float) -> np.ndarray:
    """float32 [long, short]: linear interpolation from `short` cells to `long` pixels, then a Gaussian of `sigma`.

    Both are linear and work on rows and columns apart, so that a heat map is a product of three matrices. Cells are
    squares; the Gaussian reaches to 4 sigma, and the border is mirrored without its outermost pixel.
    """
    at = np.clip((np.arange(long) + 0.5) * short / long - 0.5, 0, short - 1)
    low = np.floor(at).astype(np.int64)
    share = at - low
    matrix = np.zeros((long, short))
    np.add.at(matrix, (np.arange(long), low), 1 - share)
    np.add.at(matrix, (np.arange(long), np.minimum(low + 1, short - 1)), share)
    if sigma > 0:
        reach = int(4 * sigma + 0.5)
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
        weights /= weights.sum()
        padded = np.pad(matrix, ((reach, reach), (0, 0)), mode="reflect")
        matrix = np.stack([weights @ padded[i : i + 2 * reach + 1] for i in range(long)])
    return matrix.astype(np.float32)


def megabytes(*shape: int, item: int = 4) -> str:
    """The size of an array of this shape in words."""
    return f"{int(np.prod(shape, dtype=np.int64)) * item / 1e6:,.1f} MB"
