"""Pairs of folders, lists and Cityscapes' tree are read, from folders and zips; what is wrong is named."""

import shutil

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.segmentation.datasets import Cityscapes, ImageLabelPairs
from suites.segmentation.datasets.cityscapes import CLASSES as CITYSCAPES
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import write_image
from tests.suites.segmentation.helpers import CLASSES, scene, write_scenes


@pytest.fixture
def root(tmp_path):
    write_scenes(tmp_path / "data", "train", 3)
    return tmp_path / "data"


def pairs(root, **arguments):
    return ImageLabelPairs(root, **{"images": "train/images", "labels": "train/labels", **arguments})


@pytest.mark.parametrize("packed", [False, True])
def test_two_folders_are_paired_by_name(root, packed):
    if packed:
        root = shutil.make_archive(str(root), "zip", root)
    data = pairs(root)
    rng = np.random.default_rng(0)
    assert (len(data), data.class_names, data.num_classes, len(data.palette)) == (3, CLASSES, 3, 3)
    for i in range(3):
        image, labels = scene(rng)
        np.testing.assert_array_equal(data[i].image, image)
        np.testing.assert_array_equal(data[i].labels, labels)
        np.testing.assert_array_equal(data.image(i), image)
    assert data.name_of(1).endswith("train/images/001.png")


def test_a_list_names_its_pairs_in_its_order(root):
    lines = ["train/images/002.png train/labels/002.png", "", "train/images/000.png,train/labels/001.png"]
    (root / "few.txt").write_text("\n".join(lines))
    data = pairs(root, pairs="few.txt")
    assert [data.name_of(i)[-7:] for i in range(len(data))] == ["002.png", "000.png"]
    np.testing.assert_array_equal(data[1].labels, pairs(root)[1].labels)


def test_numbers_that_are_ignored_become_void(root):
    assert set(np.unique(pairs(root, ignore_labels=[2])[0].labels)) == {0, 1, 255}


@pytest.mark.parametrize(
    ("spoil", "arguments", "match"),
    [
        (lambda r: (r / "train/labels/001.png").unlink(), {}, r"001\.png has no label map train/labels/001\.png"),
        (lambda r: None, {"images": "nowhere"}, "no images in the folder 'nowhere'"),
        (lambda r: (r / "classes.txt").unlink(), {}, r"no classes\.txt or labels\.txt .* set classes"),
        (lambda r: (r / "l.txt").write_text("\nc"), {"pairs": "l.txt"}, r"l\.txt:2: expects 'image label', found"),
        (lambda r: (r / "l.txt").write_text("a b"), {"pairs": "l.txt"}, r"l\.txt:1: names a, which is not there"),
        (lambda r: (r / "l.txt").write_text("\n"), {"pairs": "l.txt"}, r"l\.txt: the list is empty"),
        (lambda r: None, {"pairs": "none.txt"}, r"none\.txt: cannot be read"),
    ],
)  # fmt: skip
def test_wrong_folders_and_lists_are_named(root, spoil, arguments, match):
    spoil(root)
    with pytest.raises(DataError, match=match):
        pairs(root, **arguments)


def test_classes_and_palette_must_agree(root):
    with pytest.raises(AttributeValueError, match="palette: it has 1 colours for 3 classes"):
        pairs(root, palette=[(0, 0, 0)])
    with pytest.raises(AttributeValueError, match="classes: there are 1; 2 to 255"):
        pairs(root, classes=["all"])


def test_a_label_map_of_another_size_or_with_an_unknown_class_is_named(root):
    with pytest.raises(DataError, match=r"train/labels/000\.png: holds the label 2, but there are 2 classes"):
        pairs(root, classes=["a", "b"])[0]
    (root / "train/labels/000.png").write_bytes(encode_labels(np.zeros((48, 60), np.uint8), []))
    with pytest.raises(DataError, match=r"labels/000\.png: is 60x48 but its picture .*000\.png is 64x48"):
        pairs(root)[0]


def write_city(root, city="ulm", number=0):
    """One image whose labels are all the ids of Cityscapes, 0 to 33, in columns."""
    name = f"{city}_{number:06d}"
    ids = np.repeat(np.arange(34, dtype=np.uint8)[None], 4, axis=0)
    write_image(root / "leftImg8bit/train" / city / f"{name}_leftImg8bit.png", np.zeros((4, 34, 3), np.uint8))
    (root / "gtFine/train" / city).mkdir(parents=True, exist_ok=True)
    (root / "gtFine/train" / city / f"{name}_gtFine_labelIds.png").write_bytes(encode_labels(ids, []))


@pytest.mark.parametrize("packed", [False, True])
def test_cityscapes_ids_become_19_train_ids(tmp_path, packed):
    root = tmp_path / "cs"
    for city in ("ulm", "aachen"):
        write_city(root, city)
    data = Cityscapes(shutil.make_archive(str(root), "zip", root) if packed else root, "train")
    assert [data.name_of(i).split("/")[-2] for i in range(len(data))] == ["aachen", "ulm"]
    row = data[0].labels[0]
    assert [int(row[number]) for number, _, _ in CITYSCAPES] == list(range(19))
    assert (row == 255).sum() == 34 - 19
    assert data.class_names[13] == "car" and data.palette[13] == (0, 0, 142)


def test_cityscapes_says_what_is_missing(tmp_path):
    with pytest.raises(DataError, match=r"no leftImg8bit/val/<city>/\*_leftImg8bit\.png; root is the folder above"):
        Cityscapes(tmp_path, "val")
    write_city(tmp_path)
    next((tmp_path / "gtFine/train/ulm").iterdir()).unlink()
    with pytest.raises(DataError, match=r"gtFine/train/ulm/ulm_000000_gtFine_labelIds\.png is missing"):
        Cityscapes(tmp_path, "train")


def test_camvid_as_it_is_shipped(shared_data):
    zipped = shared_data("segmentation/camvid/camvid.zip")
    sizes = {"train": 367, "val": 101, "test": 233}
    for split, count in sizes.items():
        data = ImageLabelPairs(zipped, images=split, labels=f"{split}annot", ignore_labels=[11])
        assert (len(data), data.num_classes) == (count, 11)
        sample = data[count // 2]
        assert sample.image.shape == (360, 480, 3)
        assert set(np.unique(sample.labels)) <= {*range(11), 255}
