"""Importance: the loss's gradient of a gate, summed over batches by its size."""

import numpy as np
import pytest

from framework import nn, ops, tensor
from framework.errors import DataError
from suites.engine.contract.losses import Loss, count_of
from suites.engine.slim.importance import importance, keep_best


class Line:
    """y = a . relu(x): each of the three inputs is a part."""

    train_inputs = ("x", "y")

    def __init__(self, weights):
        self.model = nn.Linear(3, 1, bias=False)
        self.model.weight.set(tensor(np.array([weights], np.float32)))

    def train_step(self, inputs):
        error = ops.squeeze(self.model(inputs["x"]), axis=1) - inputs["y"]
        return {"square": Loss(ops.mean(ops.square(error)), count_of(inputs["y"]))}


def test_importance_is_the_gates_gradient():
    task = Line([1.0, -2.0, 0.0])
    rng = np.random.default_rng(0)
    batches = [
        {"x": rng.normal(size=(4, 3)).astype(np.float32), "y": rng.normal(size=4).astype(np.float32)} for _ in range(3)
    ]
    found = importance(task, batches, lambda products: {"inputs": products["weight"].sum(axis=0)})["inputs"]
    expected = np.zeros(3)
    for batch in batches:
        x, w = batch["x"].astype(np.float64), np.array([1.0, -2.0, 0.0])
        expected += np.abs((2 * (x @ w - batch["y"])[:, None] * x * w).mean(axis=0))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-7) and found[2] == 0
    assert keep_best(found, 0.67).tolist() == [0, 1] and keep_best(found, 0.01).tolist() == [int(found.argmax())]
    assert task.model.weight.grad is None
    one = importance(task, batches, lambda products: {"inputs": products["weight"].sum(axis=0)}, batches=1)["inputs"]
    assert (one <= found).all() and one.sum() < found.sum()


def test_no_batch_is_told():
    with pytest.raises(DataError, match="there is no batch to look at"):
        importance(Line([1.0, 1.0, 1.0]), [], lambda products: {})
