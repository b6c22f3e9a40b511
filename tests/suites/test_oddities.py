"""What strangers' files hold that tools do not expect: read rightly, or refused by name; never read otherwise."""

import json
import os

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.classification.datasets import PhotoFolder
from suites.ctr.datasets import ClickLog
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.schema import schema_of
from suites.detection.datasets import CocoDetection
from suites.detection.datasets.folder import DetectionFolder
from suites.engine.config.tree.yaml_text import parse_text
from suites.engine.data.intake.texts import classes_in, json_in
from suites.engine.data.intake.written import number_in
from suites.nlp.datasets import Texts
from suites.segmentation.datasets import SegmentationFolder


def picture(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (20, 30, 3), np.uint8))
    return path


@pytest.mark.parametrize("text", ["1_0", "\u0663", "0x10", "nan", "inf", "1,5", "", "1 0"])
def test_a_text_that_is_no_plain_number_is_none(text):
    with pytest.raises(ValueError, match="is no number"):
        number_in(text)
    assert [number_in(each) for each in ("+5", " 5 ", "5.", ".5", "1e2", 3)] == [5, 5, 5, 0.5, 100, 3]
    with pytest.raises(TypeError):
        number_in(True)


def coco(tmp_path, change=lambda text: text):
    for at in range(3):
        picture(tmp_path / f"{at}.jpg", at)
    images = [{"id": at, "file_name": f"{at}.jpg", "width": 30, "height": 20} for at in range(3)]
    boxes = [{"id": at, "image_id": at, "category_id": 1, "bbox": [1, 2, 5, 6]} for at in range(3)]
    document = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "train.json").write_text(change(json.dumps(document)))
    return CocoDetection(str(tmp_path / "train.json"), str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"bbox": [1, 2, 5, 6]', '"bbox": [9, 9, 3, 3], "bbox": [1, 2, 5, 6]', "the key 'bbox' stands twice"),
        ('"categories":', '"annotations": [], "categories":', "the key 'annotations' stands twice in one object"),
        ('"category_id": 1', '"category_id": true', "has category_id True"),
        ('"bbox": [1, 2,', '"bbox": ["1_0", 2,', "bbox is"),
        ('"image_id": 1', '"image_id": "\u0661"', "image"),
    ],
)
def test_coco_files_that_would_be_read_otherwise_are_refused(tmp_path, old, new, message):
    with pytest.raises(DataError, match=message):
        coco(tmp_path, lambda text: text.replace(old, new, 1))


def yolo(tmp_path, line, classes="x\ny\n", pictures=("0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg")):
    for at, name in enumerate(pictures):
        picture(tmp_path / "images" / name, at)
        (tmp_path / "labels").mkdir(exist_ok=True)
        (tmp_path / "labels" / f"{name.split('.')[0]}.txt").write_text(line)
    (tmp_path / "classes.txt").write_text(classes)
    return DetectionFolder(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("line", "classes", "message"),
    [
        ("0 0.5 0.5 0.2 0_2\n", "x\n", "are not all numbers"),
        ("\u0660 0.5 0.5 0.2 0.2\n", "x\n", "are not all numbers"),
        ("0 0.5 0.5 0.2 0.2\n", "x\nx\n", "the class 'x' stands 2 times"),
        ("0 0.5 0.5 0.2 0.2\n", "x\n\ny\n", r"classes.txt:2: the line is empty, and numbers of classes are lines"),
    ],
)
def test_yolo_texts_and_class_lists_that_would_be_read_otherwise_are_refused(tmp_path, line, classes, message):
    with pytest.raises(DataError, match=message):
        yolo(tmp_path, line, classes)


def test_class_lists_may_end_in_empty_lines_and_hold_remarks():
    assert classes_in(b"\nx\n# why\ny\n\n \n", "a", remark="#") == ["x", "y"]


def test_numbers_of_names_in_data_yaml_have_no_gap_and_no_name_comes_twice(tmp_path):
    yolo(tmp_path, "0 0.5 0.5 0.2 0.2\n")
    for names, message in (("{0: x, 2: y}", "are not 0 to 1, each once"), ("[x, x]", "the class 'x' stands twice")):
        (tmp_path / "data.yaml").write_text(f"names: {names}\n")
        with pytest.raises(DataError, match=message):
            DetectionFolder(str(tmp_path), "train")


def test_pictures_of_one_name_that_share_an_annotation_are_told(tmp_path, caplog):
    yolo(tmp_path / "a", "0 0.5 0.5 0.2 0.2\n", pictures=("0.jpg", "0.JPG", *(f"{at}.jpg" for at in range(1, 6))))
    assert "1 texts belong to several pictures of one name: images/0.JPG, images/0.jpg" in caplog.text
    for at in range(6):
        picture(tmp_path / "b" / "images" / f"{at}.jpg", at)
        (tmp_path / "b" / "masks").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / "b" / "masks" / f"{at}.png"), np.full((20, 30), at % 2 * 255, np.uint8))
    picture(tmp_path / "b" / "images" / "0.png", 9)
    for part in ("train", "val"):
        SegmentationFolder(str(tmp_path / "b"), part)
    assert "label maps belong to several pictures of one name" in caplog.text


def test_links_that_lead_to_themselves_hide_nothing_and_are_told(tmp_path, caplog):
    caplog.set_level("INFO")
    for at in range(12):
        picture(tmp_path / "ab"[at % 2] / f"{at}.jpg", at)
    os.symlink(tmp_path / "b" / "self", tmp_path / "b" / "self")
    os.symlink(tmp_path, tmp_path / "a" / "above")
    train, val = PhotoFolder(str(tmp_path)), PhotoFolder(str(tmp_path), "val")
    assert train.class_names == ("a", "b") and len(train) + len(val) == 12
    assert (
        "1 broken links (b/self)" in caplog.text and "1 links to folders that are read anyway (a/above)" in caplog.text
    )


ROWS = "".join(f"{at % 2},u{at % 7},{at * 1.5}\n" for at in range(60))
QUOTED = "".join(f'{at % 2}, u{at % 7}, "{at},5"\n' for at in range(60))  # behind spaces


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"click","us\ner","price"\n' + ROWS, ["us\ner", "price"]),
        (("click,user,price\n" + ROWS).replace("\n", ",\n"), ["user", "price"]),
        ("click, user ,price\n" + ROWS, ["user", "price"]),
        ("click, user, price\n" + QUOTED, ["user", "price"]),
    ],
)
def test_odd_names_of_columns_are_read(tmp_path, text, columns):
    path = tmp_path / "log.csv"
    path.write_text(text)
    schema = schema_of(parse_text(guess_schema(path), "guessed").plain())
    assert list(schema.features) == columns and len(ClickLog(schema, str(path), [])) == 60


def test_a_row_with_a_nul_byte_is_left_out_as_the_native_reader_does(tmp_path):
    (tmp_path / "log.csv").write_text("click,user,price\n" + ROWS + "1,u\0,4\n")
    schema = schema_of(parse_text(guess_schema(tmp_path / "log.csv"), "guessed").plain())
    log = ClickLog(schema, str(tmp_path / "log.csv"), [], max_skipped=0.1)
    assert len(log) == 60 and log.left_out.reasons[0][1] == "holds a NUL byte"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "a", "label": "x"},]', "the JSON is cut off or malformed"),
        ('[{"text": "a", "label": "x", "label": "y"}]', "the key 'label' stands twice"),
    ],
)
def test_json_that_is_malformed_is_no_json_lines(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=message):
        Texts(str(tmp_path / "a.json"))
    with pytest.raises(DataError, match=message):
        json_in(text.encode(), "a.json")
