"""Pictures from strangers: what decoding takes is known before, and bounded from outside where the kind is rare."""

import signal
import struct
import time
import zlib

import cv2
import numpy as np
import pytest

from framework import limits
from framework.errors import DataError
from suites.vision.pictures import apart
from suites.vision.pictures.headers import image_size, picture_header
from suites.vision.pictures.images import decode_image
from tests.suites.vision.pictures.tiffs import strips, tiff, tiles

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (12, 20, 3), np.uint8)


def chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def png(height: int, width: int, pixels: bytes, interlaced: int = 0, between: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, interlaced)
    data = chunk(b"IHDR", header) + between + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def encoded(ending: str, image: np.ndarray = IMAGE) -> bytes:
    return cv2.imencode(ending, image[..., ::-1])[1].tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_plain_tiff_is_decoded_here(order, kind):
    data = strips(IMAGE.astype(kind) * (257 if kind is np.uint16 else 1), order=order)
    assert picture_header(data).plain
    np.testing.assert_array_equal(decode_image(data, "a.tif"), IMAGE)


def test_a_tiled_tiff_is_decoded_apart_with_the_same_pixels():
    data = tiles(IMAGE, (32, 32))
    assert not picture_header(data).plain
    np.testing.assert_array_equal(decode_image(data, "a.tif"), IMAGE)


def test_a_tile_that_is_larger_than_the_limit_is_refused_by_the_header():
    with pytest.raises(DataError, match="12 x 20 in tiles of 225240064 is too many pixels"):
        decode_image(tiles(IMAGE, (15008, 15008), b""), "a.tif")


def test_a_large_tile_of_a_small_picture_is_refused_by_the_process_that_decodes_it():
    pixels = zlib.compress(bytes(8000 * 8000 * 3))
    none, deflate = (struct.pack("<HHIHH", 259, 3, 1, way, 0) for way in (1, 8))
    data = tiles(IMAGE, (8000, 8000), pixels).replace(none, deflate)
    with pytest.raises(DataError, match=r"image a.tif: cannot be decoded: .*memory"):
        decode_image(data, "a.tif")
    np.testing.assert_array_equal(decode_image(tiles(IMAGE, (32, 32)), "b.tif"), IMAGE)


def test_a_decoder_that_is_slow_or_dies_is_an_error_and_the_next_picture_is_decoded():
    decoder = apart._Decoder()
    data = tiles(IMAGE, (32, 32))
    decoder.decode(data, cv2.IMREAD_COLOR, 1 << 28)
    decoder._child._process.kill()
    decoder._child._process.wait()
    assert decoder.decode(data, cv2.IMREAD_COLOR, 1 << 28).shape == IMAGE.shape
    decoder._child._process.send_signal(signal.SIGSTOP)
    with limits.allow(picture_seconds=1), pytest.raises(DataError, match="more than 1 seconds"):
        decoder.decode(data, cv2.IMREAD_COLOR, 1 << 28)
    assert decoder.decode(data, cv2.IMREAD_COLOR, 1 << 28).shape == IMAGE.shape


@pytest.mark.parametrize("odd", [{"t278": (4, [10**6])}, {"t259": (3, [7])}, {"t284": (3, [2])}, {"t339": (3, [3])}])
def test_an_odd_tiff_is_not_decoded_here(odd):
    assert not picture_header(strips(IMAGE, **odd)).plain


def test_a_tag_that_is_there_twice_counts_as_libtiff_takes_it():
    data = strips(IMAGE)
    row = struct.pack("<HHIHH", 256, 3, 1, 20, 0)
    twice = data.replace(struct.pack("<HHIHH", 284, 3, 1, 1, 0), struct.pack("<HHIHH", 256, 3, 1, 9, 0))
    assert row in twice
    assert (image_size(twice), picture_header(twice).plain) == ((12, 20), False)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("order", ["<", ">"])
def test_colours_under_alpha_are_those_of_a_png(kind, order):
    top = 255 if kind is np.uint8 else 65535
    image = np.dstack([IMAGE.astype(kind) * (top // 255), RNG.integers(1, top, IMAGE.shape[:2]).astype(kind)])
    image[0, 0, 3] = 0
    as_png = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGBA2BGRA))[1].tobytes()
    for extra in (0, 2):
        np.testing.assert_array_equal(decode_image(strips(image, extra, order), "a.tif"), decode_image(as_png, "a.png"))


def test_colours_that_a_tiff_keeps_multiplied_are_divided():
    alpha = np.full((*IMAGE.shape[:2], 1), 128, np.uint8)
    stored = np.dstack([np.rint(IMAGE * (128 / 255)).astype(np.uint8), alpha])
    assert np.abs(decode_image(strips(stored, 1), "a.tif").astype(int) - IMAGE).max() <= 1


@pytest.mark.parametrize("ending", [".jp2", ".avif", ".hdr", ".pfm", ".ras", ".pam"])
def test_a_kind_that_is_not_read_is_named(ending):
    image = np.tile(IMAGE, (8, 8, 1))
    image = image.astype(np.float32) if ending in (".hdr", ".pfm") else image
    with pytest.raises(DataError, match=r"is an? \w[\w ]* file, which is not read; convert it"):
        decode_image(encoded(ending, image), "a")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\0\0\0\x18ftypheic" + bytes(40), "is an AVIF or HEIC file, which is not read; convert it"),
        (b"\0\0\0\x18ftypisom" + bytes(40), "is a video file, which is not read; give its frames"),
        (b"PK\3\4" + bytes(40), "is a zip; unpack it"),
        (b"\x1f\x8b\x08" + bytes(40), "is packed by gzip; unpack it"),
        (b"\n<!DOCTYPE html><html>404</html>", "is a page of the web, as a download that failed leaves it"),
    ],
)
def test_what_is_no_picture_at_all_is_told(data, said):
    with pytest.raises(DataError, match=f"image a.jpg: {said}"):
        decode_image(data, "a.jpg")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("order", ["<", ">"])
def test_grey_that_counts_from_white_to_black_is_shown_as_viewers_do(kind, order):
    grey = IMAGE[..., :1].astype(kind) * (257 if kind is np.uint16 else 1)
    found = decode_image(strips(grey, order=order, t262=(3, [0])), "a.tif")
    np.testing.assert_array_equal(found, np.repeat(255 - IMAGE[..., :1], 3, axis=2))


@pytest.mark.parametrize("kind", [np.uint32, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("samples", [1, 3])
def test_samples_of_more_than_16_bits_are_told_and_not_called_damage(kind, samples):
    data = strips(
        IMAGE[..., :samples].astype(kind), t339=(3, [{"u": 1, "i": 2, "f": 3}[np.dtype(kind).kind]] * samples)
    )
    with pytest.raises(DataError, match=r"image a.tif: has samples of (32|64) bits, .*; 8 or 16 bit are read, convert"):
        decode_image(data, "a.tif")


@pytest.mark.parametrize("ending", [".png", ".bmp", ".ppm", ".tiff", ".gif", ".webp", ".jpg"])
def test_common_kinds_have_the_size_that_their_header_states(ending):
    data = encoded(ending)
    assert picture_header(data).plain
    assert decode_image(data, "a").shape == (*image_size(data), 3) == IMAGE.shape


def second_header() -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 8, 2, 0, 0, 0))


def lies() -> dict[str, bytes]:
    """Files whose header states one size and whose pixels have another."""
    jpeg, bmp = encoded(".jpg"), bytearray(encoded(".bmp"))
    frame = jpeg.index(b"\xff\xc0")
    length = struct.unpack_from(">H", jpeg, frame + 2)[0] + 2
    second = jpeg[frame : frame + 5] + struct.pack(">HH", 4000, 4000) + jpeg[frame + 9 : frame + length]
    struct.pack_into("<ii", bmp, 18, 4000, -(2**31))
    webp = encoded(".webp")
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (3999).to_bytes(3, "little") * 2
    return {
        "interlaced PNG": png(4000, 4000, bytes(1000), 1),
        "PNG with a second header": png(12, 20, bytes(12 * 61), 0, second_header()),
        "JPEG with two frames": jpeg[: frame + length] + second + jpeg[frame + length :],
        "BMP of no end": bytes(bmp),
        "WebP canvas": b"RIFF" + struct.pack("<I", len(webp) + 10) + b"WEBP" + canvas + webp[12:],
        "GIF of an empty frame": b"GIF89a" + struct.pack("<HH", 4000, 4000) + b"\0\0\0,\0\0\0\0\0\0\0\0\0\2\0;",
        "PNM without pixels": b"P6 4000 4000 255\n",
        "TIFF strip past the end": strips(IMAGE, t257=(4, [4000]), t278=(4, [4000])),
        "TIFF in a circle": tiff({256: (3, [9]), 257: (3, [9]), 273: (4, [8]), 279: (4, [2**32 - 1])}, b""),
    }


@pytest.mark.parametrize("name", lies())
def test_a_header_that_lies_is_an_error_within_its_time(name):
    start = time.monotonic()
    with pytest.raises(DataError, match="image a"):
        decode_image(lies()[name], "a")
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff" * 20_000_000,
        b"\xff\xd8" + b"\xff\xfe\0\2" * 5_000_000,
        b"\xff\xd8\xff\xda\0\2" + b"\xff\0" * 5_000_000,
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 9, 9, 8, 2, 0, 0, 0)) + bytes(20_000_000),
    ],
)
def test_a_header_without_an_end_costs_a_bounded_number_of_steps(data):
    start = time.monotonic()
    with pytest.raises(DataError):
        decode_image(data, "a")
    assert time.monotonic() - start < 5


def test_scans_count_with_the_pixels_that_each_goes_over():
    data = cv2.imencode(".jpg", np.zeros((64, 64, 3), np.uint8), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    assert decode_image(data, "a").shape == (64, 64, 3)
    with limits.allow(scan_pixels=64 * 64 * 5), pytest.raises(DataError, match="too many pixels for 10 scans"):
        decode_image(data, "a")
