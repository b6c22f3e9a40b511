"""Training on a source without an end: exact resume, and what has no meaning there."""

import numpy as np
import pytest

from framework.data import StreamLoader
from framework.errors import ConfigError
from suites.engine.config.settings import Runtime
from suites.engine.run.checkpoint import Checkpoints
from tests.suites.engine.train.test_loop import Do, fail, jitter, make


class Drawn:
    """Numbers without an end, with a position."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while True:
            self.at += 1
            yield {"x": np.random.default_rng(self.at).normal(), "name": f"number {self.at}"}

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("stop", [5, 8])
def test_a_run_on_a_stream_without_an_end_resumes_to_the_same_bits(tmp_path, stop):
    def run(name, **options):
        made = make(tmp_path / name, evaluate_every=4, unit="steps", every=3, **options)
        made._loader = StreamLoader(Drawn(), 3, seed=1, transforms=[jitter])
        return made

    whole = run("whole")
    whole.train()
    assert whole.step == 12 and whole.epoch == 0 and whole.task.evaluations == 3
    broken = run("broken", hooks=[Do(stop, fail)])
    with pytest.raises(RuntimeError):
        broken.train()
    resumed = run("broken")
    resumed.load_state_dict(Checkpoints(tmp_path / "broken/weights").latest())
    resumed.train()
    assert resumed.task.model.w.tobytes() == whole.task.model.w.tobytes()


def test_epochs_of_what_has_no_end_are_refused():
    with pytest.raises(ConfigError, match=r"has no end, so it has no epochs; give runtime\.steps"):
        Runtime(epochs=2).total_steps(None)
