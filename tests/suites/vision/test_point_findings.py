"""What is wrong with points is found, whatever format they came from, and what is right is left alone."""

import numpy as np
import pytest

from suites.vision.point_findings import Pointed, point_findings, pose_findings
from suites.vision.pose import COCO_PERSON, FACE_68, MPII_PERSON, Pose

FACE = Pose(("left_eye", "right_eye", "nose", "mouth"), (), ((0, 2), (1, 2)))
PLACES = np.array([(60, 30), (30, 30), (45, 45), (45, 60)], float)  # a face from the front: its left is at the right


def faces(count=12, **given):
    """Objects in pictures of 100 x 100 pixels, each in its own, moved and turned a little."""
    rng = np.random.default_rng(0)
    points = np.zeros((count, 4, 3))
    for at in range(count):
        turn = rng.uniform(0, 2 * np.pi)
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        points[at, :, :2] = (PLACES - 45) @ rotation.T + 50 + rng.uniform(-5, 5, 2)
    points[..., 2] = 2
    low, high = points[..., :2].min(axis=1) - 5, points[..., :2].max(axis=1) + 5
    held = {
        "points": points,
        "boxes": np.concatenate([low, high], axis=1),
        "sizes": np.full((count, 2), 100),
        "owners": np.arange(count),
        "names": [f"face {at}" for at in range(count)],
        "pose": FACE,
    }
    return Pointed(**{**held, **given})


def texts(seen):
    return [f"{found.level}: {found.text}" for found in point_findings(seen)]


def test_right_points_have_no_findings_and_the_known_poses_fit_themselves():
    assert texts(faces()) == []
    assert [pose_findings(pose) for pose in (COCO_PERSON, MPII_PERSON, FACE_68)] == [[], [], []]


def test_points_at_zero_are_errors_with_their_names():
    seen = faces()
    seen.points[3, 1, :2] = 0
    (found,) = [each for each in point_findings(seen) if "0,0" in each.text]
    assert found.level == "error" and found.places == ("face 3: right_eye",) and found.samples == (3,)
    assert "visibility 0" in found.advice


def test_shares_in_place_of_pixels_are_one_error():
    seen = faces()
    seen.points[..., :2] /= 100
    assert texts(seen)[0].startswith("error: all points lie between 0 and 1")


@pytest.mark.parametrize("count", [1, 6])
def test_objects_outside_of_their_pictures_are_told_apart_from_single_points(count):
    seen = faces()
    seen.points[:count, :3, 0] += 300
    seen.points[11, 3, 1] = 150
    level = "error" if count == 6 else "warning"
    assert f"{level}: {count} objects have most of their points outside of their picture" in texts(seen)
    assert "warning: 1 labelled points lie outside of their picture" in texts(seen)


def test_points_outside_are_unknown_where_the_format_says_so_and_where_no_size_is_known():
    seen = faces(outside_is_unknown=True, boxes=np.full((12, 4), np.nan))
    seen.points[0, 0, :2] = -1
    assert texts(seen) == ["note: 1 points lie outside of their picture, so they count as unknown"]
    seen = faces(sizes=np.zeros((12, 2), int))
    seen.points[0, 0, :2] = 120
    assert not any("picture" in text for text in texts(seen))


def test_boxes_of_other_objects_or_of_another_form_are_found():
    seen = faces()
    seen.boxes[:6] += 90
    assert "error: 6 objects have most of their points outside of their box" in texts(seen)
    assert "warning: 6 boxes reach beyond their picture" in texts(seen)
    seen = faces()
    seen.boxes[2, 2:] = seen.boxes[2, :2] + seen.boxes[2, 2:] + 40  # x1, y1, x2, y2 read as x, y, width, height
    assert "warning: 1 boxes reach beyond their picture" in texts(seen)
    assert not any("box" in text for text in texts(faces(boxes=seen.boxes, rough_boxes=True)))


def test_objects_without_a_box_are_a_note():
    seen = faces()
    seen.boxes[4] = np.nan
    assert texts(seen) == ["note: 1 objects have no box; that around their points is taken"]


def test_left_and_right_that_are_swapped_are_found_at_any_turn():
    seen = faces(40)
    seen.points[[5, 7]] = seen.points[[5, 7]][:, [1, 0, 2, 3]]
    (found,) = point_findings(seen)
    assert found.text.startswith("2 objects have left and right the other way round") and found.samples == (5, 7)


def test_objects_that_are_seen_from_both_sides_are_left_alone():
    seen = faces()
    seen.points[::2] = seen.points[::2][:, [1, 0, 2, 3]]
    assert texts(seen) == []


def test_hips_against_shoulders_are_found_in_people_of_any_side():
    points = np.zeros((2, 17, 3))
    names = COCO_PERSON.names
    for name, place in {
        "left_shoulder": (60, 30), "right_shoulder": (40, 30), "left_hip": (58, 60), "right_hip": (42, 60)
    }.items():  # fmt: skip
        points[:, names.index(name)] = (*place, 2)
    points[1, [11, 12]] = points[1, [12, 11]]
    boxes, sizes = np.tile([35.0, 25, 65, 65], (2, 1)), np.full((2, 2), 100)
    seen = Pointed(points, boxes, sizes, np.arange(2), ["a", "b"], COCO_PERSON)
    (found,) = [each for each in point_findings(seen) if "hips" in each.text]
    assert found.text == "1 people have hips against shoulders" and found.places == ("b",)


def test_objects_that_are_labelled_twice_or_at_one_place_are_found():
    seen = faces(owners=np.repeat(np.arange(6), 2))
    seen.points[7] = seen.points[6] + [1, 1, 0]
    seen.boxes[7] = seen.boxes[6]
    assert texts(seen) == ["warning: 1 objects are labelled twice"]
    assert texts(faces(owners=np.zeros(12, int))) == []
    seen = faces()
    seen.points[2, :3, :2] = 50
    assert texts(seen) == ["warning: 1 objects have most of their points at one place"]


def test_points_that_are_rare_or_in_no_object_are_named():
    seen = faces()
    seen.points[:, 3] = 0
    seen.points[4:, 2] = 0
    assert texts(seen) == [
        "warning: 1 of 4 points are labelled in no object: mouth",
        "warning: 1 points are labelled in fewer than 10 objects",
    ]


@pytest.mark.parametrize(
    ("pose", "said"),
    [
        (Pose(("a", "b", "c"), (1, 2, 0)), "error: a second mirror does not bring back 3 points: a, b, c"),
        (
            Pose(("left_eye", "nose")),
            "error: a mirrored picture has no points: the point 'left_eye' has no 'right_eye'",
        ),
        (Pose(("tip", "end")), "note: the names of points tell no left from right"),
        (Pose(FACE.names, (0, 1, 2, 3)), "warning: 2 points change places in a mirror otherwise than their names say"),
        (Pose(("a", "b"), (1, 0), ((0, 0), (0, 1), (1, 0))), "note: 2 lines of the skeleton join a point with itself"),
    ],
)
def test_a_table_of_a_mirror_and_a_skeleton_that_do_not_fit_are_found(pose, said):
    (found,) = pose_findings(pose)
    assert f"{found.level}: {found.text}".startswith(said)


def test_points_without_names_have_numbers():
    seen = faces(pose=None)
    seen.points[0, 0, :2] = 0
    assert point_findings(seen)[0].places == ("face 0: 0",)
