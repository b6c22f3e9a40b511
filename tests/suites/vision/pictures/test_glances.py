"""What a picture's file says without decoding is what decoding says; of large sets `data check` decodes none."""

import random
import struct
import zlib

import cv2
import numpy as np
import pytest

from framework import limits
from framework.errors import DataError
from suites.classification.datasets.files import ImageFolder
from suites.classification.inspection import ImageInspector
from suites.detection.datasets import YoloDetection
from suites.detection.inspection import DetectionInspector
from suites.engine.cli import data as command
from suites.engine.data.sources import open_source
from suites.segmentation.datasets import ImageLabelPairs
from suites.segmentation.inspection import SegmentationInspector
from suites.segmentation.labels import encode_labels
from suites.vision.pictures import images
from suites.vision.pictures.glances import _glanced, glance, glances
from suites.vision.pictures.images import encode_image, write_image
from suites.vision.pictures.sizes import picture_sizes
from tests.mutations import mutated
from tests.suites.vision.pictures.test_images import with_exif_orientation
from tests.suites.vision.pictures.tiffs import strips

RNG = np.random.default_rng(0)


def noise(height=20, width=30):
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def undecoded(monkeypatch):
    """Decoding of pictures is an error."""

    def refuse(*given):
        raise AssertionError("a picture was decoded")

    for module in (
        "suites.vision.pictures.glances",
        "suites.vision.recognition.files",
        "suites.detection.datasets.base",
    ):
        monkeypatch.setattr(f"{module}.decode_image", refuse)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tif", ".ppm"])
def test_size_and_damage_are_those_of_decoding(tmp_path, suffix):
    data = encode_image(noise(), suffix)
    (tmp_path / f"a{suffix}").write_bytes(data)
    (tmp_path / f"cut{suffix}").write_bytes(data[: len(data) // 3] if suffix != ".ppm" else b"P6\n20")
    files = open_source(tmp_path).table([f"a{suffix}", f"cut{suffix}"])
    assert glance(files, 0).size == (20, 30)
    with pytest.raises(DataError):
        images.decode_image(files.read(1), "cut")
    if suffix != ".tif":  # whose container does not say where it ends
        with pytest.raises(DataError, match=f"cut{suffix}"):
            glance(files, 1)


def said(found):
    return str(found) if isinstance(found, DataError) else found


def test_many_pictures_say_what_each_says_by_itself_whole_or_damaged(tmp_path):
    rng = random.Random(0)
    whole = [encode_image(noise(), suffix) for suffix in (".jpg", ".png")]
    whole += [cv2.imencode(".jpg", noise(), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes(), TURNED["a.jpg"]()]
    whole += [cv2.imencode(".png", noise().astype(np.uint16))[1].tobytes(), b"", b"\xff\xd8\xff\xd9"]
    changed = [mutated(data, rng) for _ in range(200) for data in whole]
    cut = [data[: rng.randrange(len(data) + 1)] for _ in range(20) for data in whole]
    names = [f"{at}.jpg" for at in range(len(whole + changed + cut))]
    for name, data in zip(names, whole + changed + cut, strict=True):
        (tmp_path / name).write_bytes(data)
    files = open_source(tmp_path).table([*names, "none.jpg"])
    found = list(glances(files, np.arange(len(files))))
    assert list(map(said, found)) == [said(_glanced(files, at)) for at in range(len(files))]
    assert sum(isinstance(each, DataError) for each in found) > 100


def test_plain_pictures_are_read_many_at_once_and_others_are_left(tmp_path, monkeypatch):
    one_by_one = []
    monkeypatch.setattr("suites.vision.pictures.glances.glance", lambda files, at: one_by_one.append(files.name(at)))
    grey = cv2.imencode(".jpg", noise()[..., 0], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    plain = {"a.jpg": encode_image(noise(), ".jpg"), "b.png": encode_image(noise(), ".png"), "c.jpg": grey}
    for name, data in {**plain, "d.jpg": TURNED["a.jpg"](), "e.bmp": encode_image(noise(), ".bmp")}.items():
        (tmp_path / name).write_bytes(data)
    files = open_source(tmp_path).table(["a.jpg", "b.png", "c.jpg", "d.jpg", "e.bmp"])
    found = list(glances(files, np.arange(5)))
    assert one_by_one == ["d.jpg", "e.bmp"] and [each.size for each in found[:3]] == [(20, 30)] * 3
    assert len({each.digest for each in found[:3]}) == 3


@pytest.mark.parametrize(
    "limit", [{"pixels": 599}, {"picture_bytes": 1799}, {"scans": 1}, {"scan_pixels": 601}, {"member_bytes": 99}]
)
def test_pictures_over_a_limit_are_refused_by_its_name(tmp_path, limit):
    data = cv2.imencode(".jpg", noise(), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    (tmp_path / "a.jpg").write_bytes(data)
    files = open_source(tmp_path).table(["a.jpg"])
    assert not isinstance(next(glances(files, np.arange(1))), DataError)
    with limits.allow(**limit):
        error = next(glances(files, np.arange(1)))
    assert isinstance(error, DataError) and next(iter(limit)) in str(error)


def test_a_png_whose_extents_multiply_beyond_a_number_is_refused(tmp_path):
    data = bytearray(encode_image(noise(), ".png"))
    data[16:24] = b"\xff\xff\xff\xff" * 2
    (tmp_path / "a.png").write_bytes(data)
    error = next(glances(open_source(tmp_path).table(["a.png"]), np.arange(1)))
    assert isinstance(error, DataError) and "too many pixels" in str(error)


def turned_png():
    """With its tags behind its pixels, as the format allows."""
    data = encode_image(noise(300, 400), ".png")
    tags = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    chunk = struct.pack(">I", len(tags)) + b"eXIf" + tags + struct.pack(">I", zlib.crc32(b"eXIf" + tags))
    return data[:-12] + chunk + data[-12:]


TURNED = {
    "a.jpg": lambda: with_exif_orientation(encode_image(noise(), ".jpg"), 6),
    "a.png": turned_png,
    "a.tif": lambda: strips(noise(), t274=(3, [6])),
    "a.webp": lambda: encode_image(noise(), ".webp"),
}


@pytest.mark.parametrize("name", TURNED)
def test_a_picture_that_may_be_turned_has_the_size_that_is_decoded(tmp_path, name):
    (tmp_path / name).write_bytes(TURNED[name]())
    files = open_source(tmp_path).table([name])
    shown = images.decode_image(files.read(0), name).shape[:2]
    assert glance(files, 0).size == shown and picture_sizes(files).tolist() == [list(shown)]


def test_a_png_with_tags_is_turned_and_so_is_a_jpeg():
    assert images.decode_image(TURNED["a.jpg"](), "a").shape[:2] == (30, 20)
    assert images.decode_image(TURNED["a.png"](), "a").shape[:2] == (400, 300)


def folder(root):
    for at in range(12):
        write_image(root / f"class_{at % 2}" / f"{at}.jpg", noise())
    write_image(root / "class_0" / "same.jpg", noise())
    (root / "class_1" / "same.jpg").write_bytes((root / "class_0" / "same.jpg").read_bytes())
    whole = (root / "class_0" / "2.jpg").read_bytes()
    (root / "class_0" / "2.jpg").write_bytes(whole[: len(whole) // 2])
    return root


def texts(found):
    return [finding.text for finding in found.findings]


def test_a_folder_of_classes_is_looked_at_without_decoding(tmp_path, undecoded):
    found = ImageInspector().glance(ImageFolder(str(folder(tmp_path))))
    assert "1 images cannot be read" in texts(found)
    assert "1 samples are copies of others, with another truth" in texts(found)
    assert "pixels: 30 to 30 wide, 20 to 20 high" in found.summary and "--decode" in found.summary[-1]


def test_a_detection_set_is_opened_and_looked_at_without_decoding(tmp_path, undecoded):
    for at in range(3):
        write_image(tmp_path / "images" / f"{at}.png", noise())
        (tmp_path / "labels").mkdir(exist_ok=True)
        (tmp_path / "labels" / f"{at}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
    (tmp_path / "images" / "2.png").write_bytes((tmp_path / "images" / "0.png").read_bytes())
    found = DetectionInspector().glance(YoloDetection(str(tmp_path), classes=["a"]))
    assert "1 samples are copies of others" in texts(found)
    assert "pictures: 30 to 30 wide, 20 to 20 high" in found.summary


def test_label_maps_are_decoded_and_their_sizes_compared(tmp_path):
    for at in range(3):
        write_image(tmp_path / "images" / f"{at}.jpg", noise())
        (tmp_path / "labels").mkdir(exist_ok=True)
        labels = np.full((20, 30 - (at == 1)), at % 2, np.uint8)
        (tmp_path / "labels" / f"{at}.png").write_bytes(encode_labels(labels, [(0, 0, 0), (9, 9, 9)]))
    found = SegmentationInspector().glance(ImageLabelPairs(str(tmp_path), classes=["a", "b"]))
    assert "1 label maps are not of their image's size" in texts(found)
    assert texts(found) == texts(SegmentationInspector().inspect(ImageLabelPairs(str(tmp_path), classes=["a", "b"])))


def test_the_command_decodes_where_samples_are_few_or_it_is_asked_to(tmp_path, monkeypatch, capsys):
    root = folder(tmp_path / "photos")
    assert command.main(["check", str(root)]) == 1
    assert "not decoded" not in capsys.readouterr().out
    monkeypatch.setattr(command, "_MOST_DECODED", 5)
    assert command.main(["check", str(root)]) == 1
    assert "pictures in files were not decoded; with --decode they are" in capsys.readouterr().out
    assert command.main(["check", str(root), "--decode"]) == 1
    assert "not decoded" not in capsys.readouterr().out


def test_decoding_is_refused_where_there_is_nothing_to_decode(tmp_path, capsys):
    rows = [f"text number {at},{'good' if at % 2 else 'bad'}" for at in range(40)]
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *rows]))
    assert command.main(["check", str(tmp_path / "reviews.csv"), "--decode"]) != 0
    assert "--decode does nothing for the suite 'nlp'; take it away" in capsys.readouterr().err
