"""The demo: the same bits for any number of threads, and the promised figure."""

import json
from pathlib import Path

import pytest

import framework
from framework.io import load_tensors
from suites.engine.training import train

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "detection" / "yolov3_demo.yml"


@pytest.fixture(autouse=True)
def restore_threads():
    before = framework.num_threads()
    yield
    framework.set_num_threads(before)


def test_one_and_two_threads_train_the_same_weights_bit_for_bit(tmp_path):
    small = ["runtime.steps=3", "data.train.batch_size=4", "data.eval.dataset.length=2", "runtime.workers=0"]
    weights = []
    for threads in (1, 2):
        train(CONFIG, [*small, f"runtime.threads={threads}"], runs=tmp_path, name=f"threads{threads}")
        weights.append(load_tensors(tmp_path / f"threads{threads}" / "weights" / "last.safetensors"))
    assert weights[0].keys() == weights[1].keys()
    for name, t in weights[0].items():
        assert t.numpy().tobytes() == weights[1][name].numpy().tobytes(), name


@pytest.mark.slow
def test_the_demo_reaches_ap50_of_085_on_held_out_digits(tmp_path):
    train(CONFIG, [], runs=tmp_path, name="demo")
    assert json.loads((tmp_path / "demo" / "metrics.json").read_text())["AP50"] >= 0.85
