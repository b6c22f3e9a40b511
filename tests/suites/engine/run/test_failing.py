"""A disk that refuses any change of a run's folder costs one error: nothing is lost, a resume has the same bits."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def refuse(folder, library, error, count, first, step):
    """(changes of one training, trainings that met a refusal), see `failing.refuse`."""
    numbers = map(str, (error, count, first, step))
    command = [sys.executable, "-m", "tests.suites.engine.failing", str(folder), *numbers]
    done = subprocess.run(
        command, env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()[-2:]))


def test_a_full_disk_in_the_midst_of_a_training_costs_one_error_and_nothing_that_was_saved(tmp_path, library):
    changes, met = refuse(tmp_path, library, errno.ENOSPC, 1, 60, 150)
    assert changes > 200 and met >= 2


def test_a_disk_that_stays_broken_costs_one_error_and_nothing_that_was_saved(tmp_path, library):
    assert refuse(tmp_path, library, errno.EIO, 1 << 20, 130, 1000)[1] == 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 1 << 20], ids=["once", "for_good"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT], ids=["full", "broken", "quota"])
def test_a_refusal_at_every_change_costs_one_error_and_nothing_that_was_saved(tmp_path, library, error, count):
    changes, met = refuse(tmp_path, library, error, count, 0, 1)
    assert met == changes > 200
