"""The replay of a trainer that is away: divided by those at work, dense weights move farther; as now, they do not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import cluster_away


def test_a_batch_counts_twice_only_where_changes_are_divided_by_the_trainers_at_work(monkeypatch, capsys):
    monkeypatch.setattr(cluster_away, "TEST_ROWS", 1000)
    found = cluster_away.main(["at_work", "wanted", "--rows", "8000", "--passes", "4", "--seeds", "1", "--every", "16"])
    # Half of the batches are made by one of two alone: (1/2 + 1) / 2 over 1/2 is 1.5, were all steps equally long.
    assert found["at_work"]["moved"][0] == pytest.approx(1.5, abs=0.3)
    assert found["wanted"]["moved"][0] == pytest.approx(1.0, abs=0.2)
    assert "| `at_work` |" in capsys.readouterr().out
