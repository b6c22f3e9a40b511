"""NT-ASGD: the mean begins where evaluations get no better, is the weights' plain mean, and resumes to the bit."""

import shutil

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import CheckpointError, ConfigError
from framework.io import load_tensors
from suites.engine.cli import main
from suites.engine.config.settings import AsgdSettings, EvaluationSettings
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.averaging import LaterAverage, MovingAverage
from suites.engine.train.hooks import AverageLater

CONFIG = """
suite: toy
imports: [tests.suites.engine.toy]
model: {width: 4, dropout: 0.0}
data: {samples: 12, batch_size: 4}
optimizer: {type: SGD}
schedule: {type: Constant, base_lr: 0.01}
runtime: {steps: 24, workers: 0, asgd: {patience: 1}, evaluation: {every: 2, unit: steps, better: lower, pictures: 0},
          checkpoint: {every: 1, keep: 100}}
"""


class Loop:
    """What the hook asks of the training loop."""

    def __init__(self):
        self.step, self.begun, self.averages_later = 0, [], True
        self.log = self
        self.task = type("Task", (), {"main_metric": "loss", "lower_is_better": True})()

    def say(self, text):
        self.said = text

    def average_from_now(self):
        self.begun.append(self.step)


@pytest.mark.parametrize(
    ("figures", "patience", "begins"),
    [
        ([5, 4, 3, 2, 1], 1, None),
        ([5, 4, 4.5, 3], 1, None),  # worse than the last one alone
        ([5, 4, 4.5, 4.2], 1, 3),  # worse than the best of two and more before
        ([3, 9, 9, 9, 9], 3, 4),
        ([3, 9, 9, 9, 2], 3, None),
    ],
)
def test_it_begins_where_a_figure_is_worse_than_the_best_long_before(figures, patience, begins):
    loop, hook = Loop(), AverageLater(AsgdSettings(patience), EvaluationSettings())
    for loop.step, figure in enumerate(figures):
        again = AverageLater(AsgdSettings(patience), EvaluationSettings())
        again.load_state_dict(hook.state_dict())  # as a resumed run has it
        hook = again
        hook.after_evaluation(loop, {"loss": float(figure)})
    assert loop.begun == ([] if begins is None else [begins])


def test_it_is_the_weights_until_it_begins_and_their_plain_mean_afterwards():
    model = nn.Linear(2, 1)
    nn.init.initialize(model, seed=0)
    average = LaterAverage(model)
    values = []
    for update in range(6):
        if update == 2:
            average.begin(update)
        model.weight.set(framework.tensor(np.full((1, 2), float(update**2), np.float32)))
        average.update(framework.tensor(np.float32(average.decay_at(update))))
        values.append(float(update**2))
        expected = values[-1] if update < 2 else np.mean(values[2:])
        np.testing.assert_allclose(average.state_dict()["weight"].numpy(), expected, rtol=1e-6)
    again = LaterAverage(model)
    again.load_state_dict(average.state_dict())
    assert again.decay_at(6) == average.decay_at(6) == 4 / 5 and not again.begins_later
    with pytest.raises(CheckpointError, match=r"it is runtime\.ema's"):
        again.load_state_dict(MovingAverage(model, 0.9).state_dict())


def test_a_run_averages_and_a_resumed_one_has_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(CONFIG)
    assert main(["train", "c.yml", "--runs", "runs", "--name", "whole"]) == 0
    log = (tmp_path / "runs" / "whole" / "log.txt").read_text()
    assert "gets no better: weights are averaged from step" in log
    begun = int(log.partition("averaged from step ")[2].split()[0])
    kept = Checkpoints(tmp_path / "runs" / "whole" / "weights")
    models = [load_tensors(kept.folder(step) / "model.safetensors") for step in range(begun + 1, 25)]
    last = load_tensors(tmp_path / "runs" / "whole" / "weights" / "last.safetensors")
    for name, tensor in last.items():
        mean = np.mean([np.float64(each[name].numpy()) for each in models], axis=0)
        np.testing.assert_allclose(tensor.numpy(), mean, rtol=1e-4, atol=1e-5)  # float32 means of up to 24 weights
    for name, from_step in (("before", begun - 1), ("behind", begun + 3)):
        shutil.copytree(tmp_path / "runs" / "whole", tmp_path / "runs" / name)
        weights = tmp_path / "runs" / name / "weights"
        for step in range(from_step + 1, 25):
            shutil.rmtree(Checkpoints(weights).folder(step))
        (weights / "last.safetensors").unlink()
        assert main(["train", f"runs/{name}", "--resume"]) == 0
        for key, tensor in load_tensors(weights / "last.safetensors").items():
            np.testing.assert_array_equal(tensor.numpy(), last[key].numpy())


def test_what_keeps_no_such_average_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(CONFIG)
    assert main(["train", "c.yml", "--runs", "runs", "--name", "r", "-o", "runtime.ema={decay: 0.9}"]) == 2
    assert "both ema and asgd" in capsys.readouterr().err
    loop = Loop()
    loop.averages_later = False
    with pytest.raises(ConfigError, match=r"runtime.asgd: .* has updates of its own"):
        AverageLater(AsgdSettings(), EvaluationSettings()).before_train(loop)
