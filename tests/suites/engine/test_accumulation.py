"""Gradients averaged over some batches: the update of one large batch, whatever the last batches of an epoch hold."""

import numpy as np
import pytest

from framework import nn, ops
from framework.errors import ConfigError
from framework.io import load_tensors
from framework.optim import AdamW
from suites.engine.config import load_config
from suites.engine.train_step import TrainStep
from suites.engine.training import train
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

CONFIG = """
suite: toy
data: {samples: 20, batch_size: 4}
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 0.1, reference_batch: 8}
runtime: {epochs: 3, accumulate: 2, workers: 0, checkpoint: {every: 2}, evaluation: {every: 0, pictures: 0}}
"""


class Line:
    """Fits a plane; one parameter is never reached by the loss."""

    train_inputs = ("x", "y")

    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.model.add_parameter("aside", (2, 2), nn.init.Constant(1.0))
        nn.init.initialize(self.model, 0)

    def train_step(self, inputs):
        return {"square": ops.mean(ops.square(ops.squeeze(self.model(inputs["x"]), axis=1) - inputs["y"]))}


def batches(count, size):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count * size, 3)).astype(np.float32), rng.normal(size=count * size).astype(np.float32)
    return [{"x": x[i : i + size], "y": y[i : i + size]} for i in range(0, count * size, size)]


@pytest.mark.parametrize("eager", [True, False])
def test_the_update_is_that_of_one_large_batch(eager):
    small = batches(6, 4)
    large = [{k: np.concatenate([b[k] for b in small[i : i + 3]]) for k in "xy"} for i in (0, 3)]
    weights, losses = [], []
    for groups in ([[b] for b in large], [small[:3], small[3:]]):
        task = Line()
        optimizer = AdamW(task.model.named_parameters(), weight_decay=0.1)
        step = TrainStep(task, optimizer, clip_norm=0.5, eager=eager, accumulate=len(groups[0]))
        losses.append([step(group, 0.1)["square"] for group in groups])
        weights.append({name: t.numpy().copy() for name, t in task.model.state_dict().items()})
    # Two updates whose gradients are sums of 12 products, in another order: a few roundings each.
    assert np.allclose(*losses, rtol=1e-6)
    for name, expected in weights[0].items():
        assert np.allclose(weights[1][name], expected, rtol=0, atol=2e-6), name
    # Not even weight decay touches what no loss reaches.
    assert (weights[1]["aside"] == 1).all()


def test_the_last_update_of_an_epoch_averages_over_what_is_left(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG)
    trainer = train(tmp_path / "c.yml", runs=tmp_path)
    assert trainer.steps_per_epoch == 3 and trainer.step == 9  # 5 batches: 2 + 2 + 1
    assert trainer.state_dict()["trainer"]["loader"]["epoch"] == 3
    assert "so 0.1 for this batch of 8" in (tmp_path / "c" / "log.txt").read_text()


def test_a_run_with_accumulation_continues_bit_for_bit(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError):
        train(tmp_path / "c.yml", runs=tmp_path, name="part", hooks=[Fail(5)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / run / "weights" / "last.safetensors") for run in ("whole", "part"))
    assert all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


def Fail(step):
    """A hook that ends the run with an error after a step."""
    from suites.engine.hooks import Hook

    def after_step(self, trainer):
        if trainer.step == step:
            raise RuntimeError("power cut")

    return type("Failing", (Hook,), {"after_step": after_step})()


def test_a_number_below_one_is_refused(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG.replace("accumulate: 2", "accumulate: 0"))
    with pytest.raises(ConfigError, match="accumulate is 0; it must be 1 or more"):
        load_config(tmp_path / "c.yml")
