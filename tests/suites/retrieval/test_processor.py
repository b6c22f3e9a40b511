"""Faces with their five points come upright, other objects as their boxes show them."""

import numpy as np

from suites.retrieval.processor import RetrievalProcessor
from suites.vision.alignment import REFERENCE, aligned
from suites.vision.objects import cut_out
from suites.vision.pose import FACE_POINTS

IMAGE = np.random.default_rng(0).integers(0, 255, (200, 240, 3), np.uint8)
BOX = [30, 20, 120, 130]


def row(points):
    return {"box": BOX, "keypoints": dict(zip(FACE_POINTS.names, points, strict=True))}


def test_a_face_comes_upright_and_what_has_no_points_as_it_is():
    points = (REFERENCE + np.array([20.0, 15.0])).tolist()
    rows = [row(points), {"box": BOX}, row([[3.0, 3.0]] * 5), {"box": BOX, "keypoints": {"nose": [1, 2]}}]
    face, *others = RetrievalProcessor([], []).objects_in(IMAGE, rows)
    np.testing.assert_array_equal(face, aligned(IMAGE, np.array(points)))
    assert face.shape == (112, 112, 3)
    for other in others:
        np.testing.assert_array_equal(other, cut_out(IMAGE, BOX))
