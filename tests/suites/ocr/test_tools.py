"""TextOCR's JSON and labelme's files: what they hold, and one clear answer for what is wrong."""

import base64
import json

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.ocr.datasets import LabelmeText, TextOcr
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import page

PAINTED = base64.b64encode(cv2.imencode(".png", np.full((2, 2), 255, np.uint8))[1]).decode()  # by a brush
GOOD = {"image_id": "a", "points": [1, 1, 20, 1, 20, 9, 1, 9], "utf8_string": "word"}


def textocr(root, *texts, **changes):
    for name in ("a", "b"):
        write_image(root / "train_images" / f"{name}.jpg", page(size=(40, 60)))
    pictures = {name: {"id": name, "file_name": f"{name}.jpg", "set": "train"} for name in ("a", "b")}
    anns = {f"a_{k}": text for k, text in enumerate(texts)}
    told = {"imgs": pictures, "anns": anns, "imgToAnns": {"a": list(anns)}, **changes}
    (root / "train.json").write_text(json.dumps(told), encoding="utf-8")
    return str(root)


def test_textocr_has_pictures_with_and_without_texts(tmp_path):
    root = textocr(tmp_path, GOOD, {**GOOD, "utf8_string": "."})
    found = TextOcr(root, "train.json", images="train_images")
    assert len(found) == 2 and found[0].texts == ("word", "###") and found[0].ignored.tolist() == [False, True]
    np.testing.assert_array_equal(found[0].polygons[0], [[1, 1], [20, 1], [20, 9], [1, 9]])
    assert found[1].texts == () and found[1].image.shape == (40, 60, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({**GOOD, "points": [1, 1, 20, 1, 20, 9]}, "train.json: anns a_1: has 3 points"),
        ({**GOOD, "points": [1, 1, 20, 9, 20, 1, 1, 9]}, "anns a_1: its sides cross"),
        ({**GOOD, "points": [1, 2, 3]}, "anns a_1: points are x1, y1"),
        ({**GOOD, "image_id": "c"}, "anns a_1: its image_id is none of imgs"),
    ],
)
def test_texts_that_are_wrong_are_named(tmp_path, text, said):
    root = textocr(tmp_path, GOOD, text)
    with pytest.raises(DataError, match=said):
        TextOcr(root, "train.json", images="train_images")


def test_other_jsons_are_refused_and_a_share_is_left_out(tmp_path):
    with pytest.raises(DataError, match="has no object 'anns'; is it a file of TextOCR"):
        TextOcr(textocr(tmp_path, anns=[]), "train.json", images="train_images")
    root = textocr(tmp_path, GOOD, {**GOOD, "points": [1, 1, 20, 1, 20, 9]})
    found = TextOcr(root, "train.json", images="train_images", max_skipped=0.5)
    assert found[0].texts == ("word",) and found.skipped().skipped == 1
    with pytest.raises(DataError, match=r"image a\.jpg is missing"):
        TextOcr(root, "train.json")


def labelme(root, *shapes, name="a"):
    at = sum(map(ord, name)) % 30  # copies of a picture would stay together
    write_image(root / f"{name}.jpg", page((at, 0, at + 8, 8), size=(40, 60)))
    (root / f"{name}.json").write_text(json.dumps({"imagePath": f"{name}.jpg", "shapes": list(shapes)}))
    return str(root)


def shape(points, label="word", kind="polygon"):
    return {"label": label, "points": points, "shape_type": kind}


def test_labelmes_labels_are_what_is_written(tmp_path):
    quad = [[1, 1], [20, 1], [20, 9], [1, 9]]
    boxed = shape([[2, 12], [30, 20]], "two words", "rectangle")
    root = labelme(tmp_path, shape(quad), boxed, shape([[1, 1]], "dot", "point"), shape(quad, "###"))
    sample = LabelmeText(root)[0]
    assert sample.texts == ("word", "two words", "###") and sample.ignored.tolist() == [False, False, True]
    np.testing.assert_array_equal(sample.polygons[1], [[2, 12], [30, 12], [30, 20], [2, 20]])


def test_descriptions_are_what_is_written_where_all_shapes_have_one_label(tmp_path):
    quad = [[1, 1], [20, 1], [20, 9], [1, 9]]
    labelme(tmp_path, shape(quad, "text") | {"description": "Exit"}, name="a")
    labelme(tmp_path, shape(quad, "text") | {"description": "###"}, name="b")
    found = LabelmeText(str(tmp_path))
    assert [found[at].texts for at in range(2)] == [("Exit",), ("###",)]
    labelme(tmp_path, shape(quad, "stop") | {"description": "a sign"}, name="b")
    assert LabelmeText(str(tmp_path))[1].texts == ("stop",)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (shape([[1, 1], [20, 1], [20, 9]]), r"a\.json: shape 1: has 3 points"),
        (shape([[1, 1], [20, 9], [20, 1], [1, 9]]), "shape 1: its sides cross"),
        (shape([[1, 1], [20, 1], [20, 9], [1, 9]], " "), "shape 1: does not say what is written there"),
        (shape([[1, 1], [2, 2]], "a") | {"shape_type": "mask", "mask": PAINTED}, "shape 1: is a painted mask; text is"),
    ],
)
def test_shapes_that_are_wrong_are_named(tmp_path, wrong, said):
    root = labelme(tmp_path, shape([[1, 1], [20, 1], [20, 9], [1, 9]]), wrong)
    with pytest.raises(DataError, match=said):
        LabelmeText(root)
    assert LabelmeText(root, max_skipped=0.5)[0].texts == ("word",)


def test_a_part_of_labelmes_pictures_is_held_out(tmp_path):
    for k in range(10):
        labelme(tmp_path, shape([[1 + k, 1], [20, 1], [20, 9], [1, 9]]), name=f"p{k}")
    train, held = (LabelmeText(str(tmp_path), split=split) for split in ("train", "val"))
    assert len(train) == 8 and len(held) == 2


def test_outlines_fit_a_picture_that_was_scaled_after_it_was_annotated(tmp_path):
    textocr(tmp_path, GOOD)
    document = json.loads((tmp_path / "train.json").read_text())
    document["imgs"]["a"] |= {"height": 80, "width": 120}  # the picture is 40 high and 60 wide
    document["imgs"]["b"] |= {"height": 80, "width": 90}
    (tmp_path / "train.json").write_text(json.dumps(document))
    found = TextOcr(str(tmp_path), "train.json", images="train_images")
    assert found[0].image.shape == (80, 120, 3) and next(iter(found.glances())).size == (80, 120)
    with pytest.raises(DataError, match=r"b.jpg: the image is 60x40 but its annotation says 90x80"):
        found[1]
    assert "its annotation says 90x80" in str([*found.glances()][1])
