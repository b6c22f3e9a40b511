"""Faces upright and of one size: the similarity that brings five points of a face to fixed places.

Letters: L points.
"""

from __future__ import annotations

import cv2
import numpy as np

from framework.errors import DataError

SIDE = 112
# Where ArcFace's training pictures have the eyes (left of the picture, right), nose and corners of the mouth, in 112 x
# 112 pixels whose centres are whole numbers (github.com/deepinsight/insightface, face_align.py).
REFERENCE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]], np.float64
)


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The turn, scale and shift, float64 [2, 3], that brings points nearest to others, by least squares.

    Umeyama 1991, "Least-squares estimation of transformation parameters between two point patterns".

    Args:
        source: [L, 2], two different points or more.
        target: [L, 2], where they are to lie.

    Raises DataError for points that all lie at one place, or are no numbers.
    """
    source, target = np.asarray(source, np.float64), np.asarray(target, np.float64)
    middle, wanted = source.mean(axis=0), target.mean(axis=0)
    from_middle, from_wanted = source - middle, target - wanted
    spread = float((from_middle**2).sum() / len(source))
    if not np.isfinite(source).all() or spread <= 1e-12:
        raise DataError(f"a similarity needs two different points; the first is {source[0].tolist()}")
    u, sizes, v = np.linalg.svd(from_wanted.T @ from_middle / len(source))
    signs = np.array([1.0, np.sign(np.linalg.det(u) * np.linalg.det(v)) or 1.0])  # never a mirror image
    linear = float((sizes * signs).sum()) / spread * (u * signs) @ v
    return np.column_stack([linear, wanted - linear @ middle])


def aligned(image: np.ndarray, points: np.ndarray, side: int = SIDE) -> np.ndarray:
    """A face, uint8 RGB [side, side, 3], whose points lie where ArcFace's pictures have them; black lies outside.

    Args:
        image: uint8 RGB [H, W, 3].
        points: [5, 2], (x, y) of eyes, nose and corners of the mouth, the picture's left first, where pixel (0, 0)
            reaches from 0 to 1.
        side: of the result.

    Raises as `similarity` does.
    """
    step = similarity(np.asarray(points, np.float64) - 0.5, REFERENCE * (side / SIDE))
    return np.asarray(cv2.warpAffine(image, step, (side, side), flags=cv2.INTER_LINEAR))
