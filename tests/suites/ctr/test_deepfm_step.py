"""DeepFM's training step is that of a NumPy reference: look-up, forward, log loss, backward, Adam on all that learns.

The reference is written out in float64 from the definitions, with gradients derived by hand, and has a dense Adam on
every row there is, touched or not, as published figures assume. A few steps of size 0.01 move weights of size 0.1; each
step rounds to some 1e-7 of them, and Adam's quotient m / sqrt(v) keeps that relative error, so 1e-5 is ample.
"""

import numpy as np
import pytest

from framework import from_numpy, nn, optim
from framework.table import Adam, DenseAdam
from suites import ctr, engine
from suites.ctr.tables import TableSettings
from suites.ctr.train.step import CtrStep
from tests.suites.ctr.helpers import schema

FIELDS, DIM, DENSE, HIDDEN, ROWS, IDS = 3, 4, 2, 5, 16, 6
LR, B1, B2, EPS = 0.01, 0.9, 0.999, 1e-8
RNG = np.random.default_rng(0)
FEATURES = {f"c{i}": {"type": "Sparse"} for i in range(FIELDS)} | {f"i{i}": {"type": "Dense"} for i in range(DENSE)}


def task_with(rule):
    task = ctr.CtrTask(
        model=engine.Factory.of(ctr.DeepFM, dim=DIM, hidden=[HIDDEN, HIDDEN]),
        schema=schema(features=FEATURES, group=None, time=None),
        table=TableSettings(rule=rule),
    )
    nn.init.initialize(task.model, 0)
    for t in task.model.parameters():
        t.set(from_numpy(RNG.normal(0, 0.3, t.shape).astype(np.float32)))
    return task


def keys_of(ids):
    """int64 [N, F]: id i of field f."""
    return (np.arange(1, FIELDS + 1, dtype=np.int64) << 52) + ids + 1


class Reference:
    """Weights by name in float64; `table` [F, IDS, 1 + K]."""

    def __init__(self, weights, table, lazy):
        self.w = {
            **{name: value.astype(np.float64) for name, value in weights.items()},
            "table": table.astype(np.float64),
        }
        self.m = {name: np.zeros_like(value) for name, value in self.w.items()}
        self.v = {name: np.zeros_like(value) for name, value in self.w.items()}
        self.t, self.lazy = 0, lazy
        self.own = np.zeros((FIELDS, IDS, 1))  # updates of each row, for the lazy rule

    def gradients(self, ids, dense, labels):
        w, n = self.w, len(ids)
        rows = w["table"][np.arange(FIELDS), ids]  # [N, F, 1 + K]
        e, total = rows[:, :, 1:], rows[:, :, 1:].sum(1)
        x = np.concatenate([e.reshape(n, -1), dense], 1)
        a1 = x @ w["body.mlp.layers.0.weight"].T + w["body.mlp.layers.0.bias"]
        h1 = np.maximum(a1, 0)
        a2 = h1 @ w["body.mlp.layers.1.weight"].T + w["body.mlp.layers.1.bias"]
        h2 = np.maximum(a2, 0)
        logit = (
            rows[:, :, 0].sum(1)
            + dense @ w["body.linear.dense.weight"][0]
            + w["body.linear.dense.bias"]
            + 0.5 * (total**2 - (e**2).sum(1)).sum(1)
            + h2 @ w["body.head.weight"][0]
            + w["body.head.bias"]
        )
        loss = np.mean(np.logaddexp(0, logit) - labels * logit)
        d = (1 / (1 + np.exp(-logit)) - labels) / n  # [N]
        d2 = d[:, None] * w["body.head.weight"] * (a2 > 0)
        d1 = d2 @ w["body.mlp.layers.1.weight"] * (a1 > 0)
        dx = d1 @ w["body.mlp.layers.0.weight"]
        de = dx[:, : FIELDS * DIM].reshape(e.shape) + d[:, None, None] * (total[:, None] - e)
        g = {
            "body.linear.dense.weight": (d @ dense)[None], "body.linear.dense.bias": d.sum(keepdims=True),
            "body.head.weight": (d @ h2)[None], "body.head.bias": d.sum(keepdims=True),
            "body.mlp.layers.1.weight": d2.T @ h1, "body.mlp.layers.1.bias": d2.sum(0),
            "body.mlp.layers.0.weight": d1.T @ x, "body.mlp.layers.0.bias": d1.sum(0),
            "table": np.zeros_like(w["table"]),
        }  # fmt: skip
        drow = np.concatenate([np.broadcast_to(d[:, None, None], (n, FIELDS, 1)), de], 2)
        for r in range(n):
            for f in range(FIELDS):
                g["table"][f, ids[r, f]] += drow[r, f]
        return loss, g

    def step(self, ids, dense, labels):
        loss, gradients = self.gradients(ids, dense, labels)
        self.t += 1
        for name, g in gradients.items():
            touched, t = np.ones_like(g, bool), np.float64(self.t)
            if name == "table" and self.lazy:
                seen = np.zeros((FIELDS, IDS, 1), bool)
                seen[np.arange(FIELDS), ids] = True
                self.own += seen
                touched, t = np.broadcast_to(seen, g.shape), np.maximum(self.own, 1)
            m, v = B1 * self.m[name] + (1 - B1) * g, B2 * self.v[name] + (1 - B2) * g * g
            moved = self.w[name] - LR * (m / (1 - B1**t)) / (np.sqrt(v / (1 - B2**t)) + EPS)
            for of, new in ((self.m, m), (self.v, v), (self.w, moved)):
                of[name] = np.where(touched, new, of[name])
        return loss


@pytest.mark.parametrize("rule", [DenseAdam(), Adam()], ids=["dense Adam", "lazy Adam"])
def test_steps_of_deepfm_are_those_of_the_reference(rule):
    task = task_with(rule)
    table, every = task.model.table, keys_of(np.arange(IDS)[:, None])  # [IDS, F]
    born = table.lookup(every).numpy().transpose(1, 0, 2)  # where rows begin
    reference = Reference({n: t.numpy() for n, t in task.model.state_dict().items()}, born, type(rule) is Adam)
    step = CtrStep(task, optim.Adam(task.model.named_parameters(), lr=LR))
    for turn in range(6):
        ids = RNG.integers(0, IDS - (turn < 3), (ROWS, FIELDS))  # the last value of each field comes late
        dense, labels = RNG.normal(size=(ROWS, DENSE)), RNG.integers(0, 2, ROWS)
        batch = {
            "sparse": keys_of(ids),
            "dense": dense.astype(np.float32),
            "labels": labels[:, None].astype(np.float32),
        }
        (loss,) = step([batch], LR).losses.values()
        expected = reference.step(ids, batch["dense"].astype(np.float64), labels)
        assert loss == pytest.approx(expected, rel=1e-5)
    for name, t in task.model.state_dict().items():
        np.testing.assert_allclose(t.numpy(), reference.w[name], rtol=1e-5, atol=1e-5, err_msg=name)
    found = table.lookup(every).numpy().transpose(1, 0, 2)
    np.testing.assert_allclose(found, reference.w["table"], rtol=1e-5, atol=1e-5)
