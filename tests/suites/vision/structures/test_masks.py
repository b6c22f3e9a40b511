"""Masks move as the pixels under them do, as polygons and as bitmaps."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError, ShapeError
from suites.vision.geometry import Canvas, Cut, Mirror, Stretch
from suites.vision.structures import Boxes, Masks, Patch, corners_of, encode, runs_of

SIZE = (20, 30)
RECTANGLE, TRIANGLE = [4, 2, 14, 2, 14, 12, 4, 12], [16, 4, 28, 4, 16, 16]
MOVES = [
    Stretch(SIZE, (40, 60), cv2.INTER_LINEAR),
    Canvas(SIZE, (32, 40), 5, 7, (0, 0, 0)),
    Mirror(SIZE, True),
    Mirror(SIZE, False),
    Cut(SIZE, (10, 12), 4, 6),
]


def polygons():
    return Masks.of_polygons([[RECTANGLE], [TRIANGLE]], SIZE)


def test_a_rectangle_covers_its_pixels():
    bitmap = polygons().bitmaps()[0]
    expected = np.zeros(SIZE, bool)
    expected[2:12, 4:14] = True
    np.testing.assert_array_equal(bitmap, expected)
    assert polygons().areas()[0] == 100 and polygons().boxes()[:1] == Boxes(np.array([[4, 2, 14, 12]]))


@pytest.mark.parametrize("move", MOVES, ids=lambda m: type(m).__name__)
def test_a_bitmap_moves_as_an_image_of_it(move):
    bitmaps = polygons().bitmaps()
    moved = Masks.of_bitmaps(bitmaps).moved(move)
    assert moved.size == move.after
    for found, before in zip(moved.bitmaps(), bitmaps, strict=True):
        np.testing.assert_array_equal(found, move.labels(before.astype(np.uint8), 0).astype(bool))


@pytest.mark.parametrize("move", MOVES, ids=lambda m: type(m).__name__)
def test_polygons_move_with_the_pixels(move):
    exact = polygons().moved(move).bitmaps()[0]  # of the rectangle, whose corners lie between pixels
    np.testing.assert_array_equal(exact, Masks.of_bitmaps(polygons().bitmaps()).moved(move).bitmaps()[0])


def test_what_is_left_outside_of_a_cut_has_no_area():
    assert polygons().moved(Cut(SIZE, (3, 3), 17, 0)).areas().tolist() == [0, 0]


def test_objects_of_several_parts_are_one_mask():
    both = Masks.of_polygons([[RECTANGLE, TRIANGLE]], SIZE)
    np.testing.assert_array_equal(both.bitmaps()[0], polygons().bitmaps().any(axis=0))


def test_chosen_joined_and_empty():
    masks = polygons()
    joined = Masks.joined([masks[np.array([1])], Masks.of_bitmaps(masks.bitmaps())[np.array([True, False])]])
    np.testing.assert_array_equal(joined.bitmaps(), masks.bitmaps()[::-1])
    nothing = Masks((), SIZE)
    assert nothing.bitmaps().shape == (0, *SIZE) and len(nothing.areas()) == len(nothing.boxes()) == 0
    with pytest.raises(ShapeError, match="pictures of 2 sizes"):
        Masks.joined([masks, Masks((), (1, 1))])


@pytest.mark.parametrize(("left", "top"), [(0, 0), (3, 2), (-2, -1), (28, 18), (-9, 3), (3, -9), (40, 3), (3, 40)])
def test_a_painted_patch_is_cut_to_its_picture(left, top):
    ring = np.ones((5, 4), bool)
    ring[1:3, 1:3] = False
    large = np.zeros((100, 100), bool)
    large[30 + top : 35 + top, 30 + left : 34 + left] = ring
    np.testing.assert_array_equal(Patch(ring, left, top).whole(SIZE), large[30 : 30 + SIZE[0], 30 : 30 + SIZE[1]])
    assert corners_of(Patch(ring, left, top)) == (left, top, left + 4, top + 5)


def test_bad_polygons_are_named():
    with pytest.raises(DataError, match="a polygon has 4 coordinates; it needs three points"):
        Masks.of_polygons([[[0, 0, 1, 1]]], SIZE)
    with pytest.raises(DataError, match="a polygon has 7 coordinates"):
        Masks.of_polygons([[[0, 0, 1, 1, 2, 2, 3]]], SIZE)


@pytest.mark.parametrize("seed", range(6))
def test_run_lengths_are_those_of_the_bitmap(seed):
    rng = np.random.default_rng(seed)
    bitmap = rng.random((37, 53)) < (0.02, 0.5, 0.98)[seed % 3]
    bitmap[0, 0] = seed > 3
    flat = bitmap.T.reshape(-1)
    changes = np.flatnonzero(np.diff(np.concatenate([[False], flat]))).tolist()
    runs = np.diff([0, *changes, flat.size])
    np.testing.assert_array_equal(runs_of(encode(bitmap)), runs)
