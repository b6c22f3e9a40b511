"""Shapes of a data set come back as they were read, and damaged ones are refused by name."""

import numpy as np
import pytest
from pycocotools import mask as coco

from framework.errors import DataError
from suites.detection.datasets.shapes import ShapeTable, read_shape
from suites.vision.structures import encode

SIZE = (12, 20)
SQUARE = [2, 3, 10, 3, 10, 9, 2, 9]
TRIANGLE = [12, 1, 18, 1, 15, 6]


def bitmap():
    found = np.zeros(SIZE, bool)
    found[3:9, 5:7] = found[0, 0] = True
    return found


def test_polygons_and_codes_mixed_come_back_as_they_were():
    shapes = [read_shape(v, "a") for v in ([SQUARE, TRIANGLE], encode(bitmap()) | {"size": [12, 20]}, [TRIANGLE])]
    table = ShapeTable(shapes)
    masks = table.masks(np.array([2, 1, 0]), SIZE)
    direct = coco.decode(coco.frPyObjects([SQUARE, TRIANGLE], *SIZE)).any(axis=2)
    np.testing.assert_array_equal(masks.bitmaps()[1], bitmap())
    np.testing.assert_array_equal(masks.bitmaps()[2], direct)
    assert len(table) == 3 and len(masks) == 3


def test_a_table_without_shapes_is_empty():
    assert len(ShapeTable([])) == 0
    assert len(ShapeTable([]).masks(np.zeros(0, int), SIZE)) == 0


@pytest.mark.parametrize("counts", [[3, 4, 233], "as text"])
def test_run_lengths_may_be_numbers_or_text(counts):
    if counts == "as text":
        counts = coco.frPyObjects({"size": list(SIZE), "counts": [3, 4, 233]}, *SIZE)["counts"].decode()
    shape = read_shape({"size": list(SIZE), "counts": counts}, "a")
    assert coco.area(shape) == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2, 3, 4]], "annotation 7: its segmentation has no polygon of three points or more"),
        ([[1, 2, 3, 4, 5]], "is no list x, y, x, y"),
        ([[1, 2, 3, 4, 5, float("nan")]], "finite numbers"),
        ([["a", "b"]], "neither a list of polygons nor a run-length code"),
        (5, "neither a list of polygons nor a run-length code"),
        ({"size": [12, 20], "counts": [3, 4]}, "covers 7 pixels; its picture of 20x12 has 240"),
        ({"size": [12, 20], "counts": [-3, 243]}, "covers 240 pixels"),
        ({"size": [12, 20], "counts": "\x01"}, "is damaged"),
        ({"size": [12, 20], "counts": "o"}, "cut off"),
        ({"size": [12], "counts": [240]}, "must be .height, width."),
        ({"size": [12, 20]}, "has no counts"),
    ],
)
def test_a_damaged_shape_is_refused_by_name(value, message):
    with pytest.raises(DataError, match=message):
        read_shape(value, "annotation 7")
