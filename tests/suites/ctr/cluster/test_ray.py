"""The same runs with a Ray of this machine: minutes, and 79 MB of Ray, so marked slow."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from framework.errors import ConfigError
from suites.ctr.cluster.ray_places import RayPlaces
from suites.ctr.cluster.settings import ClusterSettings
from tests.suites.ctr.cluster.test_run import expected_shows, log, overrides, rows_of  # noqa: F401  (a fixture)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra cluster is not installed"),
]
ROOT = Path(__file__).resolve().parents[4]


def pids_of(run):
    return {path.stem: json.loads(path.read_text())["pid"] for path in run.glob("cluster/layout-*/shard-?.json")}


def test_a_local_ray_trains_and_brings_a_killed_shard_back(log, tmp_path):  # noqa: F811
    words = ["train", "ctr/deepfm_csv", "--cluster", "local", "--runs", str(tmp_path), "--name", "run"]
    words += [w for text in overrides(log, **{"runtime.epochs": 2}) for w in ("-o", text)]
    process = subprocess.Popen(
        [sys.executable, "-m", "suites.engine.cli", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    run, killed = tmp_path / "run", []

    def kill():
        while not (run / "progressive.jsonl").is_file():
            time.sleep(0.05)
            if process.poll() is not None:
                return
        killed.append(pids_of(run)["shard-1"])
        os.kill(killed[0], signal.SIGKILL)  # an actor's process, which this test's Ray started

    killer = threading.Thread(target=kill)
    killer.start()
    out, _ = process.communicate(timeout=400)
    killer.join()
    assert process.returncode == 0, out
    assert killed and "shard-1.1 takes the place of its predecessor" in out
    keys, shows = expected_shows(run)
    np.testing.assert_array_equal(rows_of(run).counts(keys)[:, 0], shows)


def test_no_cluster_here_is_one_error(tmp_path):
    with pytest.raises(ConfigError, match="there is no Ray that this machine is part of"):
        RayPlaces("auto", tmp_path, ClusterSettings())
