"""Boxes keep their shape and type, move with placements, and overlap as their definition says."""

import numpy as np
import pytest

from framework.errors import ShapeError
from suites.vision.geometry import Placement
from suites.vision.structures import Boxes

TWO = Boxes(np.array([[0, 0, 4, 2], [2, 1, 6, 5]]))


def test_numbers_become_float32_and_float64_stays():
    assert TWO.array.dtype == np.float32
    assert Boxes(TWO.array.astype(np.float64)).array.dtype == np.float64
    assert Boxes.none().array.shape == Boxes(np.zeros(0)).array.shape == (0, 4)


def test_what_is_no_list_of_boxes_is_refused():
    with pytest.raises(ShapeError, match=r"the array is \[2, 3\]; boxes are \[M, 4\]"):
        Boxes(np.zeros((2, 3)))


def test_sides_areas_and_centres():
    assert TWO.sides.tolist() == [[4, 2], [4, 4]]
    assert TWO.areas.tolist() == [8, 16]
    assert TWO.centres.tolist() == [[2, 1], [4, 3]]


def test_overlap_is_intersection_over_union():
    np.testing.assert_allclose(TWO.iou(TWO), [[1, 2 / 22], [2 / 22, 1]], rtol=1e-6)
    assert TWO.iou(Boxes.none()).shape == (2, 0)
    assert Boxes(np.zeros((1, 4))).iou(Boxes(np.zeros((1, 4)))).tolist() == [[0]]


def test_a_mirrored_box_still_goes_from_left_to_right():
    mirrored = TWO.placed(Placement(ax=-1, bx=10))
    assert mirrored.array.tolist() == [[6, 0, 10, 2], [4, 1, 8, 5]]
    assert mirrored.placed(Placement(ax=-1, bx=10).inverse()) == TWO


def test_chosen_joined_and_clipped():
    assert Boxes.joined([TWO[:1], TWO[np.array([False, True])]]) == TWO
    assert Boxes.joined([]) == Boxes.none()
    assert TWO.clipped((3, 5)).array.tolist() == [[0, 0, 4, 2], [2, 1, 5, 3]]
