"""Keypoint R-CNN: its loss is the loops', it learns a point, trains without objects, and is exported."""

import math

import numpy as np
import pytest

from framework import nn, no_grad, optim, tensor
from framework.errors import AttributeValueError
from framework.random import seed
from suites.detection.models.base import Detections, PostProcess, Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import RPN, BoxHead, RegionSampler
from suites.detection.models.rcnn.detectors import KeypointRCNN
from suites.detection.models.rcnn.keypoint_head import KeypointHead
from suites.detection.models.rcnn.proposals import ProposalLimits
from suites.detection.models.rcnn.regions import RegionPool, Regions
from suites.detection.pose import located
from suites.engine.config import Factory
from suites.vision.backbones import MobileNetV2
from suites.vision.pose import Pose
from tests.suites.detection.models.helpers import arrays_of, assert_exports, images_of

POSE = Pose(("tip", "left", "right"), (0, 2, 1))
FEW = ProposalLimits(40, 24)
RNG = np.random.default_rng(0)


def tiny():
    head = Factory.of(
        BoxHead, num_classes=2, width=16, sampler=RegionSampler(16, 0.25), postprocess=PostProcess(0.0, 50, 0.5, 6)
    )
    model = KeypointRCNN(
        MobileNetV2(0.25, out_strides=(4, 8, 16, 32)),
        head,
        Factory.of(FPN, width=8),
        Factory.of(RPN, sizes=(8, 16, 32, 64, 128), samples=32, train=FEW, predict=FEW),
        keypoint_head=Factory.of(KeypointHead, width=8, convs=1, pool=RegionPool(4), pose=POSE),
    )
    nn.init.initialize(model, 0)
    return model


def points_of(boxes):
    """[N, M, 3, 3]: three points in each box, the last one hidden from view and so not labelled."""
    low, high = boxes[..., None, :2], boxes[..., None, 2:]
    places = low + (high - low) * np.array([[0.5, 0.1], [0.1, 0.8], [0.9, 0.8]], np.float32)
    seen = np.broadcast_to(np.array([2, 1, 0], np.float32)[:, None], (*places.shape[:-1], 1))
    return np.concatenate([places, seen], axis=-1).astype(np.float32)


def test_the_loss_is_that_of_the_loops():
    head = KeypointHead((8, 8), (4, 8), width=8, convs=1, pool=RegionPool(4), pose=POSE)
    nn.init.initialize(head, 1)
    maps = [tensor(RNG.standard_normal((2, 16 // s, 24 // s, 8)).astype(np.float32)) for s in (1, 2)]
    boxes = np.array([[[4, 4, 40, 44], [8, 0, 30, 20], [0, 0, 9, 9]], [[10, 10, 60, 60], [2, 2, 8, 8], [0, 0, 0, 0]]])
    index = np.array([[1, 0, -1], [0, -1, -2]])
    landmarks = RNG.uniform(0, 50, (2, 2, 3, 3)).astype(np.float32)
    landmarks[..., 2] = [[[2, 1, 0], [2, 2, 2]], [[1, 2, 2], [0, 0, 0]]]
    landmarks[0, 1, 0, :2] = 40, 44  # the far corner of its region: its last cell
    landmarks[0, 1, 1, :2] = 41, 20  # outside
    boxes = boxes.astype(np.float32)
    zeros = tensor(np.zeros((2, 3), np.float32))
    regions = Regions(tensor(boxes), tensor(index), tensor(index), tensor(boxes), zeros, tensor(np.float32(1)))
    found = head.losses(maps, regions, tensor(landmarks))["loss_keypoint"]
    matched = tensor((index >= 0).sum(axis=1))
    logits = head(head.pool(maps, (4, 8), regions.boxes, matched)).numpy().astype(float).reshape(2, 3, 16, 16, 3)
    terms = []
    for n in range(2):
        for r in range(3):
            for point in range(3) if index[n, r] >= 0 else ():
                x, y, seen = landmarks[n, index[n, r], point].astype(float)
                x1, y1, x2, y2 = boxes[n, r].astype(float)
                column = 15 if x == x2 else math.floor((x - x1) * 16 / (x2 - x1))
                row = 15 if y == y2 else math.floor((y - y1) * 16 / (y2 - y1))
                if seen and 0 <= column < 16 and 0 <= row < 16:
                    grid = logits[n, r, :, :, point]
                    terms.append(np.log(np.exp(grid - grid.max()).sum()) + grid.max() - grid[row, column])
    assert 3 <= len(terms) < 9 and float(found.weight) == len(terms)
    assert float(found.mean) == pytest.approx(np.mean(terms), rel=1e-5)


@pytest.mark.parametrize("objects", [2, 0])
def test_a_step_is_finite_with_objects_and_without(objects):
    model = tiny()
    boxes, labels, scores = arrays_of(2, objects, 2)
    seed(3)
    targets = Targets(tensor(boxes), tensor(labels), tensor(scores), landmarks=tensor(points_of(boxes)))
    terms = model.losses(tensor(images_of(2)), targets)
    value = float(terms["loss_keypoint"].mean)
    assert np.isfinite(value) and (value > 0) == bool(objects)
    terms["loss_keypoint"].mean.backward()
    moved = np.abs(model.keypoint_head.up_weight.grad.numpy()).sum()
    assert np.isfinite(moved) and (moved > 0) == bool(objects)


def test_targets_without_points_are_refused():
    boxes, labels, scores = arrays_of(1, 1, 2)
    with pytest.raises(AttributeValueError, match="KeypointRCNN: learns from keypoints, but the targets have none"):
        tiny().losses(tensor(images_of(1)), Targets(tensor(boxes), tensor(labels), tensor(scores)))
    with pytest.raises(AttributeValueError, match="width is 8 and convs 0"):
        KeypointHead((8,), (4,), width=8, convs=0)


def test_it_learns_where_a_bright_pixel_lies():
    head = KeypointHead((2,), (4,), width=16, convs=2, pool=RegionPool(8), pose=Pose(("spot",)))
    nn.init.initialize(head, 0)
    adam, rng = optim.Adam(head.named_parameters(), 3e-3), np.random.default_rng(0)

    def drawn(count):
        maps, points = np.zeros((count, 16, 16, 2), np.float32), np.zeros((count, 1, 1, 3), np.float32)
        for n in range(count):
            row, column = rng.integers(2, 14, 2)
            maps[n, row, column], points[n, 0, 0] = 4, ((column + 0.5) * 4, (row + 0.5) * 4, 2)
        return tensor(maps), points

    boxes = np.broadcast_to(np.array([0, 0, 64, 64], np.float32), (16, 1, 4)).copy()
    index, zeros = np.zeros((16, 1), np.int64), tensor(np.zeros((16, 1), np.float32))
    regions = Regions(tensor(boxes), tensor(index), tensor(index), tensor(boxes), zeros, tensor(np.float32(1)))
    for _ in range(150):
        maps, points = drawn(16)
        head.losses([maps], regions, tensor(points))["loss_keypoint"].mean.backward()
        adam.step()
        adam.zero_grad()
    maps, points = drawn(16)
    with no_grad():
        heatmaps = head(head.pool([maps], (4,), tensor(boxes))).numpy()
    apart = np.abs(located(heatmaps, boxes[:, 0])[:, 0] - points[:, 0, 0, :2]).max(axis=1)
    assert np.median(apart) < 4  # pixels, of a cell's 4


def test_it_is_exported(tmp_path):
    assert_exports(tiny(), tmp_path)


@pytest.mark.parametrize("together", [1, 2, 4, 50])
def test_heatmaps_do_not_depend_on_how_many_are_looked_at_together(together):
    maps = [tensor(RNG.standard_normal((2, 16 // s, 24 // s, 8)).astype(np.float32)) for s in (1, 2)]
    low = RNG.uniform(0, 30, (2, 4, 2)).astype(np.float32)
    boxes, counts = np.concatenate([low, low + 20], axis=2), np.array([3, 1], np.int32)
    found = Detections(
        tensor(boxes), tensor(np.ones((2, 4), np.float32)), tensor(np.zeros((2, 4), np.int64)), tensor(counts)
    )
    heatmaps = []
    for size in (None, together):
        head = KeypointHead((8, 8), (4, 8), width=8, convs=1, pool=RegionPool(4), pose=POSE, together=size)
        nn.init.initialize(head, 1)
        with no_grad():
            heatmaps.append(head.detect(maps, found, 4).heatmaps.numpy())
    for n, count in enumerate(counts):
        np.testing.assert_allclose(heatmaps[1][n, :count], heatmaps[0][n, :count], rtol=1e-5, atol=1e-6)


def test_no_detection_at_a_time_is_an_error():
    with pytest.raises(AttributeValueError, match="together is 0; it must be 1 or more, or null for all"):
        KeypointHead((8,), (4,), together=0)
