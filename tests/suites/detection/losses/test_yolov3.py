"""YOLOv3's loss and decoding against a reference written with loops over images, boxes and cells."""

import math

import numpy as np
import pytest

import framework
from framework import tensor
from framework.errors import AttributeValueError
from framework.nn import parameter
from suites.detection.grid import decode_boxes, make_grid, split_anchors
from suites.detection.losses import Targets, YOLOv3Loss
from suites.detection.losses.yolov3 import IoUTerm, OutputForm

CLASSES = 3
ANCHORS = ((8, 10), (14, 9), (20, 24), (30, 18), (40, 44), (70, 60))
STRIDES = (8, 16)
SIZE = (64, 96)  # H, W: not square, so that swapped axes are seen


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cross_entropy(x, target):
    return max(x, 0) - x * target + math.log1p(math.exp(-abs(x)))


def iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height)


def shape_iou(size, anchor):
    inner = min(size[0], anchor[0]) * min(size[1], anchor[1])
    return inner / (size[0] * size[1] + anchor[0] * anchor[1] - inner)


def reference_decode(t, column, row, anchor, stride):
    x, y = (sigmoid(t[0]) + column) * stride, (sigmoid(t[1]) + row) * stride
    w, h = anchor[0] * math.exp(t[2]), anchor[1] * math.exp(t[3])
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def reference_loss(outputs, boxes, labels, scores, ignore_iou=0.7, smooth=True):
    """The four terms, by loops: assign each box, walk over all predictions, mean over images."""
    each = len(ANCHORS) // len(STRIDES)
    delta = min(1 / CLASSES, 1 / 40) if smooth else 0.0
    terms = dict.fromkeys(("loss_xy", "loss_wh", "loss_obj", "loss_cls"), 0.0)
    for n in range(len(boxes)):
        wanted = {}
        real = [m for m in range(len(boxes[n])) if boxes[n][m][2] > boxes[n][m][0] and boxes[n][m][3] > boxes[n][m][1]]
        for m in real:
            x1, y1, x2, y2 = boxes[n][m]
            best = max(range(len(ANCHORS)), key=lambda a: (shape_iou((x2 - x1, y2 - y1), ANCHORS[a]), -a))
            level, anchor = divmod(best, each)
            stride = STRIDES[level]
            column = min(int((x1 + x2) / 2 / stride), SIZE[1] // stride - 1)
            row = min(int((y1 + y2) / 2 / stride), SIZE[0] // stride - 1)
            wanted[level, row, column, anchor] = m  # a later box takes it over
        for level, stride in enumerate(STRIDES):
            for row in range(SIZE[0] // stride):
                for column in range(SIZE[1] // stride):
                    for anchor in range(each):
                        width = 5 + CLASSES
                        t = outputs[level][n, row, column, anchor * width : (anchor + 1) * width]
                        size = ANCHORS[level * each + anchor]
                        m = wanted.get((level, row, column, anchor))
                        if m is None:
                            box = reference_decode(t, column, row, size, stride)
                            if max((iou(box, boxes[n][k]) for k in real), default=0) <= ignore_iou:
                                terms["loss_obj"] += cross_entropy(t[4], 0)
                            continue
                        x1, y1, x2, y2 = boxes[n][m]
                        small = 2 - (x2 - x1) * (y2 - y1) / (SIZE[0] * SIZE[1])
                        weight = scores[n][m]
                        place = ((x1 + x2) / 2 / stride - column, (y1 + y2) / 2 / stride - row)
                        terms["loss_xy"] += weight * small * sum(cross_entropy(t[i], place[i]) for i in (0, 1))
                        logs = (math.log((x2 - x1) / size[0]), math.log((y2 - y1) / size[1]))
                        terms["loss_wh"] += weight * small * sum(abs(t[2 + i] - logs[i]) for i in (0, 1))
                        terms["loss_obj"] += weight * cross_entropy(t[4], 1)
                        for k in range(CLASSES):
                            target = 1 - delta if k == labels[n][m] else delta
                            terms["loss_cls"] += weight * cross_entropy(t[5 + k], target)
    return {name: value / len(boxes) for name, value in terms.items()}


def levels(scales=None):
    return split_anchors(ANCHORS, STRIDES, scales)


def random_outputs(n, seed=0):
    rng = np.random.default_rng(seed)
    channels = len(ANCHORS) // len(STRIDES) * (5 + CLASSES)
    return [rng.standard_normal((n, SIZE[0] // s, SIZE[1] // s, channels)).astype(np.float32) for s in STRIDES]


def random_targets(n, m, seed=0):
    rng = np.random.default_rng(seed)
    centre = rng.uniform(5, (SIZE[1] - 5, SIZE[0] - 5), (n, m, 2))
    half = rng.uniform(3, 30, (n, m, 2))
    boxes = np.concatenate([centre - half, centre + half], axis=2)
    boxes = np.clip(boxes, 0, [SIZE[1], SIZE[0]] * 2).astype(np.float32)
    return boxes, rng.integers(0, CLASSES, (n, m)), rng.uniform(0.3, 1, (n, m)).astype(np.float32)


def our_loss(outputs, boxes, labels, scores, **options):
    targets = Targets(tensor(boxes), tensor(labels), tensor(scores))
    terms = YOLOv3Loss(**options)([tensor(o) for o in outputs], levels(), targets, CLASSES)
    return {name: float(value) for name, value in terms.items()}


def assert_terms(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=2e-5), name  # float32 sums of some 1000 terms


def test_the_loss_is_the_loops():
    outputs, targets = random_outputs(3), random_targets(3, 9)
    assert_terms(our_loss(outputs, *targets), reference_loss(outputs, *targets))


def test_options_change_both_alike():
    outputs, targets = random_outputs(2, 1), random_targets(2, 6, 1)
    found = our_loss(outputs, *targets, ignore_iou=0.2, label_smooth=False)
    assert_terms(found, reference_loss(outputs, *targets, ignore_iou=0.2, smooth=False))
    assert found["loss_obj"] < our_loss(outputs, *targets, ignore_iou=0.9)["loss_obj"]


def test_padding_an_empty_image_and_boxes_without_area_change_nothing():
    outputs, (boxes, labels, scores) = random_outputs(2, 2), random_targets(2, 4, 2)
    boxes[1], scores[1] = 0, 0  # no boxes in the second image
    more = [np.concatenate([a, np.zeros_like(a)], axis=1) for a in (boxes, labels, scores)]
    more[0][0, 5] = (20, 20, 20, 50)
    assert_terms(our_loss(outputs, *more), reference_loss(outputs, boxes, labels, scores))


def test_a_batch_without_any_box_has_only_background():
    outputs = random_outputs(1, 3)
    found = our_loss(
        outputs, np.zeros((1, 16, 4), np.float32), np.zeros((1, 16), np.int64), np.zeros((1, 16), np.float32)
    )
    assert found["loss_obj"] > 0
    assert (found["loss_xy"], found["loss_wh"], found["loss_cls"]) == (0, 0, 0)


def test_two_boxes_for_one_prediction_leave_it_to_the_later():
    outputs = random_outputs(1, 4)
    boxes = np.array([[[30, 30, 50, 54], [31, 31, 51, 55], [5, 5, 13, 15]]], np.float32)
    targets = boxes, np.array([[0, 1, 2]]), np.array([[0.5, 0.75, 1]], np.float32)
    assert_terms(our_loss(outputs, *targets), reference_loss(outputs, *targets))


def test_a_centre_on_the_far_border_falls_into_the_last_cell():
    outputs = random_outputs(1, 5)
    boxes = np.array([[[SIZE[1] - 4, SIZE[0] - 5, SIZE[1] + 4, SIZE[0] + 5]]], np.float32)
    targets = boxes, np.array([[1]]), np.ones((1, 1), np.float32)
    assert_terms(our_loss(outputs, *targets), reference_loss(outputs, *targets))


def test_its_gradient_is_the_difference_of_losses():
    outputs, targets = random_outputs(1, 6), random_targets(1, 5, 6)
    leaves = [parameter(o) for o in outputs]
    batch = Targets(*(tensor(t) for t in targets))
    terms = YOLOv3Loss()(leaves, levels(), batch, CLASSES)
    (terms["loss_xy"] + terms["loss_wh"] + terms["loss_obj"] + terms["loss_cls"]).backward()
    rng, step = np.random.default_rng(7), 1e-4
    directions = [rng.standard_normal(o.shape) for o in outputs]

    def total(sign):
        moved = [o + sign * step * d for o, d in zip(outputs, directions, strict=True)]
        return sum(reference_loss(moved, *targets).values())

    numeric = (total(1) - total(-1)) / (2 * step)
    exact = sum(float((leaf.grad.numpy() * d).sum()) for leaf, d in zip(leaves, directions, strict=True))
    assert exact == pytest.approx(numeric, rel=1e-4)


def test_it_is_the_same_in_a_program_for_any_image_size():
    loss = YOLOv3Loss()

    @framework.program
    def run(a, b, boxes, labels, scores):
        return loss([a, b], levels(), Targets(boxes, labels, scores), CLASSES)

    boxes, labels, scores = random_targets(2, 5, 8)
    for cut in (slice(None), slice(0, 4)):  # the second time fewer rows: no new trace
        outputs = random_outputs(2, 8)
        outputs = [outputs[0][:, cut], outputs[1][:, slice(0, 2) if cut.stop else cut]]
        found = run(*(tensor(np.ascontiguousarray(x)) for x in (*outputs, boxes, labels, scores)))
        expected = our_loss([np.ascontiguousarray(o) for o in outputs], boxes, labels, scores)
        assert {name: float(value) for name, value in found.items()} == pytest.approx(expected, rel=1e-6)
    assert run.traces_made == 1


def test_decoding_is_the_loops():
    outputs = random_outputs(2, 9)
    for output, level in zip(outputs, levels(), strict=True):
        raw = output.reshape(2, -1, 5 + CLASSES)
        found = decode_boxes(tensor(raw), make_grid(level, tensor(output)), level).numpy()
        rows, columns, each = output.shape[1], output.shape[2], len(level.anchors)
        for n in range(2):
            for p in range(raw.shape[1]):
                cell, anchor = divmod(p, each)
                row, column = divmod(cell, columns)
                assert row < rows
                expected = reference_decode(raw[n, p], column, row, level.anchors[anchor], level.stride)
                np.testing.assert_allclose(found[n, p], expected, rtol=1e-5, atol=1e-4)


def test_an_untrained_networks_boxes_stay_finite():
    output = np.full((1, 2, 2, 3 * (5 + CLASSES)), 1e4, np.float32)
    level = levels()[0]
    boxes = decode_boxes(tensor(output.reshape(1, -1, 5 + CLASSES)), make_grid(level, tensor(output)), level)
    assert np.isfinite(boxes.numpy()).all()


@pytest.mark.parametrize(
    ("anchors", "match"),
    [
        (((1, 2), (3, 4), (5, 6)), r"3 anchors do not divide into 2 levels \(strides \[8, 16\]\)"),
        (((1, 2), (3, 0)), "are not pairs"),
        ((1, 2), "are not pairs"),
    ],
)
def test_wrong_anchors_are_refused(anchors, match):
    with pytest.raises(AttributeValueError, match=match):
        split_anchors(anchors, STRIDES)


def test_a_wrong_ignore_threshold_is_refused():
    with pytest.raises(AttributeValueError, match=r"ignore_iou is 1\.5"):
        YOLOv3Loss(ignore_iou=1.5)


def form_outputs(n, form, seed=0):
    rng = np.random.default_rng(seed)
    channels = len(ANCHORS) // len(STRIDES) * form.width
    return [rng.standard_normal((n, SIZE[0] // s, SIZE[1] // s, channels)).astype(np.float32) for s in STRIDES]


def positives(outputs, boxes, form, scales):
    """(raw numbers, decoded box, place in the cell, image, truth) of each truth's prediction, by loops."""
    each = len(ANCHORS) // len(STRIDES)
    for n in range(len(boxes)):
        for m, (x1, y1, x2, y2) in enumerate(boxes[n].astype(float)):
            best = max(range(len(ANCHORS)), key=lambda a: (shape_iou((x2 - x1, y2 - y1), ANCHORS[a]), -a))
            level, anchor = divmod(best, each)
            stride = STRIDES[level]
            column, row = int((x1 + x2) / 2 / stride), int((y1 + y2) / 2 / stride)
            t = outputs[level][n, row, column, anchor * form.width : (anchor + 1) * form.width].astype(float)
            place = [scales[level] * sigmoid(v) - (scales[level] - 1) / 2 for v in t[:2]]
            centre = (place[0] + column) * stride, (place[1] + row) * stride
            half = [ANCHORS[best][i] * math.exp(t[2 + i]) / 2 for i in (0, 1)]
            box = centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1]
            wanted = (x1 + x2) / 2 / stride - column, (y1 + y2) / 2 / stride - row
            small = 2 - (x2 - x1) * (y2 - y1) / (SIZE[0] * SIZE[1])
            yield t, box, [abs(a - b) for a, b in zip(place, wanted, strict=True)], small, n, m


def test_overlap_terms_and_a_scaled_place_are_the_loops():
    form, scales = OutputForm(CLASSES, iou_aware=True), (1.05, 1.2)
    outputs = form_outputs(2, form, 10)
    # one box an image, so that no two want the same prediction
    boxes, labels, scores = random_targets(2, 1, 10)
    batch = Targets(tensor(boxes), tensor(labels), tensor(scores))
    found = YOLOv3Loss(iou=IoUTerm(weight=2.5))([tensor(o) for o in outputs], levels(scales), batch, form)
    expected = dict.fromkeys(("loss_xy", "loss_iou", "loss_iou_aware"), 0.0)
    for t, box, apart, small, n, m in positives(outputs, boxes, form, scales):
        overlap, weight = iou(box, boxes[n][m]), scores[n][m]
        expected["loss_xy"] += weight * small * sum(apart) / 2
        expected["loss_iou"] += weight * small * 2.5 * (1 - overlap**2) / 2
        expected["loss_iou_aware"] += weight * cross_entropy(t[5], overlap) / 2
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, rel=1e-4)
    assert set(found) == {*expected, "loss_wh", "loss_obj", "loss_cls"}


@pytest.mark.parametrize("kind", ["iou_squared", "iou", "giou", "diou", "ciou"])
def test_overlap_terms_pull_boxes_and_spare_batches_without_any(kind):
    form = OutputForm(CLASSES)
    for count in (1, 0):
        boxes, labels, scores = random_targets(1, 1, 11)
        leaves = [parameter(o) for o in form_outputs(1, form, 11)]
        batch = Targets(tensor(boxes * count), tensor(labels), tensor(scores * count))
        terms = YOLOv3Loss(iou=IoUTerm(kind))(leaves, levels(), batch, form)
        terms["loss_iou"].backward()
        moved = sum(float(np.abs(leaf.grad.numpy()).sum()) for leaf in leaves)
        assert np.isfinite(moved) and (moved > 0) == bool(count)
        assert (float(terms["loss_iou"]) > 0) == bool(count)


def test_wrong_overlap_terms_are_refused():
    with pytest.raises(AttributeValueError, match="'l1' is not known"):
        IoUTerm("l1")
    with pytest.raises(AttributeValueError, match="weight is -1"):
        IoUTerm(weight=-1)
