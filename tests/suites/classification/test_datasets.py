"""Image classification datasets read folders, zips and lists, and name what is wrong with them."""

import zipfile

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.classification.datasets import Digits, ImageFolder, ImageList, ImageNet
from suites.vision.pictures.images import write_image
from suites.vision.recognition.sample import collate


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
        ("cat/1.png 0\ndog/2.png 1\n", r"train.txt:1: the image cat/1.png is missing; so are 1 others of 2 lines"),
        ("\n", r"train.txt: the list is empty"),
        (b"\xff\xfe\x00", r"train.txt:1: is no UTF-16-LE text"),
        (b"cat/\xe9.png 0\n", r"train.txt:1: is no UTF-8 text \(byte 0xe9"),
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


def test_folders_in_a_classs_folder_are_its_own(folder, tmp_path):
    write_image(folder / "cat" / "kittens" / "small" / "k.png", image(50))
    data = ImageFolder(str(folder))
    assert data.labels.tolist() == [0] * 6 + [1] * 3 and data.load(5).image[0, 0, 0] == 50


@pytest.mark.parametrize("kind", ["folder", "zipped"])
def test_a_list_of_images_with_any_number_of_classes(folder, kind, request):
    (folder / "many.txt").write_text("cat/a picture 1.png 0,2\ndog/a picture 2.png -\n\ndog/a picture 0.png 1\n")
    data = ImageList(str(request.getfixturevalue(kind)), "many.txt", ["a", "b", "c"], multi_label=True)
    assert data.multi_label and data.labels.tolist() == [0, -1, 1] and data.class_counts().tolist() == [1, 1, 1]
    assert [data.load(i).labels.tolist() for i in range(3)] == [[0, 2], [], [1]]
    batch = collate([data.load(i) for i in range(3)], 3)
    assert batch["targets"].tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]] and batch["labels"].tolist() == [0, -1, 1]


@pytest.mark.parametrize("line", ["cat/x.png", "cat/x.png 1;2", "cat/x.png 1,", "cat/x.png -1"])
def test_a_wrong_line_of_such_a_list_is_named(folder, line):
    (folder / "many.txt").write_text(f"cat/a picture 1.png 0\n{line}\n")
    with pytest.raises(DataError, match=r"many\.txt:2: expects 'path 0,3,5' or 'path -', found"):
        ImageList(str(folder), "many.txt", multi_label=True)


def imagenet(root, at, flat):
    for k, wordnet in enumerate(("n02", "n01")):
        write_image(root / at / "train" / wordnet / f"{wordnet}_0.JPEG", image(k))
        write_image(root / at / "val" / ("" if flat else wordnet) / f"val_{k}.JPEG", image(10 + k))
    (root / "LOC_synset_mapping.txt").write_text("n01 tench, Tinca tinca\nn02 goldfish\n")
    rows = ["ImageId,PredictionString", "val_0,n02 1 2 3 4 n02 5 6 7 8", "val_1,n01 1 2 3 4"]
    (root / "LOC_val_solution.csv").write_text("\n".join(rows) + "\n")
    return str(root)


@pytest.mark.parametrize(("at", "flat"), [("", False), ("", True), ("ILSVRC/Data/CLS-LOC", True)])
def test_imagenet_is_read_as_it_is_unpacked(tmp_path, at, flat):
    root = imagenet(tmp_path / "in", at, flat)
    train, val = ImageNet(root), ImageNet(root, "val")
    assert train.class_names == val.class_names == ("tench", "goldfish")  # in the order of their ids
    assert train.labels.tolist() == [0, 1] and sorted(val.labels.tolist()) == [0, 1]
    assert {val.load(i).image[0, 0, 0]: val.labels[i] for i in range(2)} == {10: 1, 11: 0}
    (tmp_path / "in" / "LOC_synset_mapping.txt").unlink()
    assert ImageNet(root).class_names == ("n01", "n02")


def test_what_is_no_imagenet_is_one_error(tmp_path):
    with pytest.raises(DataError, match="there is no folder train or ILSVRC/Data/CLS-LOC/train with images in it"):
        ImageNet(str(tmp_path))
    root = imagenet(tmp_path / "in", "", True)
    (tmp_path / "in" / "LOC_val_solution.csv").write_text("head\nval_0,n77 1 2 3 4\n")
    with pytest.raises(DataError, match="val has folders of no known class: n77"):
        ImageNet(root, "val")
    (tmp_path / "in" / "LOC_val_solution.csv").unlink()
    with pytest.raises(DataError, match=r"val has no folders and no LOC_val_solution\.csv"):
        ImageNet(root, "val")
