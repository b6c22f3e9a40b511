"""The focal loss against NumPy and differences, for any logit, dense and sparse."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from framework.nn import parameter
from suites.detection.losses import sigmoid_focal_loss, sparse_focal_loss
from tests.suites.detection.losses.helpers import differences


def reference(x, t, alpha, gamma):
    p = 1 / (1 + np.exp(-x))
    of_target = np.where(t == 1, p, 1 - p)
    weight = 1.0 if alpha < 0 else np.where(t == 1, alpha, 1 - alpha)
    return weight * (1 - of_target) ** gamma * -np.log(of_target)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.5, 0.0), (-1.0, 1.5), (0.75, 0.5)])
def test_value_and_gradient_are_the_definition(alpha, gamma):
    rng = np.random.default_rng(0)
    x, t = rng.normal(0, 3, 60), rng.integers(0, 2, 60).astype(np.float64)
    leaf = parameter(x)
    loss = sigmoid_focal_loss(leaf, tensor(t), alpha, gamma)
    loss.sum().backward()
    np.testing.assert_allclose(loss.numpy(), reference(x, t, alpha, gamma), rtol=1e-9)
    expected = differences(lambda x: reference(x, t, alpha, gamma).sum(), x)
    np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_extreme_logits_have_finite_losses_and_gradients(gamma):
    x = np.array([-1e4, -100, 0, 100, 1e4] * 2, np.float32)
    t = np.repeat(np.array([0, 1], np.float32), 5)
    leaf = parameter(x)
    loss = sigmoid_focal_loss(leaf, tensor(t), gamma=gamma)
    loss.sum().backward()
    assert np.isfinite(loss.numpy()).all() and np.isfinite(leaf.grad.numpy()).all()
    assert loss.numpy()[5] == pytest.approx(0.25e4)  # a sure mistake costs its logit


def test_rows_of_one_class_or_none_sum_to_the_table():
    rng = np.random.default_rng(1)
    logits, classes = rng.normal(0, 2, (2, 7, 3)), rng.integers(0, 3, (2, 7))
    positive = np.array([[1, 0, 0, 0.5, 1, 0, 0], [0, 0, 0, 0, 1, 0, 0.25]])
    counted = np.array([[1, 1, 0, 1, 1, 1, 1], [1, 0, 0, 1, 1, 1, 1]], np.float64)
    leaf = parameter(logits)
    loss = sparse_focal_loss(leaf, tensor(classes), tensor(positive), tensor(counted))
    loss.backward()

    def total(logits):
        own = np.eye(3)[classes]
        no, yes = reference(logits, 0 * own, 0.25, 2), reference(logits, 0 * own + 1, 0.25, 2)
        return (counted[..., None] * no + positive[..., None] * own * (yes - no)).sum()

    assert float(loss) == pytest.approx(total(logits))
    np.testing.assert_allclose(leaf.grad.numpy(), differences(total, logits), rtol=1e-5, atol=1e-8)


def test_wrong_arguments_are_refused():
    x = tensor(np.zeros(1, np.float32))
    with pytest.raises(AttributeValueError, match="alpha is 2 and gamma 2"):
        sigmoid_focal_loss(x, x, alpha=2)
    with pytest.raises(AttributeValueError, match="gamma -1"):
        sigmoid_focal_loss(x, x, gamma=-1)


@pytest.mark.peers
def test_values_and_gradients_are_torchvisions():
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    peer = pytest.importorskip("torchvision.ops", reason="the peer torchvision is not installed")
    rng = np.random.default_rng(2)
    x, t = rng.normal(0, 4, (30, 5)), rng.integers(0, 2, (30, 5)).astype(np.float64)
    theirs = torch.tensor(x, requires_grad=True)
    loss = peer.sigmoid_focal_loss(theirs, torch.tensor(t), 0.25, 2)
    loss.sum().backward()
    leaf = parameter(x)
    ours = sigmoid_focal_loss(leaf, tensor(t))
    ours.sum().backward()
    np.testing.assert_allclose(ours.numpy(), loss.detach().numpy(), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(leaf.grad.numpy(), theirs.grad.numpy(), rtol=1e-6, atol=1e-12)
