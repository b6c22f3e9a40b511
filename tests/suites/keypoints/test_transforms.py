"""Crops lead points along and know the way back; half a body is a half."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.keypoints.datasets import CocoKeypoints
from suites.keypoints.sample import back
from suites.keypoints.transforms import HalfBody, ObjectCrop, RandomFlip
from suites.vision.pose import COCO_PERSON
from tests.suites.keypoints.helpers import coco, person

UPPER = COCO_PERSON.names[:11]


@pytest.fixture
def sample(tmp_path):
    return CocoKeypoints(*coco(tmp_path, [person(0)]))[0]


def rng():
    return np.random.default_rng(0)


def test_a_crop_puts_the_box_in_the_middle(sample):
    found = ObjectCrop([96, 64])(sample, rng())
    assert found.size == (96, 64)
    points = found.instances.keypoints[0]
    np.testing.assert_allclose(back(points[:, :2], found.matrix), sample.truth[:, :2], atol=1e-4)
    x1, y1, x2, y2 = found.instances.boxes.array[0]
    np.testing.assert_allclose([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1], [32, 48, 64 / 1.25], atol=1e-3)
    inside = found.image[48, 32]
    assert (inside == 200).all() and not found.image[0, 0].any()


def test_turns_and_flips_lead_back_under_the_right_names(sample):
    flipped = RandomFlip(1.0)(sample, rng())
    found = ObjectCrop(96, scale=0.3, shift=0.1, degrees=40)(flipped, rng())
    points = found.instances.keypoints[0]
    np.testing.assert_allclose(
        back(points[:, :2], found.matrix)[list(COCO_PERSON.mirrored)], sample.truth[:, :2], atol=1e-3
    )
    assert np.linalg.det(found.matrix[:, :2]) < 0


def test_half_a_body_is_the_box_around_its_points(sample):
    boxes = {
        tuple(HalfBody(UPPER, 1.0, 1.0)(sample, np.random.default_rng(k)).instances.boxes.array[0]) for k in range(9)
    }
    assert boxes == {(20, 12, 40, 32), (42, 34, 52, 44)}
    assert HalfBody(UPPER, 0.0)(sample, rng()) is sample
    with pytest.raises(DataError, match="no point is called 'head'"):
        HalfBody(["head"], 1.0)(sample, rng())


def test_few_points_make_no_half(tmp_path):
    sample = CocoKeypoints(*coco(tmp_path, [person(0, seen=3)]))[0]
    assert HalfBody(UPPER, 1.0)(sample, rng()) is sample


def test_wrong_arguments_are_refused():
    with pytest.raises(AttributeValueError, match="padding is 0"):
        ObjectCrop(64, padding=0)
