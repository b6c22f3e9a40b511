"""YoloDetection: places in shares of the picture, polygons, and one clear error for each kind of bad line."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets import YoloDetection
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import SIZE, image, zip_folder

BOX = "0 0.5 0.5 0.1 0.1\n"


def write(root, texts, split="train", names="names: [cat, dog]\n", beside=False):
    images, labels = ("", "") if beside else (f"images/{split}", f"labels/{split}") if split else ("images", "labels")
    for at, (stem, text) in enumerate(texts.items()):
        write_image(root / images / f"{stem}.png", image(at))
        if text is not None:
            (root / labels).mkdir(parents=True, exist_ok=True)
            (root / labels / f"{stem}.txt").write_text(text)
    if names is not None:
        (root / "data.yaml").write_text(names)
    return root


def test_boxes_are_centres_and_sizes_as_shares_of_the_picture(tmp_path):
    texts = {"a": "1 0.5 0.5 0.2 0.5\n\n0 0.25 0.25 0.5 0.5\n", "b": "", "c": None}
    data = YoloDetection(write(tmp_path, texts), "train")
    assert (len(data), data.class_names) == (3, ("cat", "dog"))
    found = data[0].instances
    np.testing.assert_allclose(found.boxes.array, [[24, 10, 36, 30], [0, 0, 30, 20]], atol=1e-5)
    np.testing.assert_array_equal(found.classes, [1, 0])
    assert len(data[1].instances) == len(data[2].instances) == 0


def test_polygons_become_masks(tmp_path):
    text = "0 0.1 0.1 0.5 0.1 0.5 0.5 0.1 0.5\n"
    data = YoloDetection(write(tmp_path, {"a": text}, names="names: {0: cat}\n"), "train", masks=True)
    found = data[0].instances
    np.testing.assert_allclose(found.boxes.array, [[6, 4, 30, 20]], atol=1e-5)
    assert found.masks.areas()[0] == 24 * 16 and data.has_masks
    assert not YoloDetection(tmp_path, "train").has_masks


@pytest.mark.parametrize("layout", ["folders first", "no split", "beside", "zip"])
def test_the_usual_layouts_are_found(tmp_path, layout):
    split = None if layout in ("no split", "beside") else "val"
    root = write(tmp_path / "set", {"a": BOX, "b": BOX}, split, beside=layout == "beside")
    if layout == "folders first":
        for kind in ("images", "labels"):
            (root / "val").mkdir(exist_ok=True)
            (root / kind / "val").rename(root / "val" / kind)
    if layout == "zip":
        root = zip_folder(root, tmp_path / "set.zip")
    assert len(YoloDetection(root, split)) == 2


def test_without_lists_every_nth_picture_is_held_out(tmp_path):
    write(tmp_path, dict.fromkeys("abcdef", BOX), None)
    train, val = (YoloDetection(tmp_path, split, holdout=3) for split in ("train", "val"))
    assert (len(train), len(val)) == (4, 2)
    assert {val.name_of(i)[-5] for i in range(2)} == {"c", "f"}
    with pytest.raises(AttributeValueError, match="with holdout, at least 2, the split is train or val"):
        YoloDetection(tmp_path, "test", holdout=3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 0.5 0.5 0.1", r"a.txt:2: 3 numbers behind the class"),
        ("cat 0.5 0.5 0.1 0.1", r"a.txt:2: 'cat 0.5 0.5 0.1 0.1' are not all numbers"),
        ("2 0.5 0.5 0.1 0.1", r"a.txt:2: class 2 is none of the 2 classes, 0 to 1"),
        ("0 30 20 10 10", r"a.txt:2: numbers from 10 to 30; places are shares of the picture, 0 to 1"),
        ("0 0.5 nan 0.1 0.1", r"a.txt:2: .*are not all numbers"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    write(tmp_path, {"a": f"{BOX}{line}\n"})
    with pytest.raises(DataError, match=message):
        YoloDetection(tmp_path, "train")


def test_boxes_are_refused_where_masks_are_wanted(tmp_path):
    write(tmp_path, {"a": BOX})
    with pytest.raises(DataError, match="for masks a polygon of three points or more is needed"):
        YoloDetection(tmp_path, "train", masks=True)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (None, "no names of classes"),
        ("nc: 2\n", "has no list `names`"),
        ("names: [\n", "not valid YAML"),
        ("names: [a, {b: c}]\n", "has no list `names`"),
        ("names: &a [cat]\n", "anchors"),
    ],
)
def test_names_of_classes_are_asked_for(tmp_path, names, message):
    write(tmp_path, {"a": ""}, names=names)
    with pytest.raises(DataError, match=message):
        YoloDetection(tmp_path, "train")


def test_a_folder_without_pictures_says_where_it_looked(tmp_path):
    write(tmp_path, {"a": ""})
    with pytest.raises(
        DataError, match=r"no pictures in images/val, val/images, images/valid, .*; without folders of splits"
    ):
        YoloDetection(tmp_path, "val")


def test_damaged_pictures_are_an_error_or_counted(tmp_path):
    write(tmp_path, {"a": BOX, "b": ""})
    (tmp_path / "images/train/b.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"b\.png"):
        YoloDetection(tmp_path, "train")
    data = YoloDetection(tmp_path, "train", bad_images="skip")
    assert len(data) == 1 and data.counts["bad_images"] == 1


def test_the_size_is_that_of_the_picture(tmp_path):
    data = YoloDetection(write(tmp_path, {"a": ""}), "train")
    assert data[0].size == SIZE


def test_names_are_in_the_order_of_their_numbers_and_words_of_yaml_1_1_are_words(tmp_path):
    names = "names:\n" + "".join(f"  {number}: c{number}\n" for number in (10, *range(2, 10), 0)) + "  1: no\n"
    found = YoloDetection(write(tmp_path, {"a": ""}, names=names), "train").class_names
    assert found == ("c0", "no", *(f"c{number}" for number in range(2, 11)))
