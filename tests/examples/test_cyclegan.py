"""The CycleGAN plug-in, from its own config, made smaller: trains, draws, resumes bit for bit, exports."""

from pathlib import Path

import numpy as np
import pytest

import examples.cyclegan
from examples.cyclegan.step import ImageBuffer
from framework.errors import ConfigError
from suites import engine
from suites.engine.predict.inference import export_run
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train

CONFIG = Path(examples.cyclegan.__file__).parent / "digits.yml"
SMALL = [
    "model.generator={channels: 4, blocks: 1}",
    "model.discriminator={channels: 4, halvings: 1}",
    "data.a.count=16",
    "data.b.count=12",
    "data.eval.count=5",
    "loss.buffer=6",
    "runtime={epochs: 2, log_every: 2, checkpoint: {every: 3}, evaluation: {every: 1, pictures: 2}}",
]


class Stop(Hook):
    def __init__(self, step):
        self._step = step

    def after_step(self, loop):
        if loop.step == self._step:
            raise RuntimeError("power cut")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    return runs / "whole", train(CONFIG, SMALL, runs=runs, name="whole")


def numbers(state):
    """All tensors of a checkpoint, by path."""
    found = {}
    for name, value in state.items():
        if isinstance(value, dict):
            found |= {f"{name}/{below}": t for below, t in numbers(value).items()}
        elif hasattr(value, "numpy"):
            found[name] = value.numpy()
    return found


def test_both_optimizers_move_and_pictures_are_drawn(whole):
    run, loop = whole
    assert loop.step == 8 and loop.losses.keys() == {"adversarial", "cycle", "identity"}
    assert loop.update.scalars.keys() == {"discriminator_a", "discriminator_b"}
    state = Checkpoints(run / "weights").latest()
    assert all(int(state[f"{who}_optimizer"]["steps"].numpy()) == 8 for who in ("generators", "discriminators"))
    assert len(list((run / "pictures").glob("*.jpg"))) == 2
    assert "cycle_error" in (run / "metrics.json").read_text()
    assert "| discriminator_a " in (run / "log.txt").read_text()


@pytest.mark.parametrize("stop", [5, 7])
def test_a_run_cut_off_ends_with_the_same_bits(whole, tmp_path, stop):
    with pytest.raises(RuntimeError):
        train(CONFIG, SMALL, runs=tmp_path, name="cut", hooks=[Stop(stop)])
    train(tmp_path / "cut", runs=tmp_path, resume=True)
    a, b = (numbers(Checkpoints(run / "weights").latest()) for run in (whole[0], tmp_path / "cut"))
    assert a.keys() == b.keys() and any(name.startswith("buffers/a/") for name in a)
    assert [name for name in a if a[name].tobytes() != b[name].tobytes()] == []


def test_an_exported_generator_draws_what_the_run_draws(whole, tmp_path):
    export_run(whole[0], tmp_path / "exported")
    picture = np.random.default_rng(0).integers(0, 255, (20, 24, 3)).astype(np.uint8)
    (own,), (exported,) = engine.load(whole[0])(picture), engine.load(tmp_path / "exported")(picture)
    assert own.draw().shape == (64, 192, 3)
    np.testing.assert_array_equal(own.draw(), exported.draw())
    assert own.to_json() == {"height": 16, "width": 16}


def test_the_generators_learn_to_come_back(tmp_path):
    more = ["runtime.epochs=12", "runtime.evaluation={every: 3, pictures: 0}", "schedule.base_lr=0.004"]
    figures = []

    class Keep(Hook):
        def after_evaluation(self, loop, metrics):
            figures.append(metrics["cycle_error"])

    train(CONFIG, [*SMALL, *more], runs=tmp_path, hooks=[Keep()])
    assert figures[-1] < 0.8 * figures[0]


def test_what_the_step_does_not_take_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="CycleGAN takes no accumulate"):
        train(CONFIG, [*SMALL, "runtime.accumulate=2"], runs=tmp_path)


def test_a_buffer_gives_older_pictures_half_of_the_time_and_draws_by_call_alone():
    buffer = ImageBuffer(4, seed=0)
    stream = [np.full((2, 1, 1, 3), call, np.float32) for call in range(300)]
    given = [buffer.swapped(pictures, call) for call, pictures in enumerate(stream)]
    np.testing.assert_array_equal(given[0], stream[0])  # as long as there is room
    older = np.mean([(a != b).all(axis=(1, 2, 3)).mean() for a, b in zip(given[2:], stream[2:], strict=True)])
    assert 0.4 < older < 0.6
    again = ImageBuffer(4, seed=0)
    for call, pictures in enumerate(stream[:150]):
        again.swapped(pictures, call)
    other = ImageBuffer(4, seed=0)
    other.load_state_dict(again.state_dict())
    np.testing.assert_array_equal(other.swapped(stream[150], 150), given[150])
