"""Heatmaps of points: drawn around points, and read back below a cell's size (DARK, Zhang et al. 2020, 1910.06278).

Letters: N objects, H W size of a heatmap, L points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from suites.keypoints.sample import back

_LEAST = 1e-10


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
        return _in_files(*decoded(heatmaps, self.stride, self.sigma), matrices)

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


def decoded(heatmaps: np.ndarray, stride: float, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [N, L, 2] in pixels of the input, and their scores [N, L], the heights of the maps.

    The largest cell is refined by a step of Newton's method on the logarithm of the smoothed map.

    Args:
        heatmaps: float32 [N, H, W, L].
        stride: pixels of a cell.
        sigma: of the Gaussian that was learnt, in cells.
    """
    count, height, width, marks = heatmaps.shape
    points = np.zeros((count, marks, 2), np.float32)
    flat = heatmaps.reshape(count, height * width, marks)
    scores = flat.max(axis=1)
    best = flat.argmax(axis=1)
    side = 2 * round(2.5 * sigma) + 1
    for n in range(count):
        smooth = cv2.GaussianBlur(np.ascontiguousarray(heatmaps[n]), (side, side), 0, borderType=cv2.BORDER_CONSTANT)
        logs = np.log(np.maximum(smooth.reshape(height, width, marks), _LEAST))
        for at in range(marks):
            y, x = divmod(int(best[n, at]), width)
            points[n, at] = np.array([x, y]) + _step(logs[..., at], y, x)
    return (points + 0.5) * stride, scores


def _step(logs: np.ndarray, y: int, x: int) -> np.ndarray:
    """From a cell to where a parabola through the logarithms around it is largest, (dx, dy); 0 near the border."""
    height, width = logs.shape
    if not (1 < x < width - 2 and 1 < y < height - 2):
        return np.zeros(2)
    dx = 0.5 * (logs[y, x + 1] - logs[y, x - 1])
    dy = 0.5 * (logs[y + 1, x] - logs[y - 1, x])
    dxx = 0.25 * (logs[y, x + 2] - 2 * logs[y, x] + logs[y, x - 2])
    dyy = 0.25 * (logs[y + 2, x] - 2 * logs[y, x] + logs[y - 2, x])
    dxy = 0.25 * (logs[y + 1, x + 1] - logs[y - 1, x + 1] - logs[y + 1, x - 1] + logs[y - 1, x - 1])
    curve = np.array([[dxx, dxy], [dxy, dyy]], np.float64)
    if dxx * dyy - dxy * dxy <= _LEAST:
        return np.zeros(2)
    return np.clip(-np.linalg.solve(curve, np.array([dx, dy], np.float64)), -1, 1)
