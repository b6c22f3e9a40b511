"""Folds of a log: each row is tested once, and every config of the shipped logs can be laid out so."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from ctr_folds import fold_overrides

from suites.engine.config.building import read_config

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs" / "ctr").glob("*.yml"))
OWN = "clicks"  # its schema is made of a log that has to be there
LOGS = [path for path in CONFIGS if path.stem != OWN and read_config(path).get("data.train.dataset.type") == "ClickLog"]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_parts_of_a_fold_are_all_rows_of_a_configs_files_each_in_one(path):
    data = read_config(path, fold_overrides(path, [], 1, 3)).as_dict()["data"]
    train, test = (data[part]["dataset"] for part in ("train", "eval"))
    assert train["files"] == test["files"] and train["files"] and "split" not in {*train, *test}
    assert (train["rows"], test["rows"]) == tuple({"type": "EveryNth", "of": 3, "keep": k} for k in ([0, 2], [1]))
    assert not data.get("more_eval")
