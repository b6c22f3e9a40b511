"""Parameters that join later: who waits stands in the state, and Adam counts their own updates."""

import numpy as np
import pytest

from framework import nn, optim, tensor
from framework.errors import AttributeValueError, CheckpointError


def made(kind=optim.Adam):
    model = nn.Linear(3, 2)
    nn.init.initialize(model, seed=0)
    return model, kind(model.named_parameters(), lr=0.1)


def stepped(model, optimizer, times=1):
    for _ in range(times):
        for p in model.parameters():
            p.grad = tensor(np.ones(p.shape, np.float32)) if p.requires_grad else None
        optimizer.step()


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.LAMB, optim.Momentum, optim.RMSProp, optim.Adagrad])
def test_what_joins_later_moves_as_it_would_have_from_the_start(kind):
    model, optimizer = made(kind)
    optimizer.hold("late", ["weight"])
    start = model.weight.numpy().copy()
    stepped(model, optimizer, 5)
    np.testing.assert_array_equal(model.weight.numpy(), start)
    optimizer.release("late")
    stepped(model, optimizer, 3)
    other, usual = made(kind)
    stepped(other, usual, 3)
    np.testing.assert_array_equal(model.weight.numpy(), other.weight.numpy())


def test_the_state_says_who_waits():
    model, optimizer = made()
    optimizer.hold("late", ["weight"])
    stepped(model, optimizer, 2)
    other, again = made()
    again.hold("late", ["weight"])
    again.load_state_dict(optimizer.state_dict())
    assert again.waiting("late") and not other.weight.requires_grad
    optimizer.release("late")
    again.load_state_dict(optimizer.state_dict())
    assert not again.waiting("late") and other.weight.requires_grad
    with pytest.raises(CheckpointError, match="joined/late"):
        made()[1].load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize(
    ("key", "names", "message"),
    [
        ("b", ["weight"], "'weight' is no trained parameter, or waits already"),
        ("b", ["other"], "'other' is no trained parameter"),
        ("a", ["bias"], "'a' is used already"),
    ],
)
def test_waits_that_are_none(key, names, message):
    _, optimizer = made()
    optimizer.hold("a", ["weight"])
    with pytest.raises(AttributeValueError, match=message):
        optimizer.hold(key, names)
