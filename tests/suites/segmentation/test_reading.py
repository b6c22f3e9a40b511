"""A label file is ids, colours or two values; what does not fit is named, with its file."""

import cv2
import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.segmentation.datasets.reading import Binary, Colours, Ids, Soft
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import encode_image

PALETTE = [(128, 0, 0), (0, 128, 0), (10, 20, 30)]


def grey(*numbers):
    return cv2.imencode(".png", np.array([numbers], np.uint8))[1].tobytes()


def test_ids_are_the_numbers_or_looked_up():
    assert Ids(11, [11])(grey(0, 10, 11, 255), "x.png").tolist() == [[0, 10, 255, 255]]
    assert Ids(2, ids={7: 0, 8: 1})(grey(0, 7, 8, 9, 255), "x.png").tolist() == [[255, 0, 1, 255, 255]]


def test_zero_is_void_where_classes_begin_at_one():
    reader = Ids(150, reduce_zero=True)
    assert reader(grey(0, 1, 2, 150, 255), "x.png").tolist() == [[255, 0, 1, 149, 255]]
    with pytest.raises(DataError, match=r"x\.png: holds the label 151, but there are 150 classes \(1 to 150\)"):
        reader(grey(151), "x.png")
    with pytest.raises(AttributeValueError, match="reduce_zero goes with the numbers as they are"):
        Ids(2, ids={1: 0}, reduce_zero=True)


def test_colours_are_classes_and_black_is_void():
    labels = np.array([[0, 1, 2, 1], [255, 2, 2, 0]], np.uint8)
    colours = np.zeros((256, 3), np.uint8)
    colours[:3] = PALETTE
    reader = Colours(PALETTE)
    np.testing.assert_array_equal(reader(encode_image(colours[labels]), "x.png"), labels)
    assert Colours([(0, 0, 0), (9, 9, 9)])(encode_image(np.zeros((2, 2, 3), np.uint8)), "x").max() == 0  # black named
    # A palette PNG decodes to the colours that it shows.
    np.testing.assert_array_equal(reader(encode_labels(labels, PALETTE), "x.png"), labels)


def test_colours_of_no_class_are_counted_and_the_first_named():
    image = np.full((2, 3, 3), (128, 0, 0), np.uint8)
    image[0, 1], image[1, 2] = (127, 0, 0), (1, 2, 3)
    with pytest.raises(DataError, match=r"x\.png: 2 pixels have colours of no class, the first is \[127, 0, 0\]"):
        Colours(PALETTE)(encode_image(image), "x.png")
    with pytest.raises(AttributeValueError, match="two classes have one colour"):
        Colours([(1, 1, 1), (1, 1, 1)])


@pytest.mark.parametrize("values", [(0, 255), (0, 1), (0, 77)])
def test_a_binary_mask_is_what_is_not_zero(values):
    assert Binary()(grey(values[0], values[1], values[1]), "x.png").tolist() == [[0, 1, 1]]
    assert Binary()(grey(values[1]), "x.png").tolist() == [[1]] and Binary()(grey(0), "x.png").tolist() == [[0]]


def test_a_soft_map_is_an_edge_where_most_drew_one():
    assert Soft()(grey(0, 102, 127, 128, 153, 255), "x.png").tolist() == [[0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize("numbers", [(0, 128, 255), (1, 2)])
def test_a_mask_of_more_values_is_refused(numbers):
    with pytest.raises(DataError, match=r"x\.png: a binary mask holds 0 and one other number, not"):
        Binary()(grey(*numbers), "x.png")
