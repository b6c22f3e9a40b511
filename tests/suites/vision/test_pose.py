"""Poses: which points a mirror exchanges, by their names or as told; everything that carries points obeys."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError, ShapeError
from suites.vision.geometry import Mirror, Placement
from suites.vision.pose import COCO_PERSON, FACE_POINTS, Pose, say_sides
from suites.vision.structures import Boxes, Instances

TWO = Pose(("left", "right"))
POINTS = np.array([[[1, 2, 2], [3, 4, 1]]], np.float32)


def objects(pose=TWO, points=POINTS):
    return Instances(Boxes(np.array([[0, 0, 4, 5]], np.float32)), np.array([0]), keypoints=points, pose=pose)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Pose(()), r"names is \[\]; it needs one or more"),
        (lambda: Pose(("a", "a")), "each another"),
        (lambda: Pose(("a", "b"), (0, 0)), r"mirrored is \[0, 0\]; each of 2 points"),
        (lambda: Pose(("a", "b"), (), ((0, 2),)), "skeleton names points beyond 0 to 1"),
    ],
)
def test_a_wrong_pose_is_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("nose", "left_eye", "right_eye"), [0, 2, 1]),
        (("Nose", "LeftEye", "RightEye"), [0, 2, 1]),
        (("snout", "leftear", "rightear", "tailbase"), [0, 2, 1, 3]),
        (("eye_l", "eye_r", "L_ear", "R_ear"), [1, 0, 3, 2]),
        (("EyeL", "EyeR", "LEar", "REar"), [1, 0, 3, 2]),
        (("rsho", "lsho", "pelv", "Leye", "Reye"), [1, 0, 2, 4, 3]),
        (("bright spot", "lip", "r"), [0, 1, 2]),
        (COCO_PERSON.names, list(COCO_PERSON.mirrored)),
    ],
)
def test_names_say_which_points_change_places(names, order):
    assert Pose(tuple(names)).order == order


def test_a_side_without_its_other_is_an_error():
    with pytest.raises(DataError, match="'left_eye' has no 'right_eye' to change places with"):
        _ = Pose(("left_eye", "nose")).order
    with pytest.raises(DataError, match="do not tell left from right"):
        _ = Pose(("1", "2")).order
    with pytest.raises(DataError, match="'p0' and so on, do not tell left from right"):
        _ = Pose(("p0", "p1", "p12")).order
    assert Pose(("1",)).order == [0]
    assert Pose(("left_eye", "nose")).paired([]).order == [0, 1]


def test_points_of_which_none_changes_places_are_told_unless_somebody_said_so(caplog):
    for pose in (TWO, Pose(("tail",)), Pose(("p0", "p1")), Pose(("augeL", "augeR")), Pose(("head", "tail")).paired([])):
        say_sides("set", pose)
    assert not caplog.records
    say_sides("set", Pose(("linkes auge", "rechtes auge")))
    assert "set: the names of points tell no left from right (linkes auge, rechtes auge)" in caplog.text


@pytest.mark.parametrize("horizontal", [True, False])
def test_every_mirror_exchanges_points(horizontal):
    found = objects().moved(Mirror((10, 10), horizontal)).keypoints[0]
    expected = [[7, 4, 1], [9, 2, 2]] if horizontal else [[3, 6, 1], [1, 8, 2]]
    assert found.tolist() == expected


def test_a_half_turn_and_a_stretch_exchange_none():
    turned = objects().placed(Placement(-1, -1, 10, 10))
    assert turned.keypoints[0].tolist() == [[9, 8, 2], [7, 6, 1]]
    assert objects(pose=None).placed(Placement(2, 3)).keypoints[0].tolist() == [[2, 6, 2], [6, 12, 1]]


def test_an_affine_mirror_exchanges_points():
    matrix = np.array([[-1.0, 0, 9], [0, 1, 0]])
    moved = objects().warped(matrix, (10, 10)).keypoints[0]
    np.testing.assert_allclose(moved, [[7, 4, 1], [9, 2, 2]])


def test_points_that_nothing_names_are_not_mirrored():
    with pytest.raises(DataError, match="nothing says which of 2 points these are"):
        objects(pose=None).moved(Mirror((10, 10)))
    with pytest.raises(ShapeError, match="objects have 2 points, but their pose names 5"):
        objects(pose=FACE_POINTS).moved(Mirror((10, 10)))
    none = Instances(Boxes.none(), np.zeros(0, np.int64), keypoints=np.zeros((0, 2, 3), np.float32))
    assert len(none.moved(Mirror((10, 10)))) == 0


def test_joined_objects_keep_a_pose_that_they_share():
    assert Instances.joined([objects(), objects()]).pose == TWO
    assert Instances.joined([objects(), objects(pose=None)]).pose is None
