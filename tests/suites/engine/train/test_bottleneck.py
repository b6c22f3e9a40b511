"""`paddock bench loader` finds which of loading and training holds a run up, for any suite."""

import json
import time

import pytest

from framework.errors import AttributeValueError
from suites.engine.cli.bench import main
from suites.engine.config.building import read_config
from suites.engine.train.bottleneck import Speeds, measure
from tests.suites.video.helpers import write_frame_folders
from tests.suites.video.test_task import CONFIG

SECONDS = 0.3


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    return path


def test_a_slow_loader_is_found(config, monkeypatch):
    from suites.video.datasets import FrameFolders

    original = FrameFolders.frames

    def slow(self, index, choose):
        time.sleep(0.05)  # 6 samples a batch: 0.3 s, many times a step of this network
        return original(self, index, choose)

    monkeypatch.setattr(FrameFolders, "frames", slow)
    found = measure(read_config(config), SECONDS)
    assert found.loader < 20.1 and found.step > found.both and found.waiting > 0.4
    assert found.verdict.startswith("Loading is the bottleneck: training waits ") and "runtime.workers" in found.verdict
    assert any("both together" in line for line in found.lines())


def test_a_slow_step_is_found(config, monkeypatch):
    from suites.engine.train.train_step import TrainStep

    original = TrainStep.update

    def slow(self, batches, lr):
        time.sleep(0.5)
        return original(self, batches, lr)

    monkeypatch.setattr(TrainStep, "update", slow)
    found = measure(read_config(config), SECONDS)
    assert found.step < 12.1 and found.waiting < 0.1 and found.loader > found.step
    assert found.verdict.startswith("Training is the bottleneck: it waits ")


def test_the_words():
    free = Speeds(loader=200.0, step=20.0, both=12.0, waiting=0.02, workers=2, batch=16)
    assert "could feed 10.0 times as much" in free.verdict
    assert "the step runs at 60% of its speed alone: the workers share its cores" in free.lines()[-1]
    held = Speeds(loader=10.0, step=20.0, both=9.0, waiting=0.5, workers=10_000, batch=16)
    assert "waits 50% of its time" in held.verdict and "runtime.workers" not in held.verdict


def test_the_command(config, capsys):
    assert main(["loader", str(config), "--seconds", "0.1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["batch"] == 6 and min(found[key] for key in ("loader", "step", "both")) > 0
    assert main(["loader", str(config), "--seconds", "0"]) == 2
    assert "seconds is 0.0; it must be above 0" in capsys.readouterr().err


def test_seconds_are_checked(config):
    with pytest.raises(AttributeValueError, match="seconds is -1"):
        measure(read_config(config), -1)
