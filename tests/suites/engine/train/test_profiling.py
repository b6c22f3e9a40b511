"""StepProfile records the right steps, reports once, and says when it had to take the cold ones."""

import numpy as np
import pytest

import framework
from framework import ops
from suites.engine.train.profiling import StepProfile


@pytest.fixture
def said():
    return []


def run(profile, steps):
    function = framework.program(lambda x: ops.exp(x))
    for _ in range(steps):
        with profile.step():
            function(np.ones(4, np.float32))


def test_steps_after_the_warm_up_are_recorded_and_reported_once(tmp_path, said):
    profile = StepProfile(tmp_path, say=said.append, steps=3, warm_up=2)
    run(profile, profile.length + 5)
    profile.report()
    assert said[0].startswith("profile of 3 steps:") and "in 3 operator calls" in said[0]
    assert said[1].startswith("memory: ") and len(said) == 3


def test_a_run_shorter_than_the_profile_is_reported_at_its_end(tmp_path, said):
    profile = StepProfile(tmp_path, say=said.append, steps=3, warm_up=2)
    run(profile, 4)
    assert said == []
    profile.report()
    assert said[0].startswith("profile of 2 steps:")


def test_a_run_of_warming_up_alone_is_reported_as_such(tmp_path, said):
    profile = StepProfile(tmp_path, say=said.append)
    run(profile, 1)
    profile.report()
    assert said[0].startswith("profile of 1 steps, tracing and planning included")
    assert (tmp_path / "trace.json").is_file()


def test_no_step_no_report(tmp_path, said):
    StepProfile(tmp_path, say=said.append).report()
    assert said == [] and not any(tmp_path.iterdir())


def test_an_error_inside_a_step_stops_the_recording(tmp_path, said):
    profile = StepProfile(tmp_path, say=said.append)
    with pytest.raises(ZeroDivisionError), profile.step():
        raise ZeroDivisionError
    with framework.Profile() as p:
        pass
    assert p.calls == []
