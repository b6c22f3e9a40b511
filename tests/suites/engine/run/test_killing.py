"""A save killed at any call that changes files, or a training killed at any moment, loses nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suites.engine.kill_training import kill_and_resume
from tests.suites.engine.killing import ACTIONS

HERE = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("action", ACTIONS)
def test_a_save_killed_at_every_call_and_within_every_write_leaves_a_whole_copy(tmp_path, library, action):
    command = [sys.executable, HERE / "killing.py", action, tmp_path]
    done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    deaths, calls = map(int, done.stdout.split())
    assert deaths == 2 * calls and calls >= 3  # to open, to write, to close


def test_all_processes_of_a_run_ended_at_random_moments_lose_nothing(tmp_path):
    """By turns with SIGTERM, as batch systems end a job, and with SIGKILL, while it waits for its data."""
    report = kill_and_resume(tmp_path, kills=100, seed=0, groups=True)
    assert report.kills == 100 and report.finished >= 1 and report.saved >= 1


def test_a_training_killed_200_times_at_random_ends_with_the_same_bits(tmp_path):
    report = kill_and_resume(tmp_path, kills=200, seed=0)
    assert report.kills == 200 and report.finished >= 1
