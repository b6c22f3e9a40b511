"""Pictures as people have them in Python are those of their files; what cannot be told is refused with its remedy."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.vision.pictures.given import as_clip, as_image
from suites.vision.pictures.images import read_image, write_image

IMAGE = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
IMAGE[0, 0, :2] = 0, 255
GREY = IMAGE[..., 0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (IMAGE, IMAGE),
        (IMAGE[:, ::-1], IMAGE[:, ::-1]),
        (GREY, np.stack([GREY] * 3, axis=2)),
        (GREY[..., None], np.stack([GREY] * 3, axis=2)),
        (np.dstack([IMAGE, GREY]), IMAGE),
        (IMAGE.astype(np.uint16) * 257, IMAGE),
        (GREY.astype(np.uint16) * 257, np.stack([GREY] * 3, axis=2)),
        ((IMAGE.astype(np.uint16) * 257)[::-1, ::-1], IMAGE[::-1, ::-1]),
        ((IMAGE.astype(np.uint16) * 257).astype(">u2"), IMAGE),
    ],
    ids=[
        "bytes",
        "a view",
        "grey",
        "one channel",
        "alpha",
        "16 bits",
        "grey of 16 bits",
        "a view of 16 bits",
        "big end",
    ],
)
def test_a_picture_is_bytes_of_three_channels(given, expected):
    found = as_image(given)
    assert found.dtype == np.uint8 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (IMAGE / 255, r"uint8; these are float64 from 0 to 1: give \(image \* 255\)\.round\(\)\.astype\(np\.uint8\)"),
        (IMAGE.astype(np.float32), r"float32 from 0 to 255: give image\.round\(\)\.astype\(np\.uint8\)"),
        (IMAGE - 300.0, r"float64 from -300 to -\d+: bring them to 0 to 255"),
        (np.full((2, 2, 3), np.nan), "from nan to nan: bring them"),
        (IMAGE.astype(np.int64), r"int64 from 0 to 255: give image\.round"),
        (IMAGE > 9, r"these are bool: give image\.astype\(np\.uint8\) \* 255"),
        (IMAGE.transpose(2, 0, 1), r"this array is \[3, 5, 7\]: put its channels last"),
        (IMAGE[None], r"this array is \[1, 5, 7, 3\]: give a list of its pictures"),
        (IMAGE[0, 0], r"a picture is \[height, width, 3\] or grey \[height, width\]; this array is \[3\]"),
        (np.zeros((4, 4, 2), np.uint8), r"this array is \[4, 4, 2\]"),
        (np.zeros((0, 0), np.uint8), r"has pixels; this array is \[0, 0"),
        (np.zeros((0, 9, 3), np.uint8), r"has pixels; this array is \[0, 9, 3\]"),
        (np.array([[object()]]), "holds ndarray of objects"),
        (np.array([["a"]]), "uint8; these are <U1"),
        (IMAGE.astype(np.complex64), "these are complex64"),
        (IMAGE.tolist(), "takes a picture as an array or as the path of a file, got list"),
        (None, "got NoneType"),
        (b"\xff\xd8\xff", "got bytes"),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_to_do(given, match):
    with pytest.raises(DataError, match=match):
        as_image(given)


class Tensor:
    """As PyTorch's: an array of its own kind, perhaps with a gradient or on another device."""

    def __init__(self, array, where="cpu", gradient=True):
        self.array, self.where, self.gradient = array, where, gradient

    def detach(self):
        return Tensor(self.array, self.where, gradient=False)

    def __array__(self, dtype=None, copy=None):
        if self.gradient or self.where != "cpu":
            raise TypeError(f"can't convert {self.where} tensor to numpy")
        return self.array


def test_tensors_of_other_libraries_are_taken_where_numpy_reads_them():
    np.testing.assert_array_equal(as_image(Tensor(IMAGE)), IMAGE)
    with pytest.raises(DataError, match="of type Tensor is no array that NumPy reads: can't convert cuda tensor"):
        as_image(Tensor(IMAGE, "cuda"))


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "P", "1", "LA"])
def test_pictures_of_pillow_are_those_of_their_files(mode, tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    made = pillow.fromarray(np.repeat(np.repeat(IMAGE, 8, 0), 8, 1)).convert(mode)
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    made.save(path)
    expected = np.asarray(made.convert("RGB"))
    found = as_image(made)
    np.testing.assert_array_equal(found, expected)
    if mode != "CMYK":  # whose conversion to RGB is each library's own
        np.testing.assert_array_equal(found, read_image(path))


@pytest.mark.parametrize("orientation", range(1, 10))
def test_a_picture_of_pillow_is_turned_as_its_file_is(orientation, tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    tags = pillow.Exif()
    tags[274] = orientation
    pillow.fromarray(IMAGE).save(tmp_path / "a.png", exif=tags)
    with pillow.open(tmp_path / "a.png") as opened:
        found = as_image(opened)
    assert found.shape == ((7, 5, 3) if 5 <= orientation <= 8 else (5, 7, 3))
    np.testing.assert_array_equal(found, read_image(tmp_path / "a.png"))


def test_a_file_that_pillow_cannot_read_to_its_end_is_one_error(tmp_path):
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pillow.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:9000])
    with pillow.open(tmp_path / "a.png") as opened, pytest.raises(DataError, match="Pillow cannot read the picture: "):
        as_image(opened)


def test_pillow_s_16_bits_count_whole_and_its_floats_are_refused():
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    made = pillow.fromarray(GREY.astype(np.uint16) * 257)
    np.testing.assert_array_equal(as_image(made)[..., 1], GREY)
    with pytest.raises(DataError, match="Pillow's mode F, whose range is not known"):
        as_image(pillow.fromarray(GREY.astype(np.float32)))


def test_clips_have_one_axis_more():
    clip = np.stack([IMAGE, IMAGE[::-1]])
    np.testing.assert_array_equal(as_clip(clip), clip)
    np.testing.assert_array_equal(as_clip(clip.astype(np.uint16) * 257), clip)
    assert as_clip(clip[..., :1]).shape == (2, 5, 7, 3)
    for given, match in (
        (IMAGE, r"a clip is \[frames, height, width, 3\]; this array is \[5, 7, 3\]: put frames together"),
        (clip[:0], "a clip has one frame or more"),
        (clip / 255, "a clip's pixels are uint8; these are float64 from 0 to 1"),
        ([IMAGE], "takes a clip as an array"),
    ):
        with pytest.raises(DataError, match=match):
            as_clip(given)


def test_a_picture_that_was_written_is_the_array_it_was_made_of(tmp_path):
    write_image(tmp_path / "a.png", IMAGE)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), as_image(IMAGE))
