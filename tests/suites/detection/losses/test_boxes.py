"""Losses between boxes against NumPy, their gradients against differences, and boxes that have no area."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from framework.nn import parameter
from suites.detection.losses import BOX_LOSSES, box_loss, smooth_l1
from tests.suites.detection.losses.helpers import differences


def pairs(count=40, seed=0):
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 60, (2, count, 2))
    sides = rng.uniform(4, 50, (2, count, 2))
    boxes, targets = np.concatenate([corners, corners + sides], axis=2)
    return boxes, targets  # float64 [count, 4]; some overlap, some do not


def reference(name, a, b, alpha=None):
    """1 - IoU and what each loss adds, box by box."""
    sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
    inner = sides.clip(0).prod(axis=1)
    union = (a[:, 2:] - a[:, :2]).prod(axis=1) + (b[:, 2:] - b[:, :2]).prod(axis=1) - inner
    iou = inner / union
    hull = np.maximum(a[:, 2:], b[:, 2:]) - np.minimum(a[:, :2], b[:, :2])
    loss = 1 - iou
    if name == "giou":
        loss = loss + (hull.prod(axis=1) - union) / hull.prod(axis=1)
    if name in ("diou", "ciou"):
        apart = (a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2
        loss = loss + (apart**2).sum(axis=1) / (hull**2).sum(axis=1)
    if name == "ciou":
        turn = [np.arctan((x[:, 2] - x[:, 0]) / (x[:, 3] - x[:, 1])) for x in (a, b)]
        v = 4 / np.pi**2 * (turn[0] - turn[1]) ** 2
        loss = loss + (v / (1 - iou + v) if alpha is None else alpha) * v
    return loss


def fixed_alpha(a, b):
    """CIoU's alpha, which its gradient leaves alone."""
    turn = [np.arctan((x[:, 2] - x[:, 0]) / (x[:, 3] - x[:, 1])) for x in (a, b)]
    v = 4 / np.pi**2 * (turn[0] - turn[1]) ** 2
    return v / (reference("iou", a, b) + v)


@pytest.mark.parametrize("name", BOX_LOSSES)
def test_the_value_is_the_definition(name):
    boxes, targets = pairs()
    found = BOX_LOSSES[name](tensor(boxes), tensor(targets)).numpy()
    np.testing.assert_allclose(found, reference(name, boxes, targets), rtol=1e-6)


@pytest.mark.parametrize("name", BOX_LOSSES)
def test_the_gradient_is_the_difference_of_values(name):
    boxes, targets = pairs(seed=1)
    leaf = parameter(boxes)
    BOX_LOSSES[name](leaf, tensor(targets)).sum().backward()
    alpha = fixed_alpha(boxes, targets)
    expected = differences(lambda b: reference(name, b, targets, alpha).sum(), boxes)
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", BOX_LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_boxes_without_area_have_finite_losses_and_gradients(name, dtype):
    nothing, point, box = (0, 0, 0, 0), (5, 5, 5, 5), (2, 3, 30, 40)
    line, turned = (2, 3, 30, 3), (30, 40, 2, 3)
    boxes = parameter(np.array([nothing, point, box, box, line, turned, nothing], dtype))
    loss = BOX_LOSSES[name](boxes, tensor(np.array([nothing, point, nothing, point, box, box, box], dtype)))
    loss.sum().backward()
    assert np.isfinite(loss.numpy()).all() and np.isfinite(boxes.grad.numpy()).all()


def test_boxes_that_agree_cost_nothing_and_those_apart_still_pull():
    box = np.array([[10.0, 10, 30, 30]])
    for loss in BOX_LOSSES.values():
        assert loss(tensor(box), tensor(box)).numpy()[0] == pytest.approx(0, abs=1e-8)
    for name, far in (("giou", 1), ("diou", 1), ("ciou", 1), ("iou", 0)):
        leaf = parameter(box)
        BOX_LOSSES[name](leaf, tensor(box + 100)).sum().backward()
        assert (np.abs(leaf.grad.numpy()).max() > 0) == far


@pytest.mark.parametrize("beta", [0.0, 0.11, 1.0])
def test_smooth_l1_is_a_parabola_and_lines(beta):
    x, target = np.random.default_rng(2).uniform(-2, 2, (2, 50))
    far = np.abs(x - target)

    def wanted(x):
        far = np.abs(x - target)
        return np.where(far < beta, far**2 / max(2 * beta, 1e-9), far - beta / 2).sum()

    leaf = parameter(x)
    loss = smooth_l1(leaf, tensor(target), beta)
    loss.sum().backward()
    assert float(loss.sum()) == pytest.approx(wanted(x))
    np.testing.assert_allclose(leaf.grad.numpy(), differences(wanted, x), rtol=1e-5, atol=1e-5)
    assert far.max() > 1


def test_wrong_arguments_are_refused():
    with pytest.raises(AttributeValueError, match="beta is -1"):
        smooth_l1(tensor(np.zeros(1)), tensor(np.zeros(1)), -1)
    with pytest.raises(AttributeValueError, match="'l2' is not known; it is one of iou, giou, diou, ciou"):
        box_loss("l2")


@pytest.mark.peers
@pytest.mark.parametrize("name", ["giou", "diou", "ciou"])
def test_values_and_gradients_are_torchvisions(name):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    peer = pytest.importorskip("torchvision.ops", reason="the peer torchvision is not installed")
    function = {"giou": "generalized", "diou": "distance", "ciou": "complete"}[name] + "_box_iou_loss"
    boxes, targets = pairs(seed=3)
    theirs = torch.tensor(boxes, requires_grad=True)
    loss = getattr(peer, function)(theirs, torch.tensor(targets))
    loss.sum().backward()
    leaf = parameter(boxes)
    ours = BOX_LOSSES[name](leaf, tensor(targets))
    ours.sum().backward()
    np.testing.assert_allclose(ours.numpy(), loss.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(leaf.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-9)
