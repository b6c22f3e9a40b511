"""Means over rectangles are those of a plain loop, of whole pictures and of cuts."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import ShapeError
from suites.detection.models.faces.areas import Areas


def by_area(image, size):
    """Each pixel is the mean of the pixels that it lies on, as PyTorch's `interpolate(mode="area")` has it."""
    height, width = image.shape[:2]

    def bins(count, extent):
        return [(i * extent // count, -((i + 1) * extent // -count)) for i in range(count)]

    rows = [[image[a:b, c:d].mean(axis=(0, 1)) for c, d in bins(size[1], width)] for a, b in bins(size[0], height)]
    return np.array(rows)


@pytest.mark.parametrize("size", [(5, 7), (23, 31), (40, 50)])
def test_pictures_at_another_size(size):
    images = np.random.default_rng(0).standard_normal((2, 23, 31, 3)).astype(np.float32)
    found = Areas(tensor(images), (23, 31)).resized(size).numpy()
    np.testing.assert_allclose(found, [by_area(image, size) for image in images], atol=1e-6)


def test_cuts_smaller_and_larger_than_their_side():
    images = np.random.default_rng(1).standard_normal((2, 23, 31, 3)).astype(np.float32)
    boxes = np.array([[[0, 0, 31, 23], [3, 5, 4, 6]], [[7, 1, 29, 14], [30, 22, 31, 23]]])
    found = Areas(tensor(images), (23, 31)).cuts(tensor(boxes), 12).numpy()
    wanted = [by_area(images[n, y1:y2, x1:x2], (12, 12)) for n in (0, 1) for x1, y1, x2, y2 in boxes[n]]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_batch_of_another_size_is_an_error():
    with pytest.raises(ShapeError):
        Areas(tensor(np.zeros((1, 8, 9, 3), np.float32)), (7, 9))
