"""Label maps are numbers: grey and palette files give the same ids, colours and damage are refused by name."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.segmentation.labels import check_labels, decode_labels, encode_labels
from suites.vision.pictures.images import decode_image

LABELS = np.random.default_rng(0).integers(0, 256, (13, 17), np.uint8)
PALETTE = [(i, 255 - i, (7 * i) % 256) for i in range(256)]


def grey(labels, *parameters):
    return cv2.imencode(".png", labels, parameters)[1].tobytes()


def test_grey_and_palette_files_give_their_numbers():
    np.testing.assert_array_equal(decode_labels(grey(LABELS), "x.png"), LABELS)
    np.testing.assert_array_equal(decode_labels(encode_labels(LABELS, PALETTE), "x.png"), LABELS)


def test_a_palette_shows_the_classes_in_their_colours():
    shown = decode_image(encode_labels(LABELS, PALETTE), "x.png")
    np.testing.assert_array_equal(shown, np.array(PALETTE, np.uint8)[LABELS])


def test_a_palette_of_repeated_colours_keeps_the_numbers():
    np.testing.assert_array_equal(decode_labels(encode_labels(LABELS, [(9, 9, 9)] * 256), "x.png"), LABELS)


def test_one_bit_masks_and_three_equal_channels_are_numbers_too():
    mask = (LABELS > 99).astype(np.uint8)
    assert decode_labels(grey(mask, cv2.IMWRITE_PNG_BILEVEL, 1), "x.png").tolist() == mask.tolist()
    assert decode_labels(grey(cv2.merge([LABELS] * 3)), "x.png").tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (grey(np.dstack([LABELS, LABELS, LABELS // 2])), r"label map a\.png: is a picture in colours; .* class ids"),
        (grey(LABELS.astype(np.uint16) + 256), "a.png: holds the number [0-9]+; class ids and void are 0 to 255"),
        (grey(LABELS)[:-40], "a.png: cut off"),
        (b"", "a.png: the file is empty"),
        (b"GIF99a, or so it says", "a.png: damaged, or not an image"),
    ],
)
def test_what_is_no_label_map_is_refused(data, match):
    with pytest.raises(DataError, match=match):
        decode_labels(data, "a.png")


def test_a_label_without_a_class_is_refused_and_void_is_not():
    check_labels(np.array([[0, 2, 255]], np.uint8), 3, 255, "a.png")
    with pytest.raises(DataError, match=r"a\.png: holds the label 7, but there are 3 classes \(0 to 2\)"):
        check_labels(np.array([[0, 7, 255]], np.uint8), 3, 255, "a.png")
