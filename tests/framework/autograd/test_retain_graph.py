"""How long a history lasts: one backward pass, or as long as `retain_graph` and `create_graph` say."""

import pytest

import framework
from framework.errors import GradientError


def loss_of(w):
    return (w * w).sum()


def test_a_history_is_freed_by_the_first_backward():
    w = framework.ones(2, requires_grad=True)
    loss = loss_of(w)
    loss.backward()
    with pytest.raises(GradientError, match=r"freed by an earlier backward.*retain_graph=True"):
        loss.backward()


def test_a_kept_history_gives_the_gradient_again_and_has_none_itself():
    w = framework.ones(2, requires_grad=True)
    loss = loss_of(w)
    loss.backward(retain_graph=True)
    assert w.grad.tolist() == [2.0, 2.0] and w.grad.node is None
    loss.backward()
    assert w.grad.tolist() == [4.0, 4.0]


def test_gradients_keeps_a_history_too():
    w = framework.ones(2, requires_grad=True)
    loss = loss_of(w)
    for _ in range(2):
        (g,) = framework.gradients([loss], [w], retain_graph=True)
        assert g.tolist() == [2.0, 2.0]
