"""`paddock data check` finds what would spoil a network of points, in each format that the suite reads."""

import json

import numpy as np
import pytest

from suites.engine.cli.data import main
from suites.keypoints.datasets import CocoKeypoints, LabelmeKeypoints, MpiiKeypoints, PointTable
from suites.keypoints.inspection import PointInspector
from suites.vision.pictures.images import read_image, write_image
from tests.suites.keypoints.helpers import coco, person


def texts(found):
    return [f"{finding.level}: {finding.text}" for finding in found.findings]


def people(count=12, changes=None):
    rows = [person(at) for at in range(count)]
    for at, change in (changes or {}).items():
        rows[at] = {**rows[at], **change}
    return rows


def altered(at, value):
    """The points of `person` with number `at` of the list another."""
    points = person(0)["keypoints"]
    points[at] = value
    return {"keypoints": points}


def drawn(root, rows, **category):
    """Pictures that are no copies of each other, with these annotations."""
    annotations, images = coco(root, rows, **category)
    for at in range(len(rows)):
        pixels = np.full((64, 80, 3), 40 + at, np.uint8)
        write_image(root / f"{at}.png", pixels)
    return CocoKeypoints(annotations, images)


def test_a_clean_set_has_no_findings_and_says_what_it_holds(tmp_path):
    found = PointInspector().inspect(drawn(tmp_path, people()))
    assert texts(found) == [] and len(set(found.digests)) == 12
    assert found.summary == [
        "12 objects (person) in 12 pictures",
        "labelled points of an object: 17 to 17 of 17, mean 17.0",
        "pictures: 80 to 80 wide, 64 to 64 high",
        "each point is labelled in 12 objects",
    ]


@pytest.mark.parametrize("how", ["inspect", "glance"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (altered(2, 3), "error: 1 objects have a visibility that is none of 0, 1 and 2"),
        (altered(2, 0.5), "error: 1 objects have a visibility that is none of 0, 1 and 2"),
        (altered(2, 0), "note: 1 objects have points with a place and visibility 0"),
        ({"num_keypoints": 3}, "warning: 1 objects have another num_keypoints than labelled points"),
        ({"keypoints": [0, 0, 2, *person(0)["keypoints"][3:]]}, "error: 1 labelled points lie at 0,0"),
        (altered(0, 90), "warning: 1 labelled points lie outside of their picture"),
        ({"bbox": [0, 0, 5, 5]}, "warning: 1 objects have most of their points outside of their box"),
        ({"bbox": [16, 8, 90, 90]}, "warning: 1 boxes reach beyond their picture"),
        ({"bbox": [0, 0, 0, 0]}, "note: 1 objects have no box"),
        ({"keypoints": [0] * 51}, "note: 1 objects have no labelled point and are left out"),
        (
            {"keypoints": [20, 20, 2, *[0] * 48], "bbox": None},
            "warning: 1 objects have no box and points that span no area, and are left out",
        ),
    ],
)
def test_what_strangers_get_wrong_in_coco_is_found(tmp_path, change, said, how):
    found = getattr(PointInspector(), how)(drawn(tmp_path, people(13, {3: change})))
    assert [text for text in texts(found) if text.startswith(said)], texts(found)


@pytest.mark.parametrize("change", [{"keypoints": [1, 2, 2]}, {"bbox": [1, 1, 0, 5]}, {"bbox": [1, 1, -4, 5]}])
def test_annotations_that_are_left_out_are_errors(tmp_path, change):
    annotations, images = coco(tmp_path, people(12, {3: change}))
    found = PointInspector().inspect(CocoKeypoints(annotations, images, max_skipped=0.5))
    assert (
        texts(found)[0] == "error: 1 could not be used and were left out"
        and "annotation 3" in found.findings[0].places[0]
    )


def test_pictures_that_cannot_be_read_and_copies_with_other_points_are_errors(tmp_path):
    data = drawn(
        tmp_path, people(13, {4: {"keypoints": [v + (k % 3 == 0) for k, v in enumerate(person(0)["keypoints"])]}})
    )
    write_image(tmp_path / "4.png", read_image(tmp_path / "2.png"))
    write_image(tmp_path / "5.png", read_image(tmp_path / "3.png"))
    (tmp_path / "6.png").write_bytes(b"no picture")
    for found in (PointInspector().inspect(data), PointInspector().glance(data)):
        said = texts(found)
        assert said[0] == "error: 1 objects cannot be used" and found.findings[0].samples == (6,)
        assert "error: 1 samples are copies of others, with another truth" in said
        assert "warning: 1 samples are copies of others" in said


def test_two_people_of_a_picture_are_no_copies_and_one_that_comes_twice_is_found(tmp_path):
    far = {"keypoints": [v + (20 if k % 3 == 0 else 0) for k, v in enumerate(person(0)["keypoints"])]}
    rows = people(12, {1: {"image_id": 0, **far, "bbox": [36, 8, 44, 44]}, 3: {"image_id": 2}})
    assert texts(PointInspector().inspect(drawn(tmp_path, rows))) == ["warning: 1 objects are labelled twice"]


def test_a_skeleton_or_a_pair_that_does_not_fit_is_told(tmp_path):
    data = drawn(tmp_path, people(12), skeleton=[[1, 1]])
    assert texts(PointInspector().inspect(data)) == [
        "note: 1 lines of the skeleton join a point with itself, or come twice"
    ]
    annotations, images = coco(tmp_path, people(12))
    swapped = CocoKeypoints(annotations, images, point_pairs=[("left_eye", "right_ear"), ("right_eye", "left_ear")])
    assert any("otherwise than their names say" in text for text in texts(PointInspector().inspect(swapped)))


def test_tables_labelme_and_mpii_are_looked_at_by_what_they_mean(tmp_path):
    points = [v for k in range(5) for v in (20 + 4 * k, 30 - 3 * k)]
    for at in range(12):
        write_image(tmp_path / f"{at}.png", np.full((64, 80, 3), at, np.uint8))
    rows = [
        ",".join(map(str, [f"{at}.png", *(points if at != 2 else [-1, -1, 0, 0, *points[4:]])])) for at in range(12)
    ]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    found = PointInspector().inspect(PointTable(str(tmp_path), "t.csv", "face_5"))
    assert texts(found)[:2] == [
        "error: 1 labelled points lie at 0,0",
        "note: 1 points lie outside of their picture, so they count as unknown",
    ]
    assert "write -1,-1" in found.findings[0].advice
    people_of = [
        {"image": f"{at}.png", "joints": [[20 + k, 20 + k] for k in range(16)], "joints_vis": [1] * 16,
         "center": [30, 30], "scale": 1.0}
        for at in range(12)
    ]  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps(people_of))
    assert texts(PointInspector().inspect(MpiiKeypoints(str(tmp_path / "m.json"), str(tmp_path)))) == []
    (tmp_path / "one").mkdir()
    write_image(tmp_path / "one" / "a.png", np.zeros((64, 80, 3), np.uint8))
    shapes = [
        {"label": label, "shape_type": "point", "points": [[x, 30]]} for label, x in (("left", 500), ("right", 20))
    ] + [{"label": "box", "shape_type": "rectangle", "points": [[10, 20], [40, 40]]}]
    document = {"shapes": shapes, "imagePath": "a.png", "imageHeight": 64, "imageWidth": 80}
    (tmp_path / "one" / "a.json").write_text(json.dumps(document))
    found = PointInspector().inspect(LabelmeKeypoints(str(tmp_path / "one")))
    assert "warning: 1 labelled points lie outside of their picture" in texts(found)


def test_the_command_draws_what_it_found_and_ends_with_1(tmp_path, capsys):
    drawn(tmp_path, people(12, {3: altered(2, 7)}))
    words = ["check", "keypoints/hrnet_w32_coco", "--pictures", str(tmp_path / "found")]
    for name in ("train", "eval"):
        words += ["-o", f"data.{name}.dataset.annotations={tmp_path / 'a.json'}"]
        words += ["-o", f"data.{name}.dataset.images={tmp_path}"]
    assert main(words) == 1
    told = capsys.readouterr().out
    assert "visibility that is none of 0, 1 and 2" in told and "between sets" in told
    assert list((tmp_path / "found" / "train").glob("error_*_00003.jpg"))
