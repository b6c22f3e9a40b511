"""PaDiM: a Gaussian of good features at each position (Defard et al. 2020, arXiv:2011.08785).

Letters: N pictures, P positions, C channels of all maps together, D of them chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from framework import ops
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.anomaly.models.base import AnomalyModel, Fit, megabytes
from suites.engine.registry import register
from suites.vision.backbones import Backbone

_LEAST = 2  # pictures that have a covariance


@register("anomaly_model")
class PaDiM(AnomalyModel):
    """The distance of each position's features from those that good pictures have there, by Mahalanobis.

    Pictures have to show the same thing at the same place. The score is the largest number of the heat map.

    Args:
        backbone: its maps are joined at the size of the finest; three of them in the paper.
        size: H and W of the pictures, one number or two.
        dimensions: D, how many channels are chosen at random; all where the maps have fewer.
        smooth: sigma of the Gaussian over the heat map, in pixels.
        epsilon: what is added to the diagonal of each covariance.
        seed: of the choice of channels.
    """

    chosen: Tensor
    mean: Tensor
    whitening: Tensor

    def __init__(
        self,
        backbone: Backbone,
        size: int | list[int] = 224,
        dimensions: int = 100,
        smooth: float = 4.0,
        epsilon: float = 0.01,
        seed: int = 0,
    ) -> None:
        super().__init__(backbone, size, smooth)
        if dimensions < 1 or epsilon <= 0:
            raise AttributeValueError(
                f"PaDiM: dimensions is {dimensions} and epsilon {epsilon}; dimensions is 1 or more, epsilon above 0"
            )
        channels = sum(backbone.channels)
        chosen = np.sort(np.random.default_rng(seed).permutation(channels)[:dimensions])
        self._positions, self._width, self._epsilon = self.grid[0] * self.grid[1], len(chosen), epsilon
        self.register_buffer("chosen", chosen.astype(np.int64))
        self.register_buffer("mean", np.zeros((self._positions, self._width), np.float32))
        self.register_buffer("whitening", np.zeros((self._positions, self._width, self._width), np.float32))

    def embed(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; y: [N, P, D], the chosen channels of all maps."""
        maps = [ops.resize_nearest(found, size=self.grid) for found in self.backbone(images)]
        return ops.reshape(ops.gather(ops.concat(maps, axis=3), self.chosen, axis=3), (0, -1, self._width))

    def compare(self, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """rows: [N, P, D]; None, and Mahalanobis distances [N, P]."""
        away = ops.transpose(rows - self.mean, (1, 0, 2))  # [P, N, D]
        white = ops.matmul(away, self.whitening, transpose_b=True)
        return None, ops.transpose(ops.sqrt(ops.sum(ops.square(white), axes=(2,))), (1, 0))

    def fit(self, seed: int) -> Gaussians:
        """Means and covariances, empty."""
        return Gaussians(self._positions, self._width, self._epsilon)

    def memory(self, pictures: int) -> str:
        """Size of the covariances."""
        shape = self._positions, self._width, self._width
        return (
            f"PaDiM: {self._positions:,} positions of {self._width} numbers: {megabytes(*shape)} of the model, and "
            f"{megabytes(*shape, item=8)} while it is fitted, however many pictures there are"
        )


class Gaussians(Fit):
    """Mean and covariance at each position, in float64, of any number of pictures.

    Args:
        positions: P.
        width: D.
        epsilon: what is added to the diagonal.
    """

    def __init__(self, positions: int, width: int, epsilon: float) -> None:
        self._epsilon = epsilon
        self._count = 0
        self._mean = np.zeros((positions, width))
        self._squares = np.zeros((positions, width, width))  # sums of products of what is off the mean

    def add(self, rows: np.ndarray) -> None:
        """Takes in pictures [N, P, D]; see Chan, Golub and LeVeque 1979, "Updating formulae" for two parts joined."""
        count = len(rows)
        if not count:
            return
        total = self._count + count
        by_place = rows.transpose(1, 0, 2).astype(np.float64)
        mean = by_place.mean(axis=1)
        away, shift = by_place - mean[:, None], mean - self._mean
        self._squares += away.transpose(0, 2, 1) @ away
        self._squares += (shift[:, :, None] * shift[:, None, :]) * (self._count * count / total)
        self._mean += shift * (count / total)
        self._count = total

    def settle(self) -> dict[str, np.ndarray]:
        """`mean` [P, D], and `whitening` [P, D, D], W with W'W the inverse of the covariance."""
        if self._count < _LEAST:
            raise DataError(
                f"PaDiM: {self._count} good pictures were fitted; a covariance needs {_LEAST}, besides those that are "
                "held back for the threshold"
            )
        shared = self._epsilon * np.eye(self._mean.shape[1])
        lower = np.linalg.cholesky(self._squares / (self._count - 1) + shared)
        return {"mean": self._mean.astype(np.float32), "whitening": np.linalg.inv(lower).astype(np.float32)}

    def state_dict(self) -> dict[str, Any]:
        """Count, means and sums."""
        return {"count": self._count, "mean": self._mean, "squares": self._squares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` returned."""
        self._count = int(state["count"])
        self._mean, self._squares = (np.array(state[name], np.float64) for name in ("mean", "squares"))
