"""DetectionFolder: formats and parts of plain folders are found; classes are the same in all parts."""

import json
import zipfile

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.detection.datasets import DetectionFolder
from suites.detection.datasets.folder import recognise
from suites.engine import cli

BOX = (8, 6, 24, 18)


def photo(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (24, 32, 3), np.uint8))


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def xml(name, label):
    corners = "".join(
        f"<{key}>{value}</{key}>" for key, value in zip(("xmin", "ymin", "xmax", "ymax"), BOX, strict=True)
    )
    size = "<size><width>32</width><height>24</height></size>"
    return (
        f"<annotation><filename>{name}</filename>{size}<object><name>{label}</name><bndbox>{corners}</bndbox></object>"
        "</annotation>"
    )


def coco(names, label):
    images = [{"id": i, "file_name": name, "width": 32, "height": 24} for i, name in enumerate(names)]
    boxes = [
        {"id": i, "image_id": i, "category_id": label, "bbox": [8, 6, 16, 12], "iscrowd": 0} for i in range(len(names))
    ]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    return json.dumps({"images": images, "annotations": boxes, "categories": categories})


def voc(root, count=10):
    for at in range(count):
        photo(root / f"JPEGImages/{at}.jpg", at)
        put(root / f"Annotations/{at}.xml", xml(f"{at}.jpg", ("cat", "dog")[at % 2]))


def voc_of_labelimg(root):
    voc(root)
    for path in root.glob("Annotations/*.xml"):
        path.write_text(path.read_text().replace("<annotation>", '<annotation verified="yes">'))


def voc_with_lists(root):
    voc(root)
    put(root / "ImageSets/Main/train.txt", "".join(f"{at}\n" for at in range(8)))
    put(root / "ImageSets/Main/val.txt", "8\n9\n")


def voc_beside(root):
    for at in range(10):
        photo(root / f"{at}.jpg", at)
        put(root / f"{at}.xml", xml(f"{at}.jpg", ("cat", "dog")[at % 2]))


def voc_of_roboflow(root):
    for part, at, label in (("train", 0, "cat"), ("train", 1, "cat"), ("valid", 2, "dog")):
        photo(root / f"{part}/{at}.jpg", at)
        put(root / f"{part}/{at}.xml", xml(f"{at}.jpg", label))


def coco_official(root):
    for part, at in (("train2017", 0), ("train2017", 1), ("val2017", 2)):
        photo(root / f"{part}/{at}.jpg", at)
    put(root / "annotations/instances_train2017.json", coco(["0.jpg", "1.jpg"], 1))
    put(root / "annotations/instances_val2017.json", coco(["2.jpg"], 2))
    said = {"id": 0, "image_id": 0, "caption": "a cat"}
    images = [{"id": 0, "file_name": "0.jpg"}]
    for part in ("train2017", "val2017"):
        put(root / f"annotations/captions_{part}.json", json.dumps({"images": images, "annotations": [said]}))
        put(root / f"annotations/person_keypoints_{part}.json", coco(["0.jpg"], 1))


def coco_of_roboflow(root):
    for part, at in (("train", 0), ("train", 1), ("valid", 2)):
        photo(root / f"{part}/{at}.jpg", at)
    put(root / "train/_annotations.coco.json", coco(["0.jpg", "1.jpg"], 1))
    put(root / "valid/_annotations.coco.json", coco(["2.jpg"], 2))


def coco_of_cvat(root):
    for at in range(10):
        photo(root / f"images/{at}.jpg", at)
    put(root / "annotations/instances_default.json", coco([f"{at}.jpg" for at in range(10)], 2))


def yolo(root, parts=("train", "val"), place="images/{part}", count=5):
    for part in parts:
        for at in range(count):
            photo(root / place.format(part=part) / f"{at}.jpg", at + 100 * (part != "train"))
            text = root / place.format(part=part).replace("images", "labels") / f"{at}.txt"
            put(text, f"{at % 2} 0.5 0.5 0.5 0.5\n")
    put(root / "data.yaml", "names: [cat, dog]\n")


def yolo_of_roboflow(root):
    yolo(root, ("train", "valid"), "{part}/images")


def yolo_without_parts(root):
    for at in range(10):
        photo(root / f"{at}.jpg", at)
        put(root / f"{at}.txt", f"{at % 2} 0.5 0.5 0.5 0.5\n")
    put(root / "classes.txt", "cat\ndog\n")


def labelme(root):
    for at in range(10):
        photo(root / f"{at}.jpg", at)
        shape = {"label": ("cat", "dog")[at % 2], "points": [[8, 6], [24, 18]], "shape_type": "rectangle"}
        put(root / f"{at}.json", json.dumps({"imagePath": f"{at}.jpg", "shapes": [shape]}))


SETS = {
    voc: (8, 2), voc_of_labelimg: (8, 2), voc_with_lists: (8, 2), voc_beside: (8, 2), voc_of_roboflow: (2, 1),
    coco_official: (2, 1), coco_of_roboflow: (2, 1), coco_of_cvat: (8, 2), yolo: (5, 5), yolo_of_roboflow: (5, 5),
    yolo_without_parts: (8, 2), labelme: (8, 2),
}  # fmt: skip


@pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("lies", ["folder", "folder in a folder", "zip", "zip of a folder"])
def test_plain_folders_open_with_their_parts(tmp_path, make, lies):
    root = tmp_path / "set"
    make(root / "my photos" if lies.endswith("a folder") else root)
    if lies.endswith("a folder"):
        put(root / "README.md", "of cats and dogs")
    if lies.startswith("zip"):
        with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
            for path in sorted(root.rglob("*.*")):
                archive.write(path, path.relative_to(root))
        root = tmp_path / "set.zip"
    train, val = (DetectionFolder(str(root), part) for part in ("train", "val"))
    assert (len(train), len(val)) == SETS[make]
    assert train.class_names == val.class_names == ("cat", "dog")
    assert {train.name_of(i) for i in range(len(train))}.isdisjoint({val.name_of(i) for i in range(len(val))})
    assert train[0].instances.boxes.array.tolist() == [list(BOX)]
    found = recognise(root)
    assert found is not None and found.config == "detection/photos" and found.overrides == (f"data.root={root}",)


def test_a_picture_that_a_zip_lacks_is_named(tmp_path):
    voc(tmp_path / "set")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for path in sorted((tmp_path / "set").rglob("*.*")):
            if path.name != "3.jpg":
                archive.write(path, path.relative_to(tmp_path / "set"))
    with pytest.raises(DataError, match=r"set.zip.*3.jpg: the picture is missing"):
        DetectionFolder(str(tmp_path / "set.zip"))
    assert len(DetectionFolder(str(tmp_path / "set.zip"), bad_images="skip")) == 7


def voc_in_two_folders(root):
    for at in range(10):
        photo(root / f"{'ab'[at % 2]}/{at // 2}.jpg", at)
        put(root / f"{'ab'[at % 2]}/{at // 2}.xml", xml(f"{at // 2}.jpg", ("cat", "dog")[at % 2]))


def coco_with_folders_in_images(root):
    names = [f"{'ab'[at % 2]}/{at // 2}.jpg" for at in range(10)]
    for at, name in enumerate(names):
        photo(root / "images" / name, at)
    put(root / "annotations.json", coco(names, 1))


@pytest.mark.parametrize("make", [voc_in_two_folders, coco_with_folders_in_images], ids=lambda each: each.__name__)
def test_pictures_of_one_name_in_two_folders_are_two(tmp_path, make):
    make(tmp_path)
    sets = [DetectionFolder(str(tmp_path), part) for part in ("train", "val")]
    names = [each.name_of(at) for each in sets for at in range(len(each))]
    assert len(names) == len(set(names)) == 10
    assert sum(each.ground_truth().boxes.shape[0] for each in sets) == 10


def test_copies_of_a_photo_and_roboflow_s_variants_stay_together(tmp_path):
    for at in range(20):
        photo(tmp_path / f"{at:02}.jpg", at // 4)  # four copies each
        put(tmp_path / f"{at:02}.xml", xml(f"{at:02}.jpg", "cat"))
    for at in range(8):
        name = f"v{at // 2}_jpg.rf.0123456789abcde{at}"
        photo(tmp_path / f"{name}.jpg", 50 + at)
        put(tmp_path / f"{name}.xml", xml(f"{name}.jpg", "cat"))
    train, val = (DetectionFolder(str(tmp_path), part) for part in ("train", "val"))

    def originals(dataset):
        names = [dataset.name_of(i).rpartition("/")[2] for i in range(len(dataset))]
        return {name.partition("_jpg")[0] if "rf" in name else int(name[:2]) // 4 for name in names}

    assert len(train) + len(val) == 28 and originals(train).isdisjoint(originals(val)) and len(val) >= 4


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"notes.txt": ""}, "no pictures in it .*there are 1 .txt files"),
        ({"a.jpg": None}, "1 pictures, but no annotation of a known format"),
        ({"a.jpg": None, "a.txt": "0 0.5 0.5 0.5 0.5"}, "1 pictures, but no annotation of a known format"),
        ({"a.jpg": None, "a.json": coco(["a.jpg"], 1), "train_a.json": "{}"}, None),
    ],
)
def test_what_is_no_set_says_what_lies_there(tmp_path, files, message):
    for name, text in files.items():
        photo(tmp_path / name) if text is None else put(tmp_path / name, text)
    if message is None:
        assert len(DetectionFolder(str(tmp_path))) == 1
        return
    with pytest.raises(DataError, match=message):
        DetectionFolder(str(tmp_path))
    assert recognise(tmp_path) is None


def test_data_check_says_what_a_plain_folder_is_and_how_to_train_on_it(tmp_path, capsys):
    voc(tmp_path / "my photos", count=60)
    assert cli.main(["data", "check", str(tmp_path / "my photos")]) == 0
    said = capsys.readouterr().out
    assert "Pascal VOC: 60 annotations, 60 pictures, without parts, so every fifth photo is for evaluation" in said
    assert f"to train on it: paddock train detection/photos -o 'data.root={tmp_path}/my photos'" in said


def test_data_check_of_what_no_suite_knows_is_one_error(tmp_path, capsys):
    put(tmp_path / "set/notes.bin", "x")
    assert cli.main(["data", "check", str(tmp_path / "set")]) == 2
    assert "is no config, and no suite knows what data it holds" in capsys.readouterr().err


def test_several_files_of_a_part_are_named_and_none_is_left_out_without_a_word(tmp_path):
    coco_official(tmp_path)
    put(tmp_path / "annotations/instances_train_more.json", coco(["1.jpg"], 1))
    with pytest.raises(DataError, match=r"2 annotation files of the part 'train': annotations/instances_train20"):
        DetectionFolder(str(tmp_path))
