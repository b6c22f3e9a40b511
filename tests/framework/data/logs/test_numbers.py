"""Numbers at the ends of double's range are what Python's `float` makes of them."""

import numpy as np
import pytest

from framework.data import FaultPolicy
from framework.data.logs import LogReader

SCHEMA = {
    "columns": ["x", "y"], "header": False, "quote": "", "sparse": [], "dense": [{"name": "x", "column": 0}],
    "labels": [{"name": "y", "column": 1}],
}  # fmt: skip


def read(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(f"{text},1\n0,1\n")
    with LogReader(str(path), SCHEMA, batch_size=8, faults=FaultPolicy(skipped=0.5)) as log:
        return np.concatenate([batch["dense"] for batch in log]).ravel().tolist()


@pytest.mark.parametrize("text", ["1e-400", "-1e-400", "0." + "0" * 400 + "1", "4e-324", "1e-9999999"])
def test_what_is_too_small_is_zero(tmp_path, text):
    assert read(tmp_path, text) == [0.0, 0.0]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400, "inf", "nan"])
def test_what_is_too_large_is_no_finite_number(tmp_path, text):
    assert read(tmp_path, text) == [0.0]
