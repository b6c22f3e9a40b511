"""PhotoFolder: a folder for each class, in parts or not; classes are those of training in every part."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.classification.datasets import ImageFolder, PhotoFolder
from suites.classification.datasets.folder import recognise
from suites.engine.cli.data import main


def photos(root, counts, first=0):
    for label, (name, count) in enumerate(counts.items()):
        for at in range(count):
            path = root / name / f"{at}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture = np.random.default_rng(first + 100 * label + at).integers(0, 255, (16, 16, 3), np.uint8)
            cv2.imwrite(str(path), picture)


def test_folders_of_classes_are_divided(tmp_path):
    photos(tmp_path, {"cat": 10, "dog": 5})
    train, val = (PhotoFolder(str(tmp_path), part) for part in ("train", "val"))
    assert (train.class_counts().tolist(), val.class_counts().tolist()) == ([8, 4], [2, 1])
    assert recognise(tmp_path).config == "classification/photos"


def test_folders_of_parts_keep_the_classes_of_training_where_a_part_lacks_one(tmp_path):
    photos(tmp_path / "train", {"ant": 2, "bee": 2, "cat": 2})
    photos(tmp_path / "valid", {"cat": 3}, first=1000)
    val = PhotoFolder(str(tmp_path), "val")
    assert val.class_names == ("ant", "bee", "cat") and val.class_counts().tolist() == [0, 0, 3]
    photos(tmp_path / "valid", {"dog": 1})
    with pytest.raises(DataError, match="the folder dog is none of the classes"):
        PhotoFolder(str(tmp_path), "val")


def test_classes_that_are_called_like_parts_are_classes_where_others_stand_beside(tmp_path):
    photos(tmp_path, {"train": 5, "car": 5})
    assert PhotoFolder(str(tmp_path)).class_names == ("car", "train")


def test_parts_without_folders_of_classes_are_no_classes(tmp_path):
    photos(tmp_path, {"train": 5, "valid": 5, "test": 5})
    with pytest.raises(DataError, match="the folders test, train, valid hold no folders of classes"):
        PhotoFolder(str(tmp_path))
    assert recognise(tmp_path) is None


def test_folders_without_files_are_no_classes_and_hide_no_parts(tmp_path):
    photos(tmp_path / "train", {"ant": 2, "bee": 2})
    photos(tmp_path / "val", {"ant": 1, "bee": 1}, first=1000)
    (tmp_path / "empty").mkdir()
    (tmp_path / "train" / "later").mkdir()
    (tmp_path / "train" / "loop").symlink_to(tmp_path, target_is_directory=True)
    train, val = (PhotoFolder(str(tmp_path), part) for part in ("train", "val"))
    assert train.class_names == ("ant", "bee") and (len(train), len(val)) == (4, 2)


def test_copies_of_a_photo_are_in_one_part(tmp_path):
    photos(tmp_path, {"cat": 20, "dog": 20})
    for at in range(10):
        (tmp_path / f"cat/{at}.jpg").write_bytes((tmp_path / "cat/0.jpg").read_bytes())
    train, val = (ImageFolder(str(tmp_path), holdout=5, split=part) for part in ("train", "val"))
    assert len(train) + len(val) == 40
    assert train.class_counts()[0] >= 10 + 8


def test_data_check_finds_damaged_photos_copies_and_copies_of_another_class(tmp_path, capsys):
    photos(tmp_path, {"cat": 12, "dog": 7})
    (tmp_path / "cat/1.jpg").write_bytes((tmp_path / "cat/0.jpg").read_bytes())
    (tmp_path / "dog/3.jpg").write_bytes((tmp_path / "cat/0.jpg").read_bytes())
    (tmp_path / "dog/0.jpg").write_bytes(b"no picture at all")
    assert main(["check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "error: 1 images cannot be read" in said and "warning: 1 samples are copies of others" in said
    assert "error: 1 samples are copies of others, with another truth" in said and ": dog, cat" in said
    assert "1 classes have fewer than 10 images" in said
