"""Runs of several seeds are trained and summed up by one command."""

import json

import pytest

from suites.engine.train.seeds import over_runs, train_seeds
from suites.engine.train.training import evaluate_weights
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

CONFIG = """
suite: toy
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 0.1}
runtime: {steps: 5, seed: 7, workers: 0, evaluation: {every: 0, pictures: 0}}
"""


def test_figures_of_runs_have_mean_and_spread():
    found = over_runs({"a": {"f1": 0.5, "x": 1.0}, "b": {"f1": 0.7}})
    assert (
        found["mean"] == {"f1": pytest.approx(0.6)} and found["highest"]["f1"] == 0.7 and found["lowest"]["f1"] == 0.5
    )
    assert found["deviation"]["f1"] == pytest.approx(0.02**0.5) and found["runs"]["a"]["x"] == 1.0
    assert over_runs({"a": {"f1": 0.5}})["deviation"] == {"f1": 0.0}


def test_each_seed_is_a_run(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG)
    summary = train_seeds(tmp_path / "c.yml", count=2, runs=tmp_path)
    assert list(summary["runs"]) == ["c_seed7", "c_seed8"]
    assert summary["runs"]["c_seed7"] != summary["runs"]["c_seed8"]
    assert summary["runs"]["c_seed8"] == evaluate_weights(tmp_path / "c_seed8")
    assert json.loads((tmp_path / "c_seeds.json").read_text()) == summary
    # Resuming runs that are done, and one that is not there yet, changes nothing of the former.
    again = train_seeds(tmp_path / "c.yml", count=3, runs=tmp_path, resume=True)
    assert {k: again["runs"][k] for k in summary["runs"]} == summary["runs"] and len(again["runs"]) == 3
