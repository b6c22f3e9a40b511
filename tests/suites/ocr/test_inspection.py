"""`paddock data check` and `draw` of pictures of texts."""

import cv2
import numpy as np
import pytest

from suites.engine.cli.data import main
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import page
from tests.suites.ocr.test_datasets import icdar
from tests.suites.ocr.test_training import lines


def checked(capsys, config, root, *more):
    status = main(["check", config, "-o", f"data.root={root}", *more])
    return status, capsys.readouterr().out


@pytest.fixture
def two_sets(tmp_path):
    lines(tmp_path)
    (tmp_path / "train.txt").write_text("0.png\t10\n1.png\t21\n1.png\t2\n", encoding="utf-8")
    (tmp_path / "test.txt").write_text("2.png\t02é\n3.png\t12\n", encoding="utf-8")
    return tmp_path


def test_lines_are_counted_and_copies_with_other_texts_named(two_sets, capsys):
    status, out = checked(capsys, "ocr/crnn_drawn", two_sets)
    assert status == 1 and "3 lines" in out and "3 different characters; texts of 1 to 2 characters" in out
    assert "error: 1 samples are copies of others, with another truth" in out
    assert "eval: 1 characters are not in train, so they are not learnt there: 'é' 1 times" in out


def test_lines_that_cannot_be_what_they_say(two_sets, capsys):
    write_image(two_sets / "tall.png", np.full((90, 20, 3), 255, np.uint8))
    (two_sets / "bad.png").write_bytes(b"no picture")
    dense = "0.png\t" + "1" * 40 + "\n"
    (two_sets / "train.txt").write_text(f"tall.png\t10\nbad.png\t1\n{dense}", encoding="utf-8")
    for more in ((), ("--decode",)):
        status, out = checked(capsys, "ocr/crnn_drawn", two_sets, *more)
        assert status == 1 and "error: 1 pictures cannot be read" in out and "bad.png" in out
        assert "1 lines are higher than wide" in out and "tall.png: 90 x 20, '10'" in out
        assert "0.png: 64 pixels for 40 characters" in out


def test_pages_have_texts_outside_thin_ones_and_none(tmp_path, capsys):
    root = icdar(tmp_path, "50,10,90,10,90,20,50,20,out", "1,1,30,1,30,3,1,3,thin", "1,5,9,5,9,9,1,9,###")
    for folder in ("train", "test"):
        write_image(root / f"{folder}_images" / "img_2.jpg", page((0, 0, 9, 9), size=(40, 60)))
        (root / f"{folder}_gts").mkdir(exist_ok=True)
        (root / f"{folder}_gts" / "gt_img_2.txt").write_text("")
    status, out = checked(capsys, "ocr/dbnet_icdar2015", root)
    assert status == 1 and "2 pages with 3 texts, 2 of them legible" in out
    assert "warning: 1 texts lie partly outside of their picture" in out and "img_1.jpg: 'out'" in out
    assert "note: 1 texts are less than 3 pixels high" in out and "note: 1 pages have no text" in out
    assert "so its figures are too good" in out  # the same page in both sets


def test_samples_are_drawn_with_what_they_say(two_sets, tmp_path):
    out = tmp_path / "drawn"
    assert main(["draw", "ocr/crnn_drawn", "-o", f"data.root={two_sets}", "--output", str(out)]) == 0
    first = cv2.imread(str(out / "00000.jpg"))
    assert len(list(out.iterdir())) == 3 and first.shape[2] == 3
    root = icdar(tmp_path / "pages", "10,10,50,10,50,20,10,20,word")
    words = ["draw", "ocr/dbnet_icdar2015", "-o", f"data.root={root}", "--output", str(tmp_path / "p")]
    assert main(words) == 0 and len(list((tmp_path / "p").iterdir())) == 1
