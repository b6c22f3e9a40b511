"""Image classification datasets read folders, zips and lists, and name what is wrong with them."""

import zipfile

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.classification.datasets import Digits, ImageFolder, ImageList
from suites.vision.images import write_image


def image(value):
    return np.full((6, 8, 3), value, np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Five images of cats (0 to 4) and three of dogs (100 to 102), a list and names of classes."""
    for name, first, count in (("cat", 0, 5), ("dog", 100, 3)):
        for i in range(count):
            write_image(tmp_path / "set" / name / f"a picture {i}.png", image(first + i))
    (tmp_path / "set" / "train.txt").write_text("cat/a picture 1.png 0\n\ndog/a picture 2.png 1\n")
    (tmp_path / "set" / "classes.txt").write_text("Cat\nDog\n")
    return tmp_path / "set"


@pytest.fixture
def zipped(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for path in folder.rglob("*.*"):
            archive.write(path, path.relative_to(folder))
    return tmp_path / "set.zip"


@pytest.mark.parametrize("kind", ["folder", "zipped"])
def test_a_folder_a_class(kind, request):
    root = str(request.getfixturevalue(kind))
    data = ImageFolder(root)
    assert data.class_names == ("cat", "dog") and data.labels.tolist() == [0] * 5 + [1] * 3
    sample = data.load(6)
    assert sample.image.shape == (6, 8, 3) and sample.image[0, 0].tolist() == [101] * 3
    assert sample.labels.tolist() == [1] and sample.name == data.name_of(6) == f"{root}/dog/a picture 1.png"
    train, val = (ImageFolder(root, holdout=3, split=split) for split in ("train", "val"))
    assert [val.load(i).image[0, 0, 0] for i in range(len(val))] == [2, 102]
    assert len(train) == 6 and train.class_names == val.class_names


@pytest.mark.parametrize("kind", ["folder", "zipped"])
def test_a_list_of_images(kind, request):
    root = str(request.getfixturevalue(kind))
    data = ImageList(root, "train.txt", classes="classes.txt")
    assert data.class_names == ("Cat", "Dog") and data.labels.tolist() == [0, 1]
    assert [data.load(i).image[0, 0, 0] for i in range(2)] == [1, 102]
    assert ImageList(root, "train.txt").class_names == ("0", "1")
    assert ImageList(root, "train.txt", ["a", "b", "c"]).num_classes == 3


def test_digits_are_real_and_their_splits_share_none():
    train, val = Digits("train"), Digits("val")
    assert (len(train), len(val), train.num_classes) == (1438, 359, 10)
    assert train.load(0).image.shape == (8, 8, 3) and train.load(0).labels.tolist() == [0]
    assert (np.bincount(val.labels) > 30).all()


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        ("cat/a picture 1.png zero\n", r"train.txt:1: expects 'path label', found 'cat/a picture 1.png zero'"),
        ("cat/a picture 1.png 0\n0\n", r"train.txt:2: expects 'path label', found '0'"),
        ("cat/a picture 1.png 2\n", r"cat/a picture 1.png has label 2 but there are 2 classes, 0 to 1"),
        ("cat/1.png 0\ndog/2.png 1\n", r"train.txt: 2 of 2 images are missing, the first is cat/1.png"),
        ("\n", r"train.txt: the list is empty"),
        (b"\xff\xfe\x00", r"train.txt: is no UTF-8 text"),
    ],
)
def test_a_wrong_list_names_file_and_line(folder, lines, match):
    (folder / "train.txt").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    with pytest.raises(DataError, match=match):
        ImageList(str(folder), "train.txt", classes="classes.txt")


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(DataError, match=r"no images; expected one folder a class .* found the folders: none"):
        ImageFolder(str(folder / "cat"))
    with pytest.raises(DataError, match=r"no such folder or .zip file"):
        ImageFolder(str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nolist.txt: cannot be read"):
        ImageList(str(folder), "nolist.txt")
    with pytest.raises(AttributeValueError, match="holdout is 1; it must be 2 or more"):
        ImageFolder(str(folder), holdout=1)


def test_a_damaged_image_is_named(folder):
    (folder / "cat" / "a picture 0.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DataError, match=r"cat/a picture 0.png: cut off"):
        ImageFolder(str(folder)).load(0)
