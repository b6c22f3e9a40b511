"""From a map to quadrilaterals, their order, and what they show."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.ocr.finding import Finding, area_and_length, clockwise, cut, reading_order, widened


def box(left, top, right, bottom):
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


def test_a_rectangle_is_widened_by_the_ratio_of_its_area_to_its_circumference():
    quad = box(10, 20, 110, 40)
    assert area_and_length(quad.astype(np.float64)) == (2000.0, 240.0)
    outline = widened(quad, 1.5)
    distance = 2000 * 1.5 / 240
    np.testing.assert_allclose(outline.min(axis=0), [10 - distance, 20 - distance], atol=0.51)  # whole pixels
    np.testing.assert_allclose(outline.max(axis=0), [110 + distance, 40 + distance], atol=0.51)
    corner = np.hypot(*(outline - (10, 20)).T)[np.all(outline < (10, 20), axis=1)]
    np.testing.assert_allclose(corner, distance, atol=0.75)  # round: an arc of a pixel's rounding


def test_the_same_outline_comes_of_corners_in_either_turn():
    quad = box(10, 20, 110, 40)
    one, other = (widened(corners, 1.5) for corners in (quad, quad[::-1]))
    assert {tuple(p) for p in one.tolist()} == {tuple(p) for p in other.tolist()}


def test_text_in_a_map_is_found_at_the_size_of_the_picture():
    probability = np.zeros((64, 96), np.float32)
    probability[20:28, 10:60] = 0.9
    probability[40:43, 70:73] = 0.4  # too unlikely
    probability[50:51, 20:22] = 0.9  # too small
    found = Finding(dilate=False, unclip=1.0).quads(probability, (128, 192))
    assert found.quads.shape == (1, 4, 2)
    area, length = area_and_length(box(10, 20, 59, 27).astype(np.float64))
    distance = area / length
    wanted = box(10 - distance, 20 - distance, 59 + distance, 27 + distance) * 2
    np.testing.assert_allclose(found.quads[0], wanted, atol=2.1)  # a pixel of the map is two of the picture
    assert found.scores[0] == pytest.approx(0.9)


def test_an_empty_map_has_no_text():
    found = Finding().quads(np.zeros((32, 32), np.float32), (32, 32))
    assert found.quads.shape == (0, 4, 2) and found.scores.shape == (0,)


def test_corners_come_from_the_upper_left_on():
    np.testing.assert_array_equal(clockwise(box(0, 0, 9, 4)[[2, 0, 3, 1]]), box(0, 0, 9, 4))


def test_lines_are_read_from_above_and_neighbours_of_one_height_from_the_left():
    quads = np.stack([box(50, 102, 90, 110), box(0, 100, 40, 110), box(0, 10, 40, 20)])
    assert reading_order(quads).tolist() == [2, 1, 0]
    assert reading_order(np.zeros((0, 4, 2))).tolist() == []


def test_a_quadrilateral_shows_what_lies_in_it_and_tall_ones_are_turned_a_quarter():
    image = np.zeros((100, 100, 3), np.uint8)
    image[20:30, 10:60] = 200
    assert (cut(image, box(10, 20, 59, 29))[1:-1, 1:-1] == 200).all()
    tall = np.zeros((100, 100, 3), np.uint8)
    tall[10:60, 20:30] = np.arange(50, dtype=np.uint8)[:, None, None]
    line = cut(tall, box(20, 10, 29, 59))
    assert line.shape[0] < line.shape[1]
    assert (np.diff(line[4, 2:-2, 0].astype(int)) >= 0).all()  # from above to below is now from left to right


@pytest.mark.parametrize("given", [{"threshold": 1.5}, {"box_threshold": -0.1}, {"unclip": 0.0}, {"most": 0}])
def test_settings_that_find_nothing_are_refused(given):
    with pytest.raises(AttributeValueError, match=f"finding: .*{next(iter(given))}"):
        Finding(**given)
