"""`paddock data check --alike`: near copies are told by the vectors of a model, exact ones are not told twice."""

import shutil

import cv2
import numpy as np
import pytest

from suites.engine.cli import main as paddock
from tests.suites.engine.predict.gallery.conftest import run as run  # the fixture
from tests.suites.retrieval.helpers import pictures


@pytest.fixture
def photos(tmp_path):
    """Photos of which train has one brighter by a shade again, and eval one of train and a copy of another."""
    for part, count in (("train", 3), ("val", 2)):
        root = tmp_path / "photos" / part
        for k, name in enumerate(("blue", "red")):
            for at in range(count):
                rng = np.random.default_rng([k, at, part == "val"])
                image = np.kron(rng.integers(0, 200, (4, 4, 3)), np.ones((8, 8, 1))).astype(np.uint8)
                (root / name).mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(root / name / f"{at}.png"), image)
    root = tmp_path / "photos"
    shade = cv2.imread(str(root / "train" / "blue" / "0.png")) + np.uint8(1)
    cv2.imwrite(str(root / "train" / "blue" / "shade.png"), shade)
    cv2.imwrite(str(root / "val" / "blue" / "shade.png"), shade + np.uint8(1))
    shutil.copy(root / "train" / "red" / "0.png", root / "val" / "red" / "copy.png")
    return root


def check(photos, *words):
    return paddock(["data", "check", "classification/photos", "-o", f"data.root={photos}", *words])


def test_near_copies_within_a_set_and_between_sets_are_told_and_exact_ones_once(run, photos, capsys):
    check(photos)
    plain = capsys.readouterr().out
    assert "nearly" not in plain
    check(photos, "--alike", str(run))
    said = capsys.readouterr().out
    assert "2 samples of train are nearly copies of others of it (cosine 0.95 or more)" in said
    assert "1 samples of eval are nearly copies of samples of train" in said
    near = [line.split("  ", 3)[-1].strip() for line in said.splitlines() if " ~ " in line]
    assert len(near) == 3 and all("shade.png" in line for line in near)
    assert said.count("copy.png") == plain.count("copy.png") == 1


def test_a_model_of_other_things_and_a_cosine_that_is_none_are_refused(run, photos, tmp_path, capsys):
    assert check(photos, "--alike", str(run), "--least", "1.5") == 2
    assert "--least is 1.5" in capsys.readouterr().err
    assert check(photos, "--least", "0.9") == 2
    assert "need --alike MODEL" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text(
        "text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(40)), encoding="utf-8"
    )
    words = ["data", "check", "nlp/classify", "-o", f"data.root={tmp_path / 't.csv'}", "--alike", str(run)]
    assert paddock(words) == 2
    assert "takes pictures, and the data are texts" in capsys.readouterr().err


def test_a_set_of_one_colour_has_as_many_near_copies_as_samples(run, tmp_path, capsys):
    pictures(tmp_path / "train", {"blue": 12, "red": 12})
    pictures(tmp_path / "val", {"blue": 2, "red": 2})
    check(tmp_path, "--alike", str(run), "--least", "-0.5")
    assert "24 samples of train are nearly copies of others of it" in capsys.readouterr().out
