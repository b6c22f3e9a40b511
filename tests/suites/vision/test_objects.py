"""Objects cut out of pictures: what a box touches, at least a pixel, wherever it lies."""

import numpy as np
import pytest

from suites.vision.objects import CutObjects, cut_out

IMAGE = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)


@pytest.mark.parametrize(
    ("box", "part"),
    [
        ((1.2, 2.0, 3.1, 4.0), IMAGE[2:4, 1:4]),
        ((-5, -5, 99, 99), IMAGE),
        ((3, 3, 3, 3), IMAGE[3:4, 3:4]),
        ((50, 50, 60, 60), IMAGE[5:6, 7:8]),
    ],
)
def test_what_a_box_touches_is_cut_out(box, part):
    np.testing.assert_array_equal(cut_out(IMAGE, box), part)


def test_each_object_is_drawn_with_its_number():
    rows = [{"box": [1, 1, 5, 5], "class": "cat"}, {"box": [2, 2, 3, 3]}]
    plain = CutObjects().draw_objects(IMAGE, [], [])
    drawn = CutObjects().draw_objects(IMAGE, rows, ["a", "b"])
    assert drawn.shape == plain.shape and (drawn != plain).any()
    assert [part.shape for part in CutObjects().objects_in(IMAGE, rows)] == [(4, 4, 3), (1, 1, 3)]
