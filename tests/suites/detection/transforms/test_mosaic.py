"""Mosaic, CopyPaste and RandomCrop keep boxes and masks on the pixels that they belong to."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.detection.transforms import CopyPaste, Mosaic, RandomCrop
from suites.vision.structures import Boxes, Instances, Masks

SIZE = (48, 64)


def sample_of(colour, boxes, masks=True, size=SIZE):
    """A black picture with filled rectangles of one colour."""
    image = np.zeros((*size, 3), np.uint8)
    bitmaps = np.zeros((len(boxes), *size), bool)
    for bitmap, (x1, y1, x2, y2) in zip(bitmaps, boxes, strict=True):
        bitmap[y1:y2, x1:x2] = True
        image[y1:y2, x1:x2] = colour
    instances = Instances(
        Boxes(np.array(boxes, np.float32)),
        np.zeros(len(boxes), np.int64),
        masks=Masks.of_bitmaps(bitmaps) if masks else None,
    )
    return Sample(image=image, instances=instances)


RED, BLUE = (200, 0, 0), (0, 0, 200)


@pytest.mark.parametrize("seed", range(8))
def test_objects_of_a_mosaic_lie_where_their_pixels_are(seed):
    samples = [sample_of((200, 0, 0), [(8, 8, 40, 40)]) for _ in range(4)]
    others = iter(samples[1:])
    found = Mosaic(80, scale=(0.5, 1.2)).mix(samples[0], np.random.default_rng(seed), lambda: next(others))
    assert found.size == (80, 80) and found.image.dtype == np.uint8
    red = found.image[..., 0] > 150
    covered = found.instances.masks.bitmaps().any(axis=0)
    assert (red & covered).sum() >= 0.8 * covered.sum()
    for box, bitmap in zip(found.instances.boxes, found.instances.masks.bitmaps(), strict=True):
        rows, columns = np.nonzero(bitmap)
        tight = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        np.testing.assert_allclose(box, tight, atol=1.6)


def test_a_mosaic_is_drawn_as_often_as_asked():
    sample = sample_of(RED, [(8, 8, 40, 40)])
    assert Mosaic(80, prob=0.0).mix(sample, np.random.default_rng(0), lambda: sample) is sample
    with pytest.raises(AttributeValueError, match="shares of the canvas lie in"):
        Mosaic(80, centre=(0.2, 1.5))


def test_pasted_objects_hide_what_lies_below():
    below = sample_of(RED, [(0, 0, 20, 20), (30, 30, 40, 40), (44, 4, 60, 20)])
    above = sample_of(BLUE, [(0, 0, 20, 18), (44, 4, 52, 20)])
    found = CopyPaste(prob=1.0, most=100, least_seen=0.3).mix(below, _AllOf(2), lambda: above)
    assert len(found.instances) == 4  # the first of the lower ones is hidden but for a tenth
    np.testing.assert_array_equal(found.image[5, 5], BLUE)
    np.testing.assert_allclose(found.instances.boxes.array[:2], [[30, 30, 40, 40], [52, 4, 60, 20]])
    bitmaps = found.instances.masks.bitmaps()
    assert bitmaps.sum(axis=0).max() == 1  # every pixel belongs to one object


class _AllOf:
    """A generator that pastes everything."""

    def __init__(self, count):
        self._count = count

    def random(self):
        return 0.0

    def permutation(self, x):
        return x

    def integers(self, low, high):
        return high - 1


def test_pasting_without_masks_says_so():
    plain = sample_of(RED, [(0, 0, 20, 20)], masks=False)
    with pytest.raises(AttributeValueError, match="the samples have no masks"):
        CopyPaste(prob=1.0).mix(plain, np.random.default_rng(0), lambda: plain)
    empty = Sample(image=np.zeros((*SIZE, 3), np.uint8))
    assert CopyPaste(prob=1.0).mix(empty, np.random.default_rng(0), lambda: plain) is empty
    with pytest.raises(AttributeValueError, match="most is 0"):
        CopyPaste(most=0)


@pytest.mark.parametrize("seed", range(8))
def test_a_crop_of_a_fixed_size_holds_an_object(seed):
    sample = sample_of(RED, [(50, 30, 60, 44)])
    found = RandomCrop([24, 32])(sample, np.random.default_rng(seed))
    assert found.size == (24, 32) and len(found.instances) == 1
    assert (found.image[..., 0] > 0).sum() == found.instances.masks.areas().sum() > 0


def test_a_smaller_picture_is_not_cropped():
    sample = sample_of(RED, [(8, 8, 40, 40)])
    assert RandomCrop(100)(sample, np.random.default_rng(0)) is sample
    assert RandomCrop([100, 32])(sample, np.random.default_rng(0)).size == (48, 32)
    empty = Sample(image=np.zeros((*SIZE, 3), np.uint8))
    assert RandomCrop(16)(empty, np.random.default_rng(0)).size == (16, 16)
