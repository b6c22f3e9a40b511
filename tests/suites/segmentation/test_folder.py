"""SegmentationFolder: folders, parts and kinds of label maps are found; evaluation of images of several sizes."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.segmentation.datasets import SegmentationFolder
from suites.segmentation.datasets.folder import recognise
from suites.vision.pictures.sizes import EqualSizes
from tests.suites.segmentation.helpers import write_scenes


def put(path, picture):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture)


def pairs(root, images="images", labels="masks", suffix=".png", values=(0, 255), count=10):
    rng = np.random.default_rng(0)
    for at in range(count):
        put(root / images / f"{at}.jpg", rng.integers(0, 255, (24, 32, 3), np.uint8))
        put(root / labels / f"{at}{suffix}", rng.choice(np.array(values, np.uint8), (24, 32)))


def parts(root):
    for part, count in (("train", 4), ("val", 2)):
        write_scenes(root, part, count, seed=len(part))


def parts_within(root):
    for part, count in (("train", 4), ("valid", 2)):
        pairs(root, f"images/{part}", f"labels/{part}", values=(0, 1, 2), count=count)
    (root / "classes.txt").write_text("a\nb\nc\n")


@pytest.mark.parametrize(
    ("make", "sizes", "names"),
    [
        (pairs, (8, 2), ("background", "object")),
        (lambda root: pairs(root, "JPEGImages", "SegmentationClass", values=(0, 1, 2, 255)), (8, 2), ("0", "1", "2")),
        (lambda root: pairs(root, "imgs", "masks", "_mask.png"), (8, 2), ("background", "object")),
        (parts, (4, 2), ("ground", "disc", "square")),
        (parts_within, (4, 2), ("a", "b", "c")),
    ],
)
def test_plain_folders_open_with_their_parts(tmp_path, make, sizes, names):
    make(tmp_path)
    train, val = (SegmentationFolder(str(tmp_path), part) for part in ("train", "val"))
    assert (len(train), len(val)) == sizes and train.class_names == val.class_names == names
    assert train[0].labels.shape == train[0].image.shape[:2]
    found = recognise(tmp_path)
    assert found is not None and found.config == "segmentation/photos"


def test_folders_without_label_maps_say_what_is_looked_for(tmp_path):
    pairs(tmp_path, labels="other")
    with pytest.raises(DataError, match="no folder of images beside a folder of label maps of the same names"):
        SegmentationFolder(str(tmp_path))
    assert recognise(tmp_path) is None


def test_batches_hold_neighbours_of_one_size_and_every_sample_once():
    sizes = np.array([[2, 3], [2, 3], [2, 3], [4, 3], [2, 3], [2, 3]])
    batches = EqualSizes(sizes, 2)
    found = [batches.batch(0, i).tolist() for i in range(len(batches))]
    assert found == [[0, 1], [2], [3], [4, 5]]
