"""`paddock data check` of good pictures and defects: what would spoil a model or its figures is told."""

import shutil

import cv2
import numpy as np

from suites.engine.cli import main as paddock
from tests.suites.anomaly.helpers import mask, mvtec, picture


def check(root, *words):
    return paddock(["data", "check", "anomaly/patchcore", "-o", f"data.root={root}", *words])


def test_a_sound_set_is_counted_by_kind_and_one_picture_of_two_kinds_is_an_error(tmp_path, capsys):
    assert check(mvtec(tmp_path / "m")) == 0
    said = capsys.readouterr().out
    assert "10 pictures" in said and "masks say where defects are" in said and "0 kinds of errors" in said
    assert ["scratch", "4"] in [line.split() for line in said.splitlines()]
    assert check(mvtec(tmp_path / "two", kinds=("scratch", "dent"))) == 1
    assert "4 samples are copies of others, with another truth" in capsys.readouterr().out


def test_a_mask_that_marks_nothing_copies_and_sizes_are_told_and_drawn(tmp_path, capsys):
    root = tmp_path / "m"
    mvtec(root)
    cv2.imwrite(str(root / "ground_truth" / "scratch" / "001_mask.png"), np.zeros((64, 64), np.uint8))
    shutil.copy(root / "train" / "good" / "000.png", root / "test" / "scratch" / "000.png")
    picture(root / "train" / "good" / "900.png", 900, side=96)
    (root / "test" / "good" / "003.png").write_bytes(b"no picture")
    assert check(root, "--pictures", str(tmp_path / "drawn")) == 1
    said = capsys.readouterr().out
    assert "the pictures are of 2 sizes" in said and "96x96: 1" in said
    assert "1 masks of defects mark nothing" in said and "001.png" in said
    assert "1 samples of eval are copies of samples of train" in said
    assert "003.png" in said
    assert list((tmp_path / "drawn" / "eval").glob("*.jpg"))


def test_a_mask_of_another_size_is_an_error_of_its_picture(tmp_path, capsys):
    root = tmp_path / "m"
    mvtec(root)
    mask(root / "ground_truth" / "scratch" / "002_mask.png", side=80)
    assert check(root) == 1
    said = capsys.readouterr().out
    assert "1 pictures or their masks cannot be read" in said and "is 80x80 but its picture" in said


def test_a_set_without_defects_says_nothing_of_places(tmp_path, capsys):
    for at in range(6):
        picture(tmp_path / "own" / "good" / f"{at}.png", at)
    assert paddock(["data", "check", "anomaly/photos", "-o", f"data.root={tmp_path / 'own'}",
                    "-o", "data.eval.dataset.bad=null"]) == 0  # fmt: skip
    assert "defects are" not in capsys.readouterr().out
