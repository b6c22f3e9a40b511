"""The script about killed trainers and shards decides by pairs of runs, and says so where it cannot."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import cluster_faults


def test_pairs_that_agree_are_within_the_bound_and_those_that_agree_on_a_loss_are_apart():
    assert cluster_faults.judged([0.0004, -0.0003, 0.0002, -0.0001])["verdict"] == "within"
    assert cluster_faults.judged([-0.012, -0.011, -0.013, -0.012])["verdict"] == "apart"


def test_pairs_that_differ_among_themselves_decide_nothing():
    assert cluster_faults.judged([0.004, -0.004, 0.003, -0.003])["verdict"] == "undecided"
    assert cluster_faults.judged([0.0])["verdict"] == "undecided"  # one pair has no spread


def test_the_interval_is_students():
    found = cluster_faults.judged([0.001, 0.003])
    # t(1) at 97.5 % is 12.706; the deviation is sqrt(2) * 0.001, that of the mean 0.001
    assert found["mean"] == pytest.approx(0.002) and found["half"] == pytest.approx(12.706 * 0.001, rel=1e-4)
