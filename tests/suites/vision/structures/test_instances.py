"""Instances keep all their fields together, whatever is chosen, joined or moved."""

import numpy as np
import pytest

from framework.errors import ShapeError
from suites.vision.geometry import Cut, Mirror
from suites.vision.pose import Pose
from suites.vision.structures import Boxes, Instances, Masks

SIZE = (10, 20)
BOXES = Boxes(np.array([[1, 2, 5, 6], [8, 0, 18, 9]]))


def objects():
    polygons = [[[x1, y1, x2, y1, x2, y2, x1, y2]] for x1, y1, x2, y2 in BOXES.array.tolist()]
    return Instances(
        BOXES,
        np.array([3, 1]),
        masks=Masks.of_polygons(polygons, SIZE),
        keypoints=np.array([[[2, 3, 2]], [[9, 8, 0]]], np.float32),
        pose=Pose(("nose",)),
    )


def test_flags_and_scores_have_defaults():
    found = Instances(BOXES, np.array([0, 1]))
    assert found.scores.tolist() == [1, 1] and not found.crowd.any() and not found.difficult.any()
    assert len(Instances.none()) == 0


def test_fields_of_different_length_are_refused():
    with pytest.raises(ShapeError, match=r"the fields differ in length: \{'boxes': 2, 'classes': 1"):
        Instances(BOXES, np.zeros(1, np.int64))


def test_choosing_takes_every_field():
    last = objects()[np.array([False, True])]
    assert last.classes.tolist() == [1] and last.boxes == BOXES[1:] and last.keypoints.tolist() == [[[9, 8, 0]]]
    assert last.masks.boxes() == BOXES[1:]


def test_all_fields_move_alike():
    moved = objects().moved(Mirror(SIZE, True))
    assert moved.boxes.array.tolist() == [[15, 2, 19, 6], [2, 0, 12, 9]]
    assert moved.masks.boxes() == moved.boxes
    assert moved.keypoints.tolist() == [[[18, 3, 2]], [[11, 8, 0]]]


def test_boxes_are_clipped_where_asked():
    part = objects().moved(Cut(SIZE, (5, 10), 0, 0)).clipped((5, 10))
    assert part.boxes.array.tolist() == [[1, 2, 5, 5], [8, 0, 10, 5]]
    assert part.masks.boxes() == part.boxes


def test_joining_leaves_out_what_one_part_lacks():
    joined = Instances.joined([objects(), Instances(BOXES, np.array([7, 8]))])
    assert joined.classes.tolist() == [3, 1, 7, 8] and joined.masks is None and joined.keypoints is None
    assert Instances.joined([objects(), objects()]).masks.areas().tolist() == [16, 90, 16, 90]
