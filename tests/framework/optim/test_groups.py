"""Groups of parameters with learning rates and weight decay of their own."""

import numpy as np
import pytest

import framework
from framework import nn, optim
from framework.errors import AttributeValueError


def make():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    nn.init.initialize(model, seed=0)
    return model, list(model[0].named_parameters()), [(f"head.{n}", p) for n, p in model[1].named_parameters()]


def stepped(optimizer, model):
    before = {n: p.numpy().copy() for n, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = framework.ones(*p.shape)
    optimizer.step()
    return {n: before[n] - p.numpy() for n, p in model.named_parameters()}, before


def test_each_group_has_its_rate_and_its_decay():
    model, body, head = make()
    optimizer = optim.SGD([{"params": body, "lr": 0.01}, {"params": head, "weight_decay": 0.5}], lr=0.1)
    change, before = stepped(optimizer, model)
    np.testing.assert_allclose(change["0.weight"], 0.01, rtol=1e-4)
    np.testing.assert_allclose(change["1.weight"], 0.1 * (1 + 0.5 * before["1.weight"]), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(change["1.bias"], 0.1 * (1 + 0.5 * before["1.bias"]), rtol=1e-4, atol=1e-6)


def test_a_schedule_moves_all_groups_in_proportion():
    model, body, head = make()
    optimizer = optim.SGD([{"params": body, "lr": 0.01}, {"params": head}], lr=0.1)
    optimizer.set_lr(0.2)
    change, _ = stepped(optimizer, model)
    np.testing.assert_allclose(change["0.weight"], 0.02, rtol=1e-4)
    np.testing.assert_allclose(change["1.weight"], 0.2, rtol=1e-4)


def test_wrong_groups_are_refused():
    _, body, head = make()
    for groups, message in (
        ([{"params": body, "rate": 1.0}], "takes params .*, lr and weight_decay, not rate"),
        ([{"lr": 1.0}], "params is missing"),
        ([{"params": body}, head[0]], "not a pair"),
        ([{"params": body}, {"params": body}], "parameter 'weight' is given twice"),
    ):
        with pytest.raises(AttributeValueError, match=message):
            optim.Adam(groups)


def test_the_summary_says_what_weight_decay_leaves_out():
    model, *_ = make()
    summary = optim.SGD(model.named_parameters(), weight_decay=1e-4).decay_summary()
    assert summary == "weight decay 0.0001 on 2 of 4 parameters; 2 are left out: 0.bias, 1.bias"
    assert optim.SGD(model.named_parameters()).decay_summary() == ""
