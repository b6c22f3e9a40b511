"""`paddock data` finds what would spoil a segmentation network: label maps, numbers, classes, copies between sets."""

import json

import numpy as np
import pytest

from suites.engine.cli.data import main
from suites.segmentation.datasets import ImageLabelPairs
from suites.segmentation.inspection import SegmentationInspector
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import read_image, write_image
from tests.suites.segmentation.helpers import CLASSES, write_scenes


@pytest.fixture
def root(tmp_path):
    write_scenes(tmp_path / "data", "train", 6)
    return tmp_path / "data"


def inspected(root, **arguments):
    data = ImageLabelPairs(root, **{"images": "train/images", "labels": "train/labels", **arguments})
    return SegmentationInspector().inspect(data)


def texts(found):
    return [f"{finding.level}: {finding.text}" for finding in found.findings]


def relabel(root, number, labels):
    (root / f"train/labels/{number:03d}.png").write_bytes(encode_labels(labels.astype(np.uint8), []))


def test_a_clean_set_has_no_findings_and_its_shares_add_up(root):
    found = inspected(root)
    assert not found.findings and len(set(found.digests)) == 6
    assert found.summary[0] == "6 images, 6 of them with a label map that can be used"
    assert found.summary[1] == "images: 64 to 64 wide, 48 to 48 high"
    void = 1 - 44 * 60 / (48 * 64)
    assert found.summary[2] == f"void (255): {void:.1%} of the pixels"
    rows = [line.split() for line in found.summary[4:]]
    assert [row[0] for row in rows] == list(CLASSES) and {row[2] for row in rows} == {"6"}
    assert sum(float(row[1].rstrip("%")) for row in rows) == pytest.approx(100, abs=0.02)


def test_each_kind_of_fault_is_named_with_its_files_and_a_way_out(root):
    relabel(root, 0, np.zeros((20, 30)))
    relabel(root, 1, np.full((48, 64), 9))
    write_image(root / "train/labels/002.png", np.random.default_rng(0).integers(0, 3, (48, 64, 3), np.uint8))
    (root / "train/labels/003.png").write_bytes(b"no picture")
    whole = (root / "train/images/004.png").read_bytes()
    (root / "train/images/004.png").write_bytes(whole[:-40])
    found = inspected(root)
    errors = {finding.text: finding for finding in found.findings if finding.level == "error"}
    assert list(errors) == [
        "1 label maps hold what is no class",
        "1 label maps are pictures in colours",
        "1 label maps are damaged or no PNG",
        "1 pictures cannot be read",
        "1 label maps are not of their image's size",
    ]
    assert [finding.samples for finding in errors.values()] == [(1,), (2,), (3,), (4,), (0,)]
    assert "kind: colours" in errors["1 label maps are pictures in colours"].advice
    assert "holds the label 9" in errors["1 label maps hold what is no class"].places[0]
    assert found.summary[0] == "6 images, 1 of them with a label map that can be used"


def test_numbers_that_begin_at_one_suggest_reduce_zero(root):
    for number in range(6):
        relabel(root, number, np.tile(np.arange(4), (48, 16)))
    found = inspected(root)
    assert "note: the numbers in the label files are 0, 1, 2, 3" in texts(found)
    assert [f.advice for f in found.findings if f.level == "note"] == [
        "if 0 is void and classes begin at 1, set `reduce_zero: true`"
    ]
    assert not [f for f in inspected(root, reduce_zero=True).findings if f.level == "error"]


def test_masks_of_0_and_255_suggest_binary(root):
    for number in range(6):
        relabel(root, number, np.tile([0, 200], (48, 32)))
    found = inspected(root, classes=["no", "yes"])
    assert [f.advice for f in found.findings if f.level == "note"] == ["these are binary masks: set `kind: binary`"]
    assert not inspected(root, kind="binary", classes=["no", "yes"]).findings


def test_absent_and_rare_classes_void_images_and_copies_are_told(root):
    for number in range(6):
        labels = np.zeros((48, 64))
        labels[:, :40] = 255 if number == 1 else 0
        labels[0, 0] = 1 if number == 2 else labels[0, 0]
        relabel(root, number, np.full((48, 64), 255) if number == 0 else labels)
    write_image(root / "train/images/005.png", read_image(root / "train/images/004.png"))
    assert texts(inspected(root)) == [
        "warning: 1 of 3 classes have no pixel: square",
        "warning: 1 classes are in fewer than 3 images",
        "warning: 1 images are void all over",
        "note: 1 images are void by more than half",
        "warning: 1 samples are copies of others",
    ]


def config(tmp_path, root):
    """A config of the scenes; eval is train once more."""
    dataset = {"type": "ImageLabelPairs", "root": str(root), "images": "train/images", "labels": "train/labels"}
    data = {"train": {"dataset": dataset}, "eval": {"dataset": dataset}, "num_classes": 3}
    path = tmp_path / "config.yml"
    base = {"extends": ["segmentation/deeplabv3p_mobilenetv2_pairs.yml"], "data": data}
    path.write_text(json.dumps(base))
    return path


def test_the_command_checks_draws_and_converts(root, tmp_path, capsys):
    path = config(tmp_path, root)
    relabel(root, 3, np.full((48, 64), 9))
    assert main(["check", str(path), "--pictures", str(tmp_path / "found")]) == 1
    told = capsys.readouterr().out
    assert "1 label maps hold what is no class" in told and "copies of samples of train" in told
    assert main(["draw", str(path), "--output", str(tmp_path / "drawn"), "--augmented", "--count", "3"]) == 0
    assert len(list((tmp_path / "drawn").iterdir())) == 3
    write_scenes(tmp_path / "other", "train", 6)
    path = config(tmp_path, tmp_path / "other")
    words = ["convert", str(path), "--to", "pairs", "--output", str(tmp_path / "new"), "--parts", "a=0.5", "b=0.5"]
    assert main(words) == 0
    parts = [ImageLabelPairs(tmp_path / "new", f"{part}/images", f"{part}/labels") for part in "ab"]
    assert [len(part) for part in parts] == [3, 3] and parts[0].class_names == CLASSES
    before = ImageLabelPairs(tmp_path / "other", "train/images", "train/labels")
    of_name = {before.name_of(i)[-7:]: before[i] for i in range(6)}
    for part in parts:
        for i in range(3):
            np.testing.assert_array_equal(part[i].labels, of_name[part.name_of(i)[-7:]].labels)
            np.testing.assert_array_equal(part[i].image, of_name[part.name_of(i)[-7:]].image)
