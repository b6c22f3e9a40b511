"""Strangers' detection sets: lines of YOLO by what they hold, stated sizes, names in lists, categories, flags."""

import json

import cv2
import numpy as np
import pytest

from framework.errors import DataError, PaddockError
from suites.detection.datasets import CocoDetection, LabelmeDetection, VocDetection, YoloDetection
from suites.detection.datasets.annotations import RawAnnotations


def picture(path, width=64, height=48):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.full((height, width, 3), 90, np.uint8))


def yolo(root, lines, document="names: [cat, dog]\n", count=3):
    for at in range(count):
        picture(root / f"images/train/{at}.png")
        text = root / f"labels/train/{at}.txt"
        text.parent.mkdir(parents=True, exist_ok=True)
        text.write_text("".join(f"{line}\n" for line in lines))
    (root / "data.yaml").write_text(document)
    return root


def boxes(dataset):
    return dataset.ground_truth().boxes[0].tolist()


BOX, AS_PIXELS = "0 0.5 0.5 0.5 0.5", [16, 12, 48, 36]


@pytest.mark.parametrize(
    ("line", "document"),
    [
        (BOX, ""),
        (f"{BOX} 0.9", ""),  # a confidence
        ("0.0 0.5 0.5 0.5 0.5", ""),
        ("0 0.25 0.25 0.75 0.25 0.75 0.75", ""),  # a polygon
        ("0 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75", ""),  # an oriented box
        ("0 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75 0.8", ""),
        (f"{BOX} 0.3 0.3 2 0.4 0.4 1 0 0 0", ""),  # three keypoints with their visibility
        (f"{BOX} 0.3 0.3 2 0.4 0.4 1", ""),  # two: ten numbers, as a polygon of five points has
        (f"{BOX} 0.3 0.3 0.4 0.4", "kpt_shape: [2, 2]\n"),
        (f"{BOX} 0.3 0.3 0.4 0.4 0.9", "kpt_shape: [2, 2]\n"),
    ],
)
def test_lines_are_read_by_what_they_hold(tmp_path, line, document):
    assert boxes(YoloDetection(yolo(tmp_path, [line], f"names: [cat, dog]\n{document}"), "train")) == AS_PIXELS


def test_what_may_be_keypoints_or_polygons_is_refused_until_it_is_said(tmp_path):
    root = yolo(tmp_path, [f"{BOX} 0.3 0.3 0.4 0.4 0.5 0.5"])
    with pytest.raises(DataError, match=r"3 keypoints in it, or a polygon of 5 points. Say kpt_shape: \[3, 2\]"):
        YoloDetection(root, "train")
    assert boxes(YoloDetection(root, "train", lines="keypoints")) == AS_PIXELS
    assert boxes(YoloDetection(root, "train", lines="polygons")) == pytest.approx([19.2, 14.4, 32, 24])


@pytest.mark.parametrize("line", ["0 0.5 0.5 0.5 0.5 7", "0 0.5 0.5 0.5", "0 32 24 10 10", "0.5 0.5 0.5 0.5 0.5"])
def test_what_is_none_of_them_is_named_by_file_and_line(tmp_path, line):
    with pytest.raises(DataError, match=r"0.txt:1: "):
        YoloDetection(yolo(tmp_path, [line]), "train", max_skipped=0)


def test_data_yaml_says_where_pictures_lie_and_valid_is_val(tmp_path):
    for place in ("there/images/1.png", "valid/images/2.png"):
        picture(tmp_path / place)
    (tmp_path / "data.yaml").write_text(
        "path: /home/me/set\ntrain: ../there/images\nval: ../valid/images\nnames: {0: a}\n"
    )
    assert YoloDetection(tmp_path, "train").name_of(0).endswith("there/images/1.png")
    assert YoloDetection(tmp_path, "val").name_of(0).endswith("valid/images/2.png")


def test_a_list_of_pictures_in_data_yaml_is_followed(tmp_path):
    picture(tmp_path / "pictures/a b.png")
    (tmp_path / "pictures/a b.txt").write_text(BOX + "\n")
    (tmp_path / "one.txt").write_text("./pictures/a b.png\n")
    (tmp_path / "data.yaml").write_text("train: one.txt\nnames: [a]\n")
    assert boxes(YoloDetection(tmp_path, "train")) == AS_PIXELS


def voc(root, name, stated=(64, 48), actual=(64, 48), filename=None, difficult="0"):
    picture(root / f"JPEGImages/{name}.png", *actual)
    path = root / f"Annotations/{name}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<annotation><filename>{filename or name + '.png'}</filename><size><width>{stated[0]}</width>"
        f"<height>{stated[1]}"
        f"</height></size><object><name>cat</name><difficult>{difficult}</difficult><bndbox><xmin>16</xmin><ymin>12</ymin>"
        "<xmax>48</xmax><ymax>36</ymax></bndbox></object></annotation>"
    )
    return root


@pytest.mark.parametrize("actual", [(32, 24), (128, 96), (33, 24)])
def test_a_scaled_copy_of_what_was_annotated_is_fitted_and_said_once(tmp_path, caplog, actual):
    voc(tmp_path, "1", actual=actual)
    voc(tmp_path, "2", actual=actual)
    dataset = VocDetection(tmp_path)
    with caplog.at_level("WARNING"):
        sample, _ = dataset[0], dataset[1]
    assert sample.image.shape == (48, 64, 3) and sample.instances.boxes.array.tolist() == [AS_PIXELS]
    assert caplog.text.count("taken for a scaled copy") == 1


@pytest.mark.parametrize(
    ("actual", "why"), [((48, 64), "before its EXIF rotation"), ((64, 64), "correct the annotation")]
)
def test_a_picture_of_another_shape_is_refused(tmp_path, actual, why):
    with pytest.raises(DataError, match=why):
        VocDetection(voc(tmp_path, "1", actual=actual))[0]


def test_labelme_s_stated_size_is_compared_too(tmp_path):
    shape = {"label": "cat", "points": [[16, 12], [48, 36]], "shape_type": "rectangle"}
    picture(tmp_path / "day 1/1.png", 32, 24)
    document = {"imagePath": "C:\\me\\1.png", "imageWidth": 64, "imageHeight": 48, "shapes": [shape]}
    (tmp_path / "day 1/1.json").write_text(json.dumps(document), encoding="utf-8-sig")
    sample = LabelmeDetection(tmp_path)[0]
    assert sample.image.shape == (48, 64, 3) and sample.instances.boxes.array.tolist() == [AS_PIXELS]


def test_names_of_voc_lists_hold_spaces_marks_and_folders(tmp_path):
    for name in ("scan", "scan (1)", "day2/a.b", "x"):
        voc(tmp_path, name)
    path = tmp_path / "ImageSets/Main/train.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes("\ufeffscan\r\nscan (1)\r\nday2\\a.b\r\nx.png\r\nscan  1\r\nx -1\r\n".encode())
    names = [VocDetection(tmp_path, "train").name_of(at).removeprefix(f"{tmp_path}/JPEGImages/") for at in range(6)]
    assert names == ["scan.png", "scan (1).png", "day2/a.b.png", "x.png", "scan.png", "x.png"]


def coco(root, annotations, categories=((1, "cat"), (2, "dog"))):
    picture(root / "train/1.jpg")
    document = {
        "images": [{"id": 1, "file_name": ".\\train\\1.jpg", "width": 64, "height": 48}],
        "annotations": [{"id": i, "image_id": 1, "bbox": [16, 12, 32, 24], **a} for i, a in enumerate(annotations)],
        "categories": [{"id": i, "name": n, "supercategory": "pets"} for i, n in categories],
    }
    path = root / "a.json"
    path.write_text(json.dumps(document), encoding="utf-16")
    return CocoDetection(path, root / "train")


@pytest.mark.parametrize(
    ("value", "crowd"), [("0", False), (0, False), ("1", True), (True, True), ("false", False), (None, False)]
)
def test_flags_as_text_say_what_they_say(tmp_path, value, crowd):
    assert coco(tmp_path, [{"category_id": 1, "iscrowd": value}]).ground_truth().crowd.tolist() == [crowd]


def test_a_flag_that_says_neither_is_named(tmp_path):
    with pytest.raises(DataError, match="annotation 0: iscrowd is 'maybe'; it must be 0 or 1"):
        coco(tmp_path, [{"category_id": 1, "iscrowd": "maybe"}])


@pytest.mark.parametrize(
    ("categories", "names"),
    [
        (((0, "animals"), (1, "cat"), (2, "dog")), ("cat", "dog")),
        (((1, "cat"), (2, "dog"), (3, "pets")), ("cat", "dog")),
        (((1, "cat"), (2, "cat")), ("cat",)),
        (((1, "cat"), (2, "dog"), (3, "bird")), ("cat", "dog", "bird")),  # only unseen here
    ],
)
def test_categories_that_stand_above_others_are_no_classes(tmp_path, categories, names):
    used = [{"category_id": 1}] if len(categories) == 2 else [{"category_id": 1}, {"category_id": 2}]
    assert coco(tmp_path, used, categories).class_names == names


def test_a_category_that_another_part_uses_stays(tmp_path):
    other = {"images": [], "categories": [], "annotations": [{"category_id": 0}]}
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert coco(tmp_path, [{"category_id": 1}], ((0, "animals"), (1, "cat"))).class_names == ("animals", "cat")


@pytest.mark.parametrize("categories", [((1, "cat"), (1, "dog")), ((1, None), (2, "dog")), ((1, "cat"), (2, "cat"))])
def test_categories_that_cannot_be_told_apart_are_one_error(tmp_path, categories):
    with pytest.raises(PaddockError, match=r"two categories have the id 1|has no name|both have the name"):
        coco(tmp_path, [{"category_id": 1}, {"category_id": 2}], categories)


def test_two_annotations_that_lead_to_one_picture_are_an_error(tmp_path):
    picture(tmp_path / "1.jpg")
    images = [{"id": at, "file_name": f"{folder}/1.jpg", "width": 64, "height": 48} for at, folder in enumerate("ab")]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": images, "annotations": [], "categories": [{"id": 1, "name": "cat"}]}))
    with pytest.raises(DataError, match=r"1\.jpg: two annotations lead to this picture, image 0 and image 1;"):
        CocoDetection(path, tmp_path)


def test_a_picture_whose_first_annotation_was_left_out_may_have_another():
    raw = RawAnnotations()
    with pytest.raises(DataError, match="the size of no image"):
        raw.add_image("1.jpg", (-1, 1), "1.xml")
    raw.add_image("1.jpg", (48, 64), "2.xml")
    raw.cut(0, 0)
    assert raw.add_image("1.jpg", (48, 64), "3.xml") == 0
