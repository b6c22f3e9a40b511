"""A wall clock that jumps by hours while a run trains changes nothing of it."""

import pytest

from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.jumps import HOURS, Jumping
from tests.suites.engine.train.test_training import CONFIG, assert_same_run


class Jump(Hook):
    """Sets the wall clock forwards and back, further at each step."""

    def __init__(self, clock):
        self.clock = clock

    def after_step(self, loop):
        self.clock.offset = (-1) ** loop.step * loop.step * HOURS


class Fail(Hook):
    """Ends a run after a step."""

    def after_step(self, loop):
        if loop.step == 8:
            raise RuntimeError("the power fails")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_gives_the_same_bits_and_checkpoints(tmp_path, monkeypatch, workers):
    (tmp_path / "toy.yml").write_text(CONFIG)
    overrides = [f"runtime.workers={workers}", "runtime.data.timeout=30"]
    train(tmp_path / "toy.yml", overrides, runs=tmp_path, name="calm")
    train(tmp_path / "toy.yml", overrides, runs=tmp_path, name="jumps", hooks=[Jump(Jumping(monkeypatch))])
    assert_same_run(tmp_path / "calm", tmp_path / "jumps")
    kept = [sorted(p.name for p in (tmp_path / name / "weights").iterdir()) for name in ("calm", "jumps")]
    assert kept[0] == kept[1]


def test_a_run_that_is_continued_in_the_past_goes_on(tmp_path, monkeypatch):
    (tmp_path / "toy.yml").write_text(CONFIG)
    train(tmp_path / "toy.yml", runs=tmp_path, name="calm")
    clock = Jumping(monkeypatch)
    with pytest.raises(RuntimeError, match="the power fails"):
        train(tmp_path / "toy.yml", runs=tmp_path, name="jumps", hooks=[Fail()])
    clock.offset = -1000 * HOURS
    train(tmp_path / "toy.yml", runs=tmp_path, name="jumps", resume=True)
    assert_same_run(tmp_path / "calm", tmp_path / "jumps")
