"""LabelmeDetection: shapes of all kinds become objects, and files that are none are named."""

import base64
import json

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.detection.datasets import LabelmeDetection
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import SIZE, image, zip_folder

SQUARE = [[5, 5], [25, 5], [25, 15], [5, 15]]


def shape(label="cat", points=SQUARE, kind="polygon", **more):
    return {"label": label, "points": points, "shape_type": kind, **more}


def write(root, files):
    root.mkdir(exist_ok=True)
    for at, (stem, shapes) in enumerate(files.items()):
        write_image(root / f"{stem}.png", image(at))
        document = {"imagePath": f"..\\pictures\\{stem}.png", "imageData": "x" * 100, "shapes": shapes}
        (root / f"{stem}.json").write_text(json.dumps(document))
    return root


def test_shapes_of_all_kinds_become_objects(tmp_path):
    shapes = [
        shape(),
        shape("dog", [[30, 30], [10, 20]], "rectangle"),
        shape("dog", [[40, 20], [45, 20]], "circle"),
        shape("cat", [[1, 1], [2, 2]], "line"),
        shape("nose", [[1, 1]], "point"),
    ]
    data = LabelmeDetection(write(tmp_path, {"a": shapes}), masks=True)
    found = data[0].instances
    assert "2 shapes without an area, such as points" in str(data.passed)  # which make no class either
    assert data.class_names == ("cat", "dog") and data[0].size == SIZE
    np.testing.assert_allclose(found.boxes.array, [[5, 5, 25, 15], [10, 20, 30, 30], [35, 15, 45, 25]], atol=1e-4)
    np.testing.assert_array_equal(found.classes, [0, 1, 1])
    areas = found.masks.areas()
    assert areas[0] == areas[1] == 200
    assert areas[2] == pytest.approx(np.pi * 25, rel=0.2)  # in whole pixels


def painted(bitmap, left, top, **more):
    """A shape of type mask, as labelme's AI tools write it: a PNG as text between two corners, both in it."""
    height, width = bitmap.shape
    text = base64.b64encode(cv2.imencode(".png", bitmap.astype(np.uint8) * 255)[1]).decode()
    corners = [[left, top], [left + width - 1, top + height - 1]]
    return shape(points=corners, kind="mask", mask=text, **more)


def test_masks_keep_their_holes_and_join_polygons_of_their_group(tmp_path):
    ring = np.ones((6, 8), bool)
    ring[2:4, 2:4] = False
    part = shape(group_id=1, points=[[20, 5], [30, 5], [30, 9]])
    shapes = [painted(ring, 3, 2), painted(ring, 3, 2, group_id=1), part]
    data = LabelmeDetection(write(tmp_path, {"a": shapes}), masks=True)
    found = data[0].instances
    np.testing.assert_array_equal(found.boxes.array, [[3, 2, 11, 8], [3, 2, 30, 9]])
    alone, joined = found.masks.bitmaps()
    np.testing.assert_array_equal(alone[2:8, 3:11], ring)
    assert alone.sum() == ring.sum() < joined.sum() and not joined[4:6, 5:7].any()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"mask": None}, "a mask without its picture"),
        ({"mask": "***"}, "is no base64"),
        ({"points": [[3, 2], [9, 9]]}, r"its mask is 8x6, but its corners are 7x8 apart"),
    ],
)
def test_a_mask_that_is_wrong_is_named(tmp_path, change, match):
    wrong = painted(np.ones((6, 8), bool), 3, 2) | change
    with pytest.raises(DataError, match=rf"a.json: shape 0: .*{match}"):
        LabelmeDetection(write(tmp_path, {"a": [wrong]}), max_skipped=0)


def test_parts_of_a_group_are_one_object(tmp_path):
    shapes = [shape(group_id=3), shape(points=[[30, 5], [50, 5], [50, 15]], group_id=3), shape(group_id=None)]
    data = LabelmeDetection(write(tmp_path, {"a": shapes}))
    np.testing.assert_allclose(data[0].instances.boxes.array, [[5, 5, 50, 15], [5, 5, 25, 15]])


def test_classes_holdout_and_zip(tmp_path):
    root = write(tmp_path / "set", {stem: [shape()] for stem in "abcd"})
    (root / "classes.txt").write_text("dog\ncat\n")
    archive = zip_folder(root, tmp_path / "set.zip")
    val = LabelmeDetection(archive, "val", holdout=2)
    assert (len(val), val.class_names) == (2, ("dog", "cat"))
    assert len(LabelmeDetection(root, "train", holdout=4)) == 3


def test_other_classes_are_an_error_or_counted(tmp_path):
    write(tmp_path, {"a": [shape(), shape("cow")]})
    with pytest.raises(DataError, match=r"a.json: class 'cow' is not among the 1 classes \(cat\)"):
        LabelmeDetection(tmp_path, classes=["cat"])
    data = LabelmeDetection(tmp_path, classes=["cat"], unknown_class="skip")
    assert len(data[0].instances) == 1 and data.counts["unknown_class"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"a.json:1:2: the JSON is cut off or malformed"),
        ("[]", "a.json: has no list `shapes`"),
        (json.dumps({"imagePath": "a.png", "shapes": [shape(points=[[1, 2], [3, 4]])]}), "a polygon of 2 points"),
        (json.dumps({"imagePath": "a.png", "shapes": [{"label": "x"}]}), "shape 0: has no points"),
        (json.dumps({"imagePath": "a.png", "shapes": [shape(kind="star")]}), "a shape of type 'star'"),
        (json.dumps({"imagePath": "b.png", "shapes": []}), r"b\.png: the picture is missing"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, message):
    write(tmp_path, {"a": []})
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=message):
        LabelmeDetection(tmp_path)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no \.json files of labelme"):
        LabelmeDetection(tmp_path)
