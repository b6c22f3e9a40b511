"""What is written is read back: boxes, classes, flags and masks, in each format that has them."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.detection.datasets import CocoDetection, VocDetection, YoloDetection
from suites.detection.datasets.writing import WRITERS
from suites.detection.inspection import DetectionInspector
from tests.suites.detection.datasets.helpers import write_coco, write_voc

CAT, DOG = (5, 6, 20, 30), (10.5, 0, 55, 22.25)


@pytest.fixture
def voc(tmp_path):
    images = {"a": [("cat", CAT, False), ("dog", DOG, True)], "b": [], "c": [("dog", DOG, False)]}
    return VocDetection(write_voc(tmp_path / "source", images))


READERS = {
    "coco": lambda root, path: CocoDetection(path, root / "train"),
    "voc": lambda root, path: VocDetection(path, "train"),
    "yolo": lambda root, path: YoloDetection(path, "train"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_boxes_and_classes_come_back(tmp_path, voc, kind):
    path = WRITERS[kind](voc, [0, 2], tmp_path / "out", "train")
    back = READERS[kind](tmp_path / "out", path)
    assert len(back) == 2 and back.class_names == ("cat", "dog")
    for at, source in enumerate((0, 2)):
        one, two = voc[source], back[at]
        np.testing.assert_array_equal(one.image, two.image)
        np.testing.assert_allclose(one.instances.boxes.array, two.instances.boxes.array, atol=1e-4)
        np.testing.assert_array_equal(one.instances.classes, two.instances.classes)
    if kind == "voc":
        np.testing.assert_array_equal(back[0].instances.difficult, [False, True])


def test_masks_and_crowd_regions_come_back_in_coco_s_format(tmp_path):
    square = [[5, 6, 20, 6, 20, 30, 5, 30]]
    rows = [
        {"image_id": 10, "category_id": 3, "bbox": [5, 6, 15, 24], "segmentation": square},
        {"image_id": 11, "category_id": 7, "bbox": [5, 6, 15, 24], "segmentation": square, "iscrowd": 1},
    ]
    source = CocoDetection(write_coco(tmp_path / "source", rows), tmp_path / "source" / "images", masks=True)
    path = WRITERS["coco"](source, [0, 1], tmp_path / "out", "train")
    back = CocoDetection(path, tmp_path / "out" / "train", masks=True)
    for at in range(2):
        np.testing.assert_array_equal(source[at].instances.masks.bitmaps(), back[at].instances.masks.bitmaps())
    assert back[1].instances.crowd.tolist() == [True]


def test_what_a_format_has_no_place_for_is_told_and_crowd_regions_never_become_objects(tmp_path, voc, caplog):
    square = [[5, 6, 20, 6, 20, 30, 5, 30]]
    rows = [
        {"image_id": 10, "category_id": 3, "bbox": [5, 6, 15, 24], "segmentation": square, "iscrowd": k} for k in (0, 1)
    ]
    coco = CocoDetection(write_coco(tmp_path / "source", rows), tmp_path / "source" / "images", masks=True)
    for kind in ("voc", "yolo"):
        DetectionInspector().write(coco, [0], tmp_path / kind, "train", kind)
    back = VocDetection(tmp_path / "voc", "train")[0].instances
    assert back.difficult.tolist() == [False, True]
    assert len(YoloDetection(tmp_path / "yolo", "train")[0].instances) == 1
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records if record.levelname == "WARNING"] == [
        "masks are not written (2)",
        "crowd regions become difficult objects (1)",
        "masks are not written (2)",
        "crowd regions are left out (1)",
    ]
    caplog.clear()
    DetectionInspector().write(voc, [0], tmp_path / "coco", "train", "coco")
    assert "difficult objects become plain ones (1)" in caplog.text


def test_points_and_areas_come_back_in_coco_s_format_and_are_told_where_they_are_lost(tmp_path, caplog):
    points = [5, 6, 2, 19, 29, 1, 0, 0, 0]
    rows = [
        {"image_id": 11, "category_id": 3, "bbox": [5, 6, 15, 24], "area": 200, "keypoints": points},
        {"image_id": 11, "category_id": 3, "bbox": [1, 1, 4, 4], "area": 9},
    ]
    named = {"keypoints": ["nose", "left_ear", "right_ear"], "skeleton": [[1, 2], [1, 3]]}
    path = write_coco(tmp_path / "source", rows, categories=[{"id": 3, "name": "cat", **named}])
    source = CocoDetection(path, tmp_path / "source" / "images", keypoints=True)
    path = WRITERS["coco"](source, [1], tmp_path / "out", "train")
    back = CocoDetection(path, tmp_path / "out" / "train", keypoints=True)
    assert back.pose == source.pose and back.ground_truth().areas.tolist() == [200, 9]
    np.testing.assert_array_equal(back[0].instances.keypoints, source[1].instances.keypoints)
    for kind in ("voc", "yolo"):
        DetectionInspector().write(source, [1], tmp_path / kind, "train", kind)
        assert "points are not written (1)" in caplog.text
        caplog.clear()


def test_a_folder_with_other_files_is_not_overwritten(tmp_path, voc):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "classes.txt").write_text("mine")
    with pytest.raises(DataError, match="is there already with another content; choose an empty folder"):
        WRITERS["voc"](voc, [0], tmp_path / "out", "train")
    assert (tmp_path / "out" / "classes.txt").read_text() == "mine"
