"""`paddock data` finds what would spoil a detector: pictures, boxes, classes, copies between sets."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.datasets import CocoDetection, LabelmeDetection, VocDetection
from suites.detection.inspection import DetectionInspector
from suites.engine.cli.data import main
from suites.engine.contract.inspection import shared_samples, split
from suites.vision.pictures.images import read_image, write_image
from tests.suites.detection.datasets.helpers import image, write_voc
from tests.suites.keypoints.helpers import coco, person

BOX = (5, 6, 30, 30)


def inspected(root, images, **given):
    data = VocDetection(write_voc(root, images), **given)
    return DetectionInspector().inspect(data)


def texts(found):
    return [f"{finding.level}: {finding.text}" for finding in found.findings]


def test_a_clean_set_has_no_findings(tmp_path):
    found = inspected(tmp_path, {f"{i:02d}": [("cat", BOX, False)] for i in range(12)})
    assert not found.findings and len(set(found.digests)) == 12
    assert found.summary[0] == "12 pictures, 12 boxes, 0 of them crowd regions"


def test_boxes_that_teach_nothing_are_found(tmp_path):
    objects = [("cat", BOX, False), ("cat", (5, 6, 30, 29.9), False), ("cat", (1, 1, 3, 3), False)]
    objects += [("cat", (0, 30, 60, 35), False), ("cat", (50, 30, 90, 39), False)]
    found = inspected(tmp_path, {"a": objects, "b": []}, classes=["cat", "cow"])
    assert texts(found) == [
        "warning: 1 of 2 classes have no object: cow",
        "warning: 1 classes have fewer than 10 objects",
        "note: 1 pictures without objects",
        "warning: 1 boxes reached beyond their picture and were cut",
        "warning: 1 boxes with a side below 4 pixels",
        "warning: 1 boxes more than 10 times as long as wide",
        "warning: 1 boxes that are annotated twice",
    ]
    assert found.findings[-1].samples == (0,) and "a.png" in found.findings[-1].places[0]


def test_pictures_of_more_objects_than_coco_s_figures_count_are_told(tmp_path):
    objects = [("cat", (i % 50, i // 50 * 5, i % 50 + 6, i // 50 * 5 + 6 + i / 50), False) for i in range(101)]
    found = inspected(tmp_path, {"a": objects, "b": objects[:100]})
    (told,) = (finding for finding in found.findings if "more than 100 objects" in finding.text)
    assert told.level == "note" and told.samples == (0,) and "metric.max_detections" in told.advice


def test_pictures_that_cannot_be_used_are_errors(tmp_path):
    root = write_voc(tmp_path, {"a": [("cat", BOX, False)], "b": [("cat", BOX, False)]})
    data = VocDetection(root)
    write_image(root / "JPEGImages" / "b.png", image(0, (25, 30)))
    found = DetectionInspector().inspect(data)
    assert texts(found)[0] == "error: 1 pictures cannot be used"
    assert "the image is 30x25 but its annotation says 60x40" in found.findings[0].places[0]


def test_pictures_without_an_annotation_are_told(tmp_path):
    root = write_voc(tmp_path / "voc", {name: [("cat", BOX, False)] for name in "ab"}, {"train": ["a"], "val": ["b"]})
    write_image(root / "JPEGImages" / "c.d.png", image(0))
    other = (root / "Annotations" / "b.xml").rename(root / "Annotations" / "e.xml")  # its picture is named in it
    other.write_text(other.read_text().replace("<annotation>", "<annotation><filename>b.png</filename>", 1))
    (told,) = (one for one in DetectionInspector().inspect(VocDetection(root)).findings if "no annotation" in one.text)
    assert told.level == "note" and told.text.startswith("1 pictures") and told.places == ("JPEGImages/c.d.png",)
    (tmp_path / "labelme").mkdir()
    for name in ("a", "b"):
        write_image(tmp_path / "labelme" / f"{name}.png", image(0))
    shape = {"label": "cat", "points": [[5, 6], [30, 30]], "shape_type": "rectangle"}
    (tmp_path / "labelme" / "a.json").write_text(json.dumps({"imagePath": "a.png", "shapes": [shape]}))
    assert LabelmeDetection(tmp_path / "labelme").unannotated == ("b.png",)


def test_images_that_were_left_out_at_the_start_are_errors(tmp_path):
    root = write_voc(tmp_path, {name: [("cat", BOX, False)] for name in "abc"})
    (root / "Annotations" / "b.xml").write_text("<annotation>")
    found = DetectionInspector().inspect(VocDetection(root, max_skipped=0.5))
    assert texts(found)[0] == "error: 1 could not be used and were left out"
    assert "b.xml:1: the XML is cut off or malformed" in found.findings[0].places[0]


def test_copies_are_found_in_a_set_and_between_sets(tmp_path):
    root = write_voc(tmp_path / "one", {name: [("cat", BOX, False)] for name in "abc"})
    write_image(root / "JPEGImages" / "c.png", image(0))
    other = write_voc(tmp_path / "two", {"x": [("cat", BOX, False)]})
    one, two = (DetectionInspector().inspect(VocDetection(folder)) for folder in (root, other))
    assert "warning: 1 samples are copies of others" in texts(one)
    (shared,) = shared_samples({"train": {"train": one}, "eval": {"eval": two}})
    assert shared.level == "error" and "1 samples of eval are copies of samples of train" in shared.text


def test_a_split_keeps_copies_together_and_is_drawn_by_its_seed():
    digests = [f"d{i // 2}" for i in range(40)]
    parts = split(digests, {"train": 0.75, "val": 0.25}, seed=1)
    assert sorted(parts["train"] + parts["val"]) == list(range(40)) and len(parts["val"]) == 10
    assert not {digests[i] for i in parts["train"]} & {digests[i] for i in parts["val"]}
    assert parts == split(digests, {"train": 0.75, "val": 0.25}, seed=1)
    assert parts != split(digests, {"train": 0.75, "val": 0.25}, seed=2)
    with pytest.raises(AttributeValueError, match="must be positive and add up to 1"):
        split(digests, {"train": 0.5, "val": 0.4}, seed=0)


@pytest.fixture
def config(tmp_path):
    root = write_voc(
        tmp_path / "set",
        {f"{i}": [("cat", BOX, False)] for i in range(12)},
        {"train": [str(i) for i in range(11)], "val": ["10", "11"]},
    )
    path = tmp_path / "config.yml"
    shipped = "detection/yolov3_mobilenetv1_voc"
    return [shipped, "-o", f"data.root={root}", "-o", "data.num_classes=1"], path


def test_check_names_copies_between_the_sets_and_fails(tmp_path, config, capsys):
    assert main(["check", *config[0], "--pictures", str(tmp_path / "pictures")], "paddock data") == 1
    printed = capsys.readouterr().out
    assert "train:\n  11 pictures" in printed and "1 kinds of errors" in printed
    assert "1 samples of eval are copies of samples of train" in printed


def test_draw_and_convert_write_what_they_say(tmp_path, config, capsys):
    assert main(["draw", *config[0], "--output", str(tmp_path / "drawn"), "--count", "2"], "paddock data") == 0
    pictures = sorted((tmp_path / "drawn").iterdir())
    assert [p.name for p in pictures] == ["00000.jpg", "00001.jpg"] and read_image(pictures[0]).shape[2] == 3
    words = ["convert", *config[0], "--output", str(tmp_path / "out")]
    assert main([*words, "--to", "coco", "--parts", "a=0.5", "b=0.5"], "paddock data") == 0
    assert (tmp_path / "out" / "annotations" / "instances_a.json").is_file()
    assert main([*words, "--to", "pickle"], "paddock data") == 2
    assert main([*words, "--to", "voc", "--parts", "a"], "paddock data") == 2
    errors = capsys.readouterr().err
    assert "'pickle' is no format that can be written here; it is one of: coco, voc, yolo" in errors
    assert "must be like train=0.8 val=0.2" in errors


def test_a_set_is_split_where_only_the_set_to_split_is_there(tmp_path, capsys):
    root = write_voc(tmp_path / "set", {f"{i}": [("cat", BOX, False)] for i in range(10)})  # without any list
    shipped = ["detection/yolov3_mobilenetv1_voc", "-o", f"data.root={root}", "-o", "data.train.dataset.split=null"]
    words = ["split", *shipped, "-o", "data.num_classes=auto", "--output", str(tmp_path / "out")]
    assert main(words, "paddock data") == 0
    printed = capsys.readouterr().out
    assert "train: 8 samples" in printed and "val: 2 samples" in printed
    assert (tmp_path / "out" / "annotations" / "instances_val.json").is_file()
    assert main([*words, "--to", "voc", "--parts", "a=0.5", "b=0.5"], "paddock data") == 0
    assert (tmp_path / "out" / "ImageSets" / "Main" / "b.txt").is_file()


def test_anchors_are_proposed_as_by_the_command_of_that_name(tmp_path, capsys):
    root = write_voc(tmp_path, {"a": [("cat", BOX, False)], "b": [("cat", (0, 0, 10, 10), False)]})
    assert main(["anchors", "--voc", str(root), "-k", "2"], "paddock data") == 0
    assert "2 boxes; mean best IoU 1.0000" in capsys.readouterr().out


def test_pictures_are_drawn_after_the_transforms_too(tmp_path, config):
    words = ["draw", *config[0], "--output", str(tmp_path / "drawn"), "--count", "1", "--augmented"]
    assert main(words, "paddock data") == 0
    assert np.asarray(read_image(tmp_path / "drawn" / "00000.jpg")).min() >= 0


def test_copies_with_other_boxes_are_errors(tmp_path):
    root = write_voc(tmp_path, {"a": [("cat", BOX, False)], "b": [("dog", BOX, False)]})
    for name in "ab":
        write_image(root / "JPEGImages" / f"{name}.png", image(0, (40, 60)))
    found = DetectionInspector().inspect(VocDetection(root))
    assert texts(found)[0] == "error: 1 samples are copies of others, with another truth"


def test_points_of_boxes_are_looked_at_as_those_of_the_points_suite(tmp_path):
    rows = [person(at) for at in range(12)]
    rows[4]["keypoints"] = [0, 0, 2, 300, 20, 2, *rows[4]["keypoints"][6:]]
    rows[5]["keypoints"] = [0] * 51
    found = DetectionInspector().inspect(CocoDetection(*coco(tmp_path, rows), keypoints=True))
    assert [text for text in texts(found) if "points" in text] == [
        "warning: 1 points lay outside of their picture and are unlabelled",
        "error: 1 labelled points lie at 0,0",
    ]
    assert found.findings[-1].samples == (4,) and found.findings[-1].places[0].endswith("4.png, box 0: nose")
    none = [person(at, 0) for at in range(2)]
    found = DetectionInspector().inspect(CocoDetection(*coco(tmp_path, none), keypoints=True))
    assert "warning: no box has a labelled point" in texts(found)
