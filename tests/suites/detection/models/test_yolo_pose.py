"""YOLOv3 with points of each object: its loss is the loops', points come with their boxes, it learns and exports."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, optim, tensor
from framework.errors import AttributeValueError, ConfigError
from suites.detection.losses import YOLOv3Loss
from suites.detection.losses.landmarks import PointsLoss
from suites.detection.models.base import PostProcess, Targets
from suites.detection.models.yolov3 import YOLOv3, YOLOv3Head, YOLOv3Neck
from suites.detection.processor import DetectionProcessor
from suites.engine.config import Factory
from suites.vision.backbones import DarkNet53
from suites.vision.pose import Pose
from tests.suites.detection.models.helpers import arrays_of, assert_exports, images_of

POSE = Pose(("tip", "left", "right"), (0, 2, 1), ((0, 1),))
ANCHORS = ((12, 12), (24, 24), (36, 36), (48, 48))
RNG = np.random.default_rng(0)


def tiny(**head):
    head = {"num_classes": 2, "anchors": ANCHORS, "pose": POSE, **head}
    backbone = DarkNet53(width=4, blocks=(1, 1, 1), out_strides=(4, 8))
    model = YOLOv3(backbone, Factory.of(YOLOv3Head, **head), Factory.of(YOLOv3Neck, width=16))
    nn.init.initialize(model, 0)
    return model


def points_in(boxes):
    """[N, M, 3, 3]: three points in each box, the last one not labelled, and no number."""
    low, high = boxes[..., None, :2], boxes[..., None, 2:]
    places = low + (high - low) * np.array([[0.5, 0.1], [0.1, 0.8], [0.9, 0.8]], np.float32)
    places[..., 2, :] = np.nan
    seen = np.broadcast_to(np.array([2, 1, 0], np.float32)[:, None], (*places.shape[:-1], 1))
    return np.concatenate([places, seen], axis=-1).astype(np.float32)


def test_the_loss_is_that_of_the_loops():
    shape = (1, 2, 3)  # N, M, L
    anchor, sides = RNG.uniform(10, 40, (1, 2, 2)), RNG.uniform(10, 40, (1, 2, 2))
    middle = RNG.uniform(0, 60, (1, 2, 2))
    codes, logits = RNG.normal(0, 0.3, (*shape, 2)), RNG.normal(0, 1, shape)
    points = middle[:, :, None] + codes * anchor[:, :, None]
    truth = np.concatenate([points + RNG.normal(0, 3, points.shape), np.array([2, 1, 0] * 2).reshape(1, 2, 3, 1)], -1)
    truth[0, 0, 2, :2] = np.nan
    loss = PointsLoss(oks=2.0, offset=3.0, seen=0.5, sigmas=(0.05, 0.1, 0.07))
    given = (tensor(np.float32(a)) for a in (codes, logits, points, anchor, sides, truth))
    found = {name: term.numpy() for name, term in loss(*given).items()}
    for m in range(2):
        oks, offset, seen = [], [], []
        for k, sigma in enumerate(loss.sigmas):
            visible = truth[0, m, k, 2] > 0
            seen.append(np.log1p(np.exp(-logits[0, m, k])) if visible else np.log1p(np.exp(logits[0, m, k])))
            if visible:
                apart = ((points[0, m, k] - truth[0, m, k, :2]) ** 2).sum()
                oks.append(1 - np.exp(-apart / (2 * sides[0, m].prod() * (2 * sigma) ** 2)))
                off = np.abs((truth[0, m, k, :2] - points[0, m, k]) / anchor[0, m])
                offset.append(np.where(off < 1, off**2 / 2, off - 0.5).sum())
        assert found["loss_oks"][0, m] == pytest.approx(2.0 * np.mean(oks), rel=1e-4)
        assert found["loss_offset"][0, m] == pytest.approx(3.0 * np.mean(offset), rel=1e-4)
        assert found["loss_seen"][0, m] == pytest.approx(0.5 * np.mean(seen), rel=1e-5)


@pytest.mark.parametrize("objects", [2, 0])
def test_a_step_is_finite_with_objects_and_without_traced_as_well_as_eager(objects):
    model = tiny()
    boxes, labels, scores = arrays_of(2, objects, 2)
    arrays = images_of(2), boxes, labels, scores, points_in(boxes)

    def step(images, boxes, labels, scores, landmarks):
        for parameter in model.parameters():
            parameter.grad = None
        terms = model.losses(images, Targets(boxes, labels, scores, landmarks=landmarks))
        sum(terms.values(), start=tensor(np.float32(0))).backward()
        return terms

    buffers = {name: b.numpy().copy() for name, b in model.named_buffers()}
    found = []
    for run in (step, framework.program(step)):
        for name, buffer in model.named_buffers():
            buffer.set(tensor(buffers[name]))
        terms = {name: float(term) for name, term in run(*(tensor(a) for a in arrays)).items()}
        found.append((terms, np.abs(model.head.mark_outs[0].weight.grad.numpy()).sum()))
    (eager, moved), (program, _) = found
    assert program == pytest.approx(eager, rel=1e-4, abs=1e-6)
    assert all(np.isfinite(value) for value in eager.values()) and np.isfinite(moved)
    assert all((eager[name] > 0) == bool(objects) for name in ("loss_oks", "loss_offset", "loss_seen"))
    assert (moved > 0) == bool(objects)


def drawn(count, seed):
    """Dark pictures with a light square each, whose points are its upper middle and its lower corners."""
    rng = np.random.default_rng(seed)
    images = rng.normal(-1, 0.1, (count, 32, 32, 3)).astype(np.float32)
    boxes, scores = np.zeros((count, 1, 4), np.float32), np.ones((count, 1), np.float32)
    for n in range(count):
        side = int(rng.integers(10, 20))
        x, y = rng.integers(0, 32 - side, 2)
        images[n, y : y + side, x : x + side] += 3
        boxes[n, 0] = x, y, x + side, y + side
    low, high = boxes[:, :, None, :2], boxes[:, :, None, 2:]
    places = low + (high - low) * np.array([[0.5, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    seen = np.broadcast_to(np.array([2, 2, 0], np.float32)[:, None], (*places.shape[:-1], 1))
    return images, boxes, scores, np.concatenate([places, seen], axis=-1).astype(np.float32)


def test_it_learns_where_points_of_squares_lie_and_which_are_seen():
    model = tiny(num_classes=1, loss=YOLOv3Loss(label_smooth=False))
    adam = optim.Adam(model.named_parameters(), lr=3e-3)

    @framework.program
    def step(images, boxes, scores, landmarks):
        labels = framework.ops.cast(scores * 0.0, "int64")
        terms = model.losses(images, Targets(boxes, labels, scores, landmarks=landmarks))
        loss = sum(terms.values(), start=tensor(np.float32(0)))
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    for seed in range(150):
        step(*(tensor(a) for a in drawn(16, seed)))
    images, _, _, landmarks = drawn(16, 1000)
    with no_grad():
        found = model.eval().detect(tensor(images))
    apart = np.abs(found.landmarks.numpy()[:, 0, :2] - landmarks[:, 0, :2, :2]).max(axis=(1, 2))
    assert np.median(apart) < 3  # pixels, of squares of 10 to 20
    seen = found.seen.numpy()[:, 0]
    assert (seen[:, :2] > 0.5).mean() > 0.9 and (seen[:, 2] < 0.5).mean() > 0.9


def test_each_detection_has_the_points_of_its_own_prediction():
    model = tiny(postprocess=PostProcess(score_threshold=0.0001, keep_top_k=5)).eval()
    for (
        out
    ) in model.head.mark_outs:  # codes of 0 and sureness 0.5 but for a bias: points at (1, -1) sides of the anchor
        out.weight.set(out.weight * 0.0)
        bias = np.tile([1, -1] * 3 + [0] * 3, 2).astype(np.float32)
        out.bias.set(tensor(bias))
    with no_grad():
        found = model.detect(tensor(images_of(1)))
        boxes, _ = model.head.scored_boxes(model.maps(tensor(images_of(1))))
    boxes, places = boxes.numpy()[0], []
    for level, (rows, columns) in zip(model.head.levels, ((16, 24), (8, 12)), strict=True):
        for row in range(rows):
            for column in range(columns):
                cell = (np.array([column, row]) + 0.5) * level.stride
                places += [cell + np.array([1, -1]) * anchor for anchor in level.anchors]
    count = int(found.counts.numpy()[0])
    assert count == 5
    for box, points in zip(found.boxes.numpy()[0], found.landmarks.numpy()[0], strict=True):
        own = int(np.abs(boxes - box).max(axis=1).argmin())
        np.testing.assert_allclose(points, np.tile(places[own], (3, 1)), atol=1e-3)
    np.testing.assert_array_equal(found.seen.numpy(), 0.5)


def test_results_say_how_sure_points_are_and_pictures_show_the_likely_ones():
    outputs = {
        "boxes": np.array([[[4, 4, 40, 40]]], np.float32), "scores": np.ones((1, 1), np.float32),
        "classes": np.zeros((1, 1), np.int64), "counts": np.array([1]),
        "landmarks": np.array([[[[10, 10], [30, 10], [10, 30]]]], np.float32),
        "seen": np.array([[[0.9, 0.7, 0.1]]], np.float32),
    }  # fmt: skip
    batch = {"placements": np.array([[1.0, 1.0, 0.0, 0.0]]), "original_sizes": np.array([[64, 48]])}
    processor = DetectionProcessor([], ["mouse"], 0.3, pose=POSE)
    ((row,),) = processor.results(outputs, batch)
    assert row["keypoints"]["left"] == [30, 10] and row["seen"] == {"tip": 0.9, "left": 0.7, "right": 0.1}
    pictures = [
        processor.draw(np.zeros((64, 48, 3), np.uint8), [each])
        for each in (row, {**row, "seen": dict.fromkeys(POSE.names, 0.9)})
    ]
    few, all_of_them = pictures
    factor = len(few) / 64
    place = round(30 * factor), round(10 * factor)
    assert not few[place].any() and all_of_them[place].any()


def test_wrong_settings_are_refused():
    boxes, labels, scores = arrays_of(1, 1, 2)
    with pytest.raises(AttributeValueError, match="learns from points, but the targets have none"):
        tiny().losses(tensor(images_of(1)), Targets(tensor(boxes), tensor(labels), tensor(scores)))
    with pytest.raises(ConfigError, match="2 sigmas for 3 points"):
        tiny(points=PointsLoss(sigmas=(0.1, 0.1)))
    with pytest.raises(AttributeValueError, match="oks is 0, offset 0"):
        PointsLoss(oks=0, offset=0)


def test_it_is_exported(tmp_path):
    assert_exports(tiny(postprocess=PostProcess(score_threshold=0.0001, keep_top_k=5)), tmp_path)
