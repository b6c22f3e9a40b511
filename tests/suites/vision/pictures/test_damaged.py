"""Damaged pictures are found when a set is opened, in every suite of pictures, and end a run before its first step."""

import json
import zipfile

import cv2
import numpy as np
import pytest

from framework.data import DataLoader
from framework.errors import DataError
from suites.anomaly.datasets.mvtec import MvtecFolder
from suites.classification.datasets.files import ImageFolder
from suites.detection.datasets import CocoDetection
from suites.engine.config.building import limited
from suites.engine.config.settings import DataSettings
from suites.engine.data.damage import known_damage
from suites.engine.data.sources import open_source
from suites.segmentation.datasets.pairs import ImageLabelPairs
from suites.vision.pictures.damaged import find_damaged
from suites.vision.pictures.images import IMAGE_SUFFIXES, decode_image

ENDINGS = (".jpg", ".png", ".bmp", ".webp", ".tif", ".ppm")


def write(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), np.uint8)
    assert cv2.imwrite(str(path), picture)
    return path


def found(tmp_path):
    names = sorted(path.name for path in tmp_path.iterdir())
    return {names[at]: why for at, why in find_damaged("set", open_source(tmp_path).table(names)).items()}


def test_whole_pictures_of_all_kinds_are_not_told(tmp_path):
    for kind in ENDINGS:
        write(tmp_path / f"a{kind}")
    (tmp_path / "trailing.jpg").write_bytes((tmp_path / "a.jpg").read_bytes() + b"maker's notes")
    (tmp_path / "png_by_another_name.jpg").write_bytes((tmp_path / "a.png").read_bytes())
    assert set(ENDINGS) <= set(IMAGE_SUFFIXES) and found(tmp_path) == {}


@pytest.mark.parametrize("kind", [".jpg", ".png", ".bmp", ".webp"])
def test_cut_and_empty_files_and_other_bytes_are_told_as_decoding_tells_them(tmp_path, kind):
    whole = write(tmp_path / f"whole{kind}").read_bytes()
    (tmp_path / f"cut{kind}").write_bytes(whole[: len(whole) // 2])
    (tmp_path / f"empty{kind}").write_bytes(b"")
    (tmp_path / f"text{kind}").write_bytes(b"<html>404 not found</html>")
    told = found(tmp_path)
    assert set(told) == {f"cut{kind}", f"empty{kind}", f"text{kind}"}
    for name, why in told.items():
        with pytest.raises(DataError) as caught:
            decode_image((tmp_path / name).read_bytes(), str(tmp_path / name))
        assert str(caught.value) == why


def damage(path):
    path.write_bytes(path.read_bytes()[:-40])


def test_every_suite_of_pictures_tells_them_once_when_a_set_is_opened(tmp_path, caplog):
    pictures = [write(tmp_path / "a" / f"{at}.jpg", at) for at in range(4)]
    write(tmp_path / "b" / "9.jpg")
    damage(pictures[1])
    assert list(ImageFolder(str(tmp_path)).damaged) == [1]
    entries = [{"id": at + 1, "file_name": f"{at}.jpg", "width": 32, "height": 24} for at in range(4)]
    boxes = [{"id": at, "image_id": at, "category_id": 1, "bbox": [1, 1, 9, 9]} for at in range(1, 5)]
    document = {"images": entries, "annotations": boxes, "categories": [{"id": 1, "name": "x"}]}
    (tmp_path / "coco.json").write_text(json.dumps(document))
    assert list(CocoDetection(str(tmp_path / "coco.json"), str(tmp_path / "a")).damaged) == [1]
    for at in range(4):
        (tmp_path / "labels").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / "labels" / f"{at}.png"), np.full((24, 32), at % 2, np.uint8))
    damage(tmp_path / "labels" / "2.png")
    pairs = ImageLabelPairs(str(tmp_path), images="a", labels="labels", classes=["x", "y"])
    assert sorted(pairs.damaged) == [1, 2]
    assert caplog.text.count("1 damaged of") == 2 and caplog.text.count("2 damaged of 4 samples") == 1


def test_a_set_with_more_of_them_than_are_borne_ends_before_the_first_step(tmp_path):
    pictures = [write(tmp_path / "ab"[at % 2] / f"{at}.jpg", at) for at in range(32)]
    for path in pictures[:2]:
        damage(path)
    limited(DataLoader(ImageFolder(str(tmp_path)), 4), DataSettings(), "nothing")  # two are borne
    damage(pictures[2])
    with pytest.raises(DataError, match=r"3 of 32 samples could not be used.*cut off"):
        limited(DataLoader(ImageFolder(str(tmp_path)), 4), DataSettings(), "nothing")


@pytest.mark.parametrize("zipped", [False, True])
def test_labels_of_another_size_than_their_picture_are_told_when_a_set_is_opened(tmp_path, zipped):
    for at in range(4):
        write(tmp_path / "set" / "train" / "good" / f"{at}.png", at)
        write(tmp_path / "set" / "test" / "scratch" / f"{at}.png", at)
        sizes = (24, 32) if at != 2 else (32, 24)
        for folder, end in (("ground_truth/scratch", "_mask"), ("labels", "")):
            (tmp_path / "set" / folder).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(tmp_path / "set" / folder / f"{at}{end}.png"), np.full(sizes, at % 2, np.uint8))
    root = tmp_path / "set"
    if zipped:
        root = tmp_path / "set.zip"
        with zipfile.ZipFile(root, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((tmp_path / "set").rglob("*.png")):
                archive.write(path, path.relative_to(tmp_path / "set"))
    pairs = ImageLabelPairs(str(root), images="test/scratch", labels="labels", classes=["x", "y"])
    defects = MvtecFolder(str(root), "test")
    assert list(pairs.damaged) == list(defects.damaged) == [2]
    for dataset in (pairs, defects):
        with pytest.raises(DataError) as caught:
            dataset[2]
        assert str(caught.value).endswith(dataset.damaged[2]) and "is 24x32 but its picture" in dataset.damaged[2]


class Wrapper:
    def __init__(self, dataset):
        self.dataset = dataset


class Parts:
    def __init__(self, *parts):
        self.parts = parts


class Known:
    def __init__(self, count, damaged):
        self.count, self.damaged = count, damaged

    def __len__(self):
        return self.count


def test_what_wraps_or_joins_a_set_knows_of_them():
    assert known_damage(Wrapper(Parts(Known(3, {}), Known(4, {1: "x"})))) == {4: "x"} and known_damage(object()) == {}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_of_a_zip_are_told_as_files_are(tmp_path, method):
    whole = write(tmp_path / "a.png").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        for name, data in (("a.png", whole), ("cut.png", whole[:-40]), ("empty.png", b""), ("not.jpg", b"<html>")):
            archive.writestr(name, data)
        archive.writestr("hurt.png", whole)
        start = archive.getinfo("hurt.png").header_offset + 30 + len("hurt.png")
    files = open_source(tmp_path / "a.zip").table(["a.png", "cut.png", "empty.png", "not.jpg", "hurt.png"])
    assert [files.ends(at, 4, 4) for at in (0, 2)] == [(len(whole), whole[:4], whole[-4:]), (0, b"", b"")]
    assert set(find_damaged("set", files)) == {1, 2, 3}
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[start : start + 40] = bytes(40)
    (tmp_path / "a.zip").write_bytes(content)
    told = find_damaged("set", open_source(tmp_path / "a.zip").table(["hurt.png"]))
    assert list(told) == [0] and "hurt.png" in told[0]


def test_a_large_set_is_looked_at_in_part_and_large_deflated_members_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("suites.vision.pictures.damaged._MOST_FILES", 2)
    for at in range(4):
        (tmp_path / f"{at}.jpg").write_bytes(b"")
    assert sorted(found(tmp_path)) == ["0.jpg", "2.jpg"]
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.jpg", bytes(70_000))
    assert find_damaged("set", open_source(tmp_path / "a.zip").table(["1.jpg"])) == {}
