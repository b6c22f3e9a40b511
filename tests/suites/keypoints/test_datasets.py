"""Objects of COCO's files and of tables; what is wrong with one is said, and what it lacks is no truth."""

import json
from pathlib import Path

import numpy as np
import pytest

from framework.errors import DataError
from suites.keypoints.datasets import CocoKeypoints, PointTable
from suites.vision.pictures.images import write_image
from tests.suites.keypoints.helpers import coco, person


def test_an_object_has_its_box_and_points(tmp_path):
    dataset = CocoKeypoints(*coco(tmp_path, [person(0), person(1)]))
    sample = dataset[1]
    assert len(dataset) == 2 and sample.number == 1 and sample.image_id == 1 and sample.sides == (44, 44)
    assert sample.instances.boxes.array.tolist() == [[16, 8, 60, 52]]
    assert sample.instances.keypoints.shape == (1, 17, 3) and sample.truth[3].tolist() == [26, 18, 2]
    assert dataset.part(1).shape == (44, 44, 3) and dataset.class_names == ("person",)


@pytest.mark.parametrize("changes", [{"bbox": None}, {"bbox": []}, {"bbox": [0, 0, 0, 0], "area": 0}])
def test_an_object_without_a_box_has_that_around_its_points(tmp_path, changes):
    sample = CocoKeypoints(*coco(tmp_path, [person(0, seen=9, **{"area": None, **changes})]))[0]
    assert sample.instances.boxes.array.tolist() == [[20, 12, 36, 28]] and sample.area == 256


def test_objects_without_a_labelled_point_and_crowds_are_left_out(tmp_path):
    rows = [person(0), person(1, seen=0), person(2, iscrowd=1), person(3, category_id=2)]
    assert len(CocoKeypoints(*coco(tmp_path, rows))) == 1
    assert len(CocoKeypoints(*coco(tmp_path, [person(0, seen=0), person(1), person(2)]), limit=2)) == 2
    with pytest.raises(DataError, match="there are no objects with a labelled point"):
        CocoKeypoints(*coco(tmp_path, [person(0, seen=0)]))


def test_a_crowd_is_told_by_numbers_and_texts(tmp_path):
    rows = [person(k, iscrowd=crowd) for k, crowd in enumerate((0, "0", False, None, 1, "1", True))]
    assert [found.image_id for found in map(CocoKeypoints(*coco(tmp_path, rows)).__getitem__, range(4))] == [0, 1, 2, 3]
    assert len(CocoKeypoints(*coco(tmp_path, rows))) == 4
    with pytest.raises(DataError, match="annotation 0: iscrowd is 'maybe'; it must be 0 or 1"):
        CocoKeypoints(*coco(tmp_path, [person(0, iscrowd="maybe")]))


def test_points_outside_of_the_picture_are_unlabelled(tmp_path):
    row = person(0)
    row["keypoints"][:6] = [-5, 10, 2, 20, 200, 2]
    truth = CocoKeypoints(*coco(tmp_path, [row]))[0].truth
    assert not truth[:2].any() and (truth[2:, 2] == 2).all()


def test_an_object_whose_points_all_lie_outside_is_an_error_of_its_file(tmp_path):
    row = person(0)
    row["keypoints"] = [900, 900, 2] * 17
    with pytest.raises(DataError, match="all points of an object lie outside of the picture, which is"):
        CocoKeypoints(*coco(tmp_path, [row]))[0]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"keypoints": [1, 2, 2]}, "annotation 0: needs bbox"),
        ({"bbox": [1, 2, 0, 4]}, "a box with an area is needed, or none"),
        ({"bbox": [1, 2]}, "annotation 0: needs bbox"),
        ({"image_id": 9}, "is of image 9, which is not among the images"),
        ({"image_id": [0]}, r"is of image \[0\], which is not among the images"),
        ({"area": "large"}, "annotation 0: needs bbox"),
        ({"area": float("nan")}, "and area nan; finite numbers are needed"),
    ],
)
def test_a_wrong_object_is_an_error_with_its_number(tmp_path, changes, match):
    with pytest.raises(DataError, match=match):
        CocoKeypoints(*coco(tmp_path, [person(0, **changes)]), max_skipped=0)


@pytest.mark.parametrize(
    ("category", "match"),
    [
        ({"skeleton": [[1, 99]]}, "skeleton names the point 99; there are 1 to 17"),
        ({"keypoints": []}, "keypoints; those that do: none"),
    ],
)
def test_a_wrong_category_is_an_error(tmp_path, category, match):
    with pytest.raises(DataError, match=match):
        CocoKeypoints(*coco(tmp_path, [person(0)], **category))


def test_pairs_and_categories_that_fit_no_object_are_told(tmp_path):
    path, root = coco(tmp_path, [person(0)])
    pairs = [("left_eye", "right_eye"), ("left_eye", "nose")]
    with pytest.raises(DataError, match="point_pairs: the point 'left_eye' stands in two pairs"):
        CocoKeypoints(path, root, point_pairs=pairs)
    with pytest.raises(DataError, match="point_pairs: no point is called 'left_ey'; did you mean 'left_eye'"):
        CocoKeypoints(path, root, point_pairs=[("left_ey", "right_eye")])
    path, root = coco(tmp_path / "b", [person(0, category_id="1")])
    with pytest.raises(DataError, match=r"no annotation is of category 'person', whose id is 1; they are of '1'"):
        CocoKeypoints(path, root)


@pytest.mark.parametrize(
    ("key", "entries", "match"),
    [
        ("images", [{"file_name": "0.png"}], "image 0 is .*; it needs an id and a file_name"),
        ("images", [7], "image 0 is '7'; it needs an id"),
        ("images", [{"id": 0, "file_name": "0.png"}, {"id": 0, "file_name": "1.png"}], "two images have the id 0"),
        ("annotations", ["x"], "annotation number 0: is 'x', no object of JSON"),
        ("categories", [{"name": "cat", "keypoints": ["nose"]}], "its id is None; it must be a whole number"),
    ],
)
def test_entries_of_another_form_are_one_error(tmp_path, key, entries, match):
    path, root = coco(tmp_path, [person(0)])
    document = json.loads(Path(path).read_text()) | {key: entries}
    Path(path).write_text(json.dumps(document))
    with pytest.raises(DataError, match=match):
        CocoKeypoints(path, root, max_skipped=0)


def test_a_table_has_an_object_a_picture(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((40, 50, 3), np.uint8))
    numbers = ",".join(str(5 + k) for k in range(10))
    (tmp_path / "t.csv").write_text(f"file,x0\na.png,{numbers}\n")
    sample = PointTable(str(tmp_path), "t.csv", "face_5")[0]
    assert sample.truth[0].tolist() == [5, 6, 2] and sample.sides == (8, 8) and sample.instances.pose is not None
    (tmp_path / "t.csv").write_text(f"Image Name,left eye x,y\na.png,{numbers}\n")
    assert len(PointTable(str(tmp_path), "t.csv", "face_5", max_skipped=0)) == 1
    (tmp_path / "t.csv").write_text(f"a.png,{numbers}\na.png,{'x,' * 9}x\n")
    with pytest.raises(DataError, match=r"t.csv:2: 'a.png' has 10 cells; 10 numbers follow a file"):
        PointTable(str(tmp_path), "t.csv", "face_5", max_skipped=0)
    (tmp_path / "t.csv").write_text("a.png,1,2\n")
    with pytest.raises(DataError, match="has 2 cells; 10 numbers follow a file"):
        PointTable(str(tmp_path), "t.csv", "face_5", max_skipped=0)


def test_a_box_around_points_is_around_those_in_the_picture(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((40, 50, 3), np.uint8))
    (tmp_path / "t.csv").write_text("a.png,10,12,30,12,-1,-1,12,28,70,30\na.png,-1,-1,30,12,-1,-1,-1,-1,70,30\n")
    found = PointTable(str(tmp_path), "t.csv", "face_5")
    assert found[0].instances.boxes.array.tolist() == [[10, 12, 30, 28]] and found[0].sides == (20, 16)
    assert found[0].truth[:, 2].tolist() == [2, 2, 0, 2, 0] and found[0].area == 320
    assert found.part(0).shape == (16, 20, 3)
    with pytest.raises(DataError, match=r"a.png: the points of an object that lie in the picture span no area"):
        found[1]


def test_a_picture_that_was_scaled_after_it_was_annotated_fits_its_points_again(tmp_path, caplog):
    path, root = coco(tmp_path, [person(0)])
    document = json.loads(Path(path).read_text())
    document["images"][0] |= {"height": 128, "width": 160}  # the picture is 64 high and 80 wide
    Path(path).write_text(json.dumps(document))
    found = CocoKeypoints(path, root)
    assert found[0].image.shape == (128, 160, 3) and found[0].truth[3].tolist() == [26, 18, 2]
    assert "It is taken for a scaled copy" in caplog.text
    document["images"][0] |= {"height": 80, "width": 64}
    Path(path).write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"0.png: the image is 80x64 but its annotation says 64x80"):
        CocoKeypoints(path, root)[0]
