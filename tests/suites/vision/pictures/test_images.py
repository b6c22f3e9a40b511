"""Images come out as uint8 RGB whatever the file holds, and a damaged file is named, never painted grey."""

import contextlib
import random
import struct
import time

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.vision.pictures.images import (
    QUICK_BYTES,
    decode_image,
    encode_image,
    is_quick_picture,
    read_image,
    write_image,
)
from tests.mutations import mutated


def picture(height=48, width=64):
    noise = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    return cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)


def png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


def with_exif_orientation(jpeg, orientation):
    """Adds an APP1 segment whose only entry is the orientation tag 0x0112."""
    tiff = b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    payload = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload + jpeg[2:]


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".ppm", ".tif"])
def test_a_lossless_file_gives_back_every_pixel_in_rgb_order(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_image(path, picture())
    np.testing.assert_array_equal(read_image(path), picture())


def test_grey_becomes_three_equal_channels():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(decode_image(png(grey), "g"), np.repeat(grey[:, :, None], 3, 2))


def test_16_bit_is_scaled_from_its_full_range():
    levels = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    np.testing.assert_array_equal(decode_image(png(levels), "g")[..., 0].ravel(), np.arange(256))
    colour = np.zeros((2, 2, 3), np.uint16)
    colour[..., 2] = 65535  # OpenCV's last channel is red
    np.testing.assert_array_equal(decode_image(png(colour), "c")[0, 0], [255, 0, 0])


def test_alpha_is_dropped():
    bgra = np.zeros((2, 3, 4), np.uint8)
    bgra[...] = (10, 20, 30, 0)
    np.testing.assert_array_equal(decode_image(png(bgra), "a"), np.full((2, 3, 3), (30, 20, 10)))


def test_one_pixel_is_an_image():
    assert decode_image(png(np.full((1, 1, 3), 7, np.uint8)), "p").tolist() == [[[7, 7, 7]]]


def test_exif_orientation_is_applied():
    jpeg = encode_image(picture(), ".jpg")
    turned = decode_image(with_exif_orientation(jpeg, 6), "e")  # 6: turn a quarter clockwise
    np.testing.assert_array_equal(turned, np.rot90(decode_image(jpeg, "j"), -1))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp"])
def test_a_file_cut_off_is_refused_wherever_it_is_cut(tmp_path, suffix, share):
    data = encode_image(picture(), suffix)
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(DataError, match=rf"cut{suffix}: cut off after \d+ bytes"):
        read_image(path)


def test_a_cut_progressive_jpeg_and_one_with_a_whole_thumbnail_are_refused():
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    progressive = cv2.imencode(".jpg", picture(), options)[1].tobytes()
    assert decode_image(progressive, "p").shape == (48, 64, 3)
    thumbnail = encode_image(picture(8, 8), ".jpg")
    payload = b"Exif\0\0" + thumbnail
    segment = b"\xff\xe1" + struct.pack(">H", len(payload) + 2) + payload
    for data in (progressive, progressive[:2] + segment + progressive[2:]):
        with pytest.raises(DataError, match="cut off"):
            decode_image(data[:-10], "p")


def test_bytes_behind_the_end_are_harmless():
    jpeg = encode_image(picture(), ".jpg")
    np.testing.assert_array_equal(decode_image(jpeg + b"\0" * 100, "j"), decode_image(jpeg, "j"))


def test_a_damaged_png_is_refused():
    data = bytearray(png(picture()))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(DataError, match=r"d\.png: damaged"):
        decode_image(bytes(data), "d.png")


def test_what_is_no_image_is_named(tmp_path):
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("not an image")
    for name, message in (
        ("empty.jpg", "the file is empty"),
        ("text.jpg", "damaged, or not an image"),
        ("missing.jpg", "No such file"),
        (".", "is a folder, not a file"),
    ):
        with pytest.raises(DataError, match=message):
            read_image(tmp_path / name)


def test_float_pixels_are_refused_because_their_range_is_unknown():
    data = cv2.imencode(".tiff", np.zeros((4, 4, 3), np.float32))[1].tobytes()
    with pytest.raises(DataError, match="samples of 32 bits"):
        decode_image(data, "f.tiff")


def test_writing_leaves_no_other_file(tmp_path):
    write_image(tmp_path / "new" / "a.png", picture())
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.png"]


def resized(jpeg, height, width):
    """A JPEG whose header states another size."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + jpeg[at + 4 :]


def test_only_small_baseline_jpegs_of_one_scan_are_quick():
    jpeg = encode_image(picture(), ".jpg")
    progressive = cv2.imencode(".jpg", picture(), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    scan = jpeg[jpeg.index(b"\xff\xda") :]
    assert is_quick_picture(jpeg) and is_quick_picture(resized(jpeg, 1024, 2048))
    for slow in (
        progressive,
        jpeg + scan,
        jpeg[:2] + progressive[2:-2] + jpeg[2:],
        resized(jpeg, 1025, 2048),
        jpeg + b"\0" * QUICK_BYTES,
        png(picture()),
        b"",
        jpeg[:20],
    ):
        assert not is_quick_picture(slow)


def test_damaged_quick_pictures_are_decoded_or_refused_at_once():
    jpegs = [encode_image(picture(), ".jpg"), resized(encode_image(picture(), ".jpg"), 1024, 2048)]
    rng, quick = random.Random(0), 0
    for number in range(200):
        data = mutated(jpegs[number % 2], rng)
        if is_quick_picture(data):
            quick += 1
            start = time.process_time()
            with contextlib.suppress(DataError):
                decode_image(data, "damaged")
            assert time.process_time() - start < 2
    assert quick > 50


def test_a_picture_that_the_server_reads_itself_costs_bounded_steps_before_it_is_decoded():
    """Segments of no content, fill bytes and tables that come again and again, up to the size that is quick."""
    jpeg = encode_image(picture(), ".jpg")
    tables = jpeg[jpeg.index(b"\xff\xdb") : jpeg.index(b"\xff\xc0")]
    for filling in (b"\xff\xfe\0\2", b"\xff", tables):
        data = jpeg[:2] + filling * ((QUICK_BYTES - len(jpeg)) // len(filling)) + jpeg[2:]
        start = time.process_time()
        is_quick_picture(data)
        with contextlib.suppress(DataError):
            decode_image(data, "filled")
        assert time.process_time() - start < 2
