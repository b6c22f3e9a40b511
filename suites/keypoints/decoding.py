"""Heatmaps of points: drawn around points, and read back below a cell's size (DARK, Zhang et al. 2020, 1910.06278).

Letters: N objects, H W size of a heatmap, L points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from framework.pictures import decode_heatmaps
from suites.keypoints.sample import back


@dataclass(frozen=True)
class Reader:
    """How points are read from heatmaps.

    Attributes:
        stride: pixels of a cell.
        sigma: of the Gaussian that was learnt, in cells.
    """

    stride: float
    sigma: float

    def __call__(self, heatmaps: np.ndarray, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points [N, L, 2] in pixels of the files, and scores [N, L], of heatmaps [N, H, W, L].

        Args:
            heatmaps: of the inputs.
            matrices: float64 [N, 2, 3], what led from files to inputs.
        """
        return _in_files(*decode_heatmaps(heatmaps, self.stride, self.sigma), matrices)

    def read(self, outputs: Mapping[str, np.ndarray], matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of a network's outputs: `heatmaps`, or `points` [N, L, 3] in pixels of the inputs with scores."""
        if "points" in outputs:
            return _in_files(outputs["points"][..., :2], outputs["points"][..., 2], matrices)
        return self(outputs["heatmaps"], matrices)


def _in_files(points: np.ndarray, scores: np.ndarray, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = [back(places.astype(np.float64), matrix) for places, matrix in zip(points, matrices, strict=True)]
    return np.array(rows).reshape(points.shape), scores


def drawn(points: np.ndarray, size: tuple[int, int], stride: float, sigma: float) -> np.ndarray:
    """Heatmaps float32 [H, W, L] with a Gaussian around each point, where it is, not at the middle of a cell.

    Args:
        points: float32 [L, 2], (x, y) in pixels of the input.
        size: (H, W).
        stride: pixels of a cell.
        sigma: of the Gaussian, in cells.
    """
    places = points.astype(np.float64) / stride - 0.5
    rows, columns = (np.arange(side)[:, None] for side in size)
    down = np.exp(-((rows - places[:, 1]) ** 2) / (2 * sigma**2))  # [H, L]
    across = np.exp(-((columns - places[:, 0]) ** 2) / (2 * sigma**2))
    return (down[:, None] * across[None]).astype(np.float32)
