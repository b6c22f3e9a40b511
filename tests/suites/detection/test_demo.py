"""The demo: the same bits for any number of threads, the same losses by any algorithm, and the promised figure."""

import json
from pathlib import Path

import pytest

import framework
from framework.io import load_tensors
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "detection" / "yolov3_demo.yml"


@pytest.fixture(autouse=True)
def restore_threads():
    before = framework.num_threads()
    yield
    framework.set_num_threads(before)


SMALL = ["runtime.steps=3", "data.train.batch_size=4", "data.eval.dataset.length=2", "runtime.workers=0"]


class Losses(Hook):
    """The loss of every step."""

    def before_train(self, trainer):
        self.values = []

    def after_step(self, trainer):
        self.values.append(sum(trainer.losses.values()))


def test_one_and_two_threads_train_the_same_weights_bit_for_bit(tmp_path):
    weights = []
    for threads in (1, 2):
        train(CONFIG, [*SMALL, f"runtime.threads={threads}"], runs=tmp_path, name=f"threads{threads}")
        weights.append(load_tensors(tmp_path / f"threads{threads}" / "weights" / "last.safetensors"))
    assert weights[0].keys() == weights[1].keys()
    for name, t in weights[0].items():
        assert t.numpy().tobytes() == weights[1][name].numpy().tobytes(), name


@pytest.mark.slow  # the two algorithms are compared on drawn shapes in tests/framework/native
def test_direct_convolution_trains_as_winograd_does(tmp_path):
    """A layer's outputs differ by at most 1e-5 of the largest, and batch norm keeps that share: 1e-4 for 10 layers."""
    losses, used = {}, {}
    for algorithm in ("auto", "direct"):
        hook = Losses()
        overrides = [*SMALL, f"runtime.conv_algorithm={algorithm}", "runtime.steps=2"]
        train(CONFIG, overrides, runs=tmp_path, name=algorithm, hooks=[hook], profile=True)
        losses[algorithm] = hook.values
        used[algorithm] = "winograd" in (tmp_path / algorithm / "profile.txt").read_text()
    assert used == {"auto": True, "direct": False}
    assert losses["auto"] != losses["direct"]
    assert losses["auto"][0] == pytest.approx(losses["direct"][0], rel=1e-4)


@pytest.mark.parametrize(("precision", "unit"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_a_step_in_half_has_the_loss_of_float32(tmp_path, precision, unit):
    """Some 20 layers, whose roundings batch norm keeps apart, move the mean loss by a few of them."""
    losses = {}
    for each in ("float32", precision):
        hook = Losses()
        train(CONFIG, [*SMALL, "runtime.steps=1", f"runtime.precision={each}"], runs=tmp_path, name=each, hooks=[hook])
        losses[each] = hook.values[0]
    assert losses[precision] != losses["float32"]
    assert losses[precision] == pytest.approx(losses["float32"], rel=20 * unit)


@pytest.mark.slow
def test_the_demo_reaches_ap50_of_085_on_held_out_digits(tmp_path):
    train(CONFIG, [], runs=tmp_path, name="demo")
    assert json.loads((tmp_path / "demo" / "metrics.json").read_text())["AP50"] >= 0.85
