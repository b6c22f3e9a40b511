"""`paddock data check` on sets to learn to draw from."""

import shutil

from suites.engine.cli import main as paddock
from tests.suites.generation.helpers import picture, written


def test_broken_pairs_copies_and_small_sets_are_told(tmp_path, capsys):
    path = written(tmp_path, "Pix2Pix")
    picture(tmp_path / "data" / "B" / "3.jpg", 3, size=(20, 24))
    for folder, ending in (("A", "png"), ("B", "jpg")):
        shutil.copy(tmp_path / "data" / folder / f"1.{ending}", tmp_path / "data" / folder / f"9.{ending}")
    paddock(["data", "check", str(path)])
    said = capsys.readouterr().out
    assert "1 pictures cannot be used" in said and "3.png is 16x16 but its partner" in said
    assert "samples are copies of others" in said and "there are 9 pictures; so few are learnt by heart" in said


def test_what_is_drawn_may_be_compared_with_what_was_learnt(tmp_path, capsys):
    path = written(tmp_path, "DCGAN")
    assert paddock(["data", "check", str(path)]) == 0
    assert "too good" not in capsys.readouterr().out
    assert paddock(["train", str(path), "--runs", str(tmp_path), "--name", "a", "-o", "runtime.steps=1"]) == 0
    assert "too good" not in "".join(capsys.readouterr())
    held = "{type: PictureFolder, root: %s, holdout: 3, part: %s}"
    parts = ["-o", "data.train.dataset=" + held % (tmp_path / "data", "train")]
    parts += ["-o", "data.eval.dataset=" + held % (tmp_path / "data", "train")]
    assert paddock(["data", "check", str(path), *parts]) == 1
    assert "so its figures are too good" in capsys.readouterr().out


def test_two_kinds_and_classes_are_counted(tmp_path, capsys):
    paddock(["data", "check", str(written(tmp_path / "two", "CycleGAN"))])
    assert "8 pictures of the first kind, 6 of the second" in capsys.readouterr().out
    paddock(["data", "check", str(written(tmp_path / "one", "StarGAN"))])
    assert "  red       6" in capsys.readouterr().out
