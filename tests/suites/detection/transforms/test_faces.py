"""Data-anchor sampling: the chosen face stays whole and gets about the size of an anchor."""

from dataclasses import replace

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.transforms import DataAnchorSampling, RandomFlip, collate
from suites.vision.pose import FACE_POINTS
from suites.vision.structures import Boxes, Instances
from tests.suites.detection.transforms.helpers import painted


def test_the_face_is_kept_and_has_the_size_of_an_anchor():
    face = (20, 30, 52, 62)  # 32 pixels: targets of 16, 32 or 64 times 0.5 to 2
    sampling, rng = DataAnchorSampling(size=64, anchors=(16, 32, 64, 128)), np.random.default_rng(0)
    sides = []
    for _ in range(100):
        sample = sampling(painted([face], size=(90, 120)), rng)
        assert len(sample.instances) == 1 and sample.size[0] == sample.size[1]
        boxes = sample.instances.boxes
        assert boxes.array.min() >= 0 and boxes.array.max() <= sample.size[0]
        sides.append(float(np.sqrt(boxes.areas[0])) * 64 / sample.size[0])  # after Resize to 64
        back = sample.placement.inverse().boxes(boxes.array)
        np.testing.assert_allclose(back[0], face, atol=2.1)  # pixels of the original at half its size and less
    assert 7 < min(sides) < 12 and max(sides) <= 64 and np.ptp(sides) > 30


def test_images_without_faces_and_unlucky_ones_stay_as_they_are():
    sample = painted([(5, 5, 20, 20)])
    assert DataAnchorSampling(prob=0)(sample, np.random.default_rng(0)) is sample
    empty = painted([])
    assert DataAnchorSampling()(empty, np.random.default_rng(0)) is empty


def test_wrong_arguments_are_refused():
    with pytest.raises(AttributeValueError, match=r"size is 0, anchors \[16\]"):
        DataAnchorSampling(size=0, anchors=(16,))
    with pytest.raises(AttributeValueError, match=r"anchors \[32, 16\]"):
        DataAnchorSampling(anchors=(32, 16))


def test_a_mirrored_face_has_its_left_eye_on_the_left():
    sample = painted([(10, 10, 40, 40)], size=(60, 80))
    points = np.array([[[15, 20, 2], [35, 20, 2], [25, 25, 2], [18, 35, 2], [32, 35, 1]]], np.float32)
    sample = replace(sample, instances=replace(sample.instances, keypoints=points, pose=FACE_POINTS))
    flipped = RandomFlip(prob=1)(sample, np.random.default_rng(0))
    assert flipped.instances.keypoints[0].tolist() == [[45, 20, 2], [65, 20, 2], [55, 25, 2], [48, 35, 1], [62, 35, 2]]
    assert RandomFlip(prob=0)(sample, np.random.default_rng(0)) is sample
    batch = collate([flipped, painted([])], landmarks=5)
    assert batch["landmarks"].shape == (2, 16, 5, 3) and not batch["landmarks"][1].any()
    np.testing.assert_array_equal(batch["landmarks"][0, 0], flipped.instances.keypoints[0])


def test_points_that_a_crop_puts_outside_of_the_picture_are_not_learnt():
    sample = painted([])
    height, width = sample.size
    points = np.array([[[1, 2, 2], [width + 3, 2, 2], [-2, 5, 1], [4, height, 2], [0, 0, 0]]], np.float32)
    face = Instances(Boxes(np.array([[0, 0, 9, 9]], np.float32)), np.zeros(1, np.int64), keypoints=points)
    found = collate([replace(sample, instances=face)], landmarks=5)["landmarks"][0, 0]
    assert found[:, 2].tolist() == [2, 0, 0, 2, 0] and not found[1:3].any()
