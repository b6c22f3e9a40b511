"""`paddock data check` of a click log: wrong rows by reason, labels, missing values, and what training knows."""

import json
from pathlib import Path

import numpy as np
import pytest

from suites.ctr.inspection.inspector import ClickInspector
from suites.engine.cli import main
from suites.engine.config.building import read_config
from suites.engine.reporting.holdings import holdings
from suites.engine.reporting.tally import Tally

SCHEMA = {
    "features": {"user": {"type": "Sparse"}, "price": {"type": "Dense"}, "rare": {"type": "Sparse"}},
    "labels": {"click": {}},
    "group": "user",
    "time": "time",
}


@pytest.fixture
def log(tmp_path):
    """A log whose evaluation rows are among its training rows in time; some rows are wrong."""
    draw = np.random.default_rng(0)
    rows = [f"u{draw.integers(40)},{draw.integers(90)}.5,,{draw.integers(2)},{1000 - i}" for i in range(400)]
    rows[3] = "u1,abc,,1,5"
    rows[14] = "u1,abd,,1,5"
    rows[25] = "u1,1.5,,7,5"
    rows[399] = "u1,1.5"
    rows[47] = rows[40]  # in training twice
    rows[58] = rows[50]  # in training and in evaluation
    (tmp_path / "log.csv").write_text("user,price,rare,click,time\n" + "\n".join(rows) + "\n")
    (tmp_path / "schema.yml").write_text(json.dumps(SCHEMA))
    return tmp_path / "log.csv"


def check(log, capsys):
    code = main(["data", "check", "ctr/clicks", "-o", f"data.root={log}", "-o", f"data.schema={log.parent}/schema.yml"])
    return code, capsys.readouterr().out


def test_rows_that_cannot_be_read_are_counted_by_reason_however_many_there_are(log, capsys):
    code, out = check(log, capsys)
    assert code == 1
    assert "error: 2 of 400 rows cannot be read: 'price' is ..., which is no finite number" in out
    assert "1 of 400 rows cannot be read: has 2 columns but there are 5" in out
    assert "1 of 400 rows cannot be read: the label 'click' is ...; it must be 0 or 1" in out
    assert "log.csv:5: 'price' is 'abc'" in out


def test_labels_missing_values_and_repeated_rows_are_told(log, capsys):
    _, out = check(log, capsys)
    assert "label click 0:" in out and "rare: 100.0%" in out
    assert "1 of 317 rows equal earlier ones in all that the schema reads" in out


def test_what_training_knows_of_the_evaluation_is_told_and_stands_in_the_report(log, capsys):
    _, out = check(log, capsys)
    said = out.partition("between sets:")[2]
    assert "of the training rows are later than the first evaluation row" in said
    assert "groups of the evaluation rows are in the training rows too" in said
    assert "1 samples of the evaluation rows are copies of samples of the training rows" in said
    tally = Tally()
    config = read_config(Path("ctr/clicks"), [f"data.root={log}", f"data.schema={log.parent}/schema.yml"])
    inspector = ClickInspector()
    sets = {name: inspector.opened(config, f"data.{name}.dataset") for name in ("train", "eval")}
    for finding in inspector.between(sets):
        tally.note(finding.text)
    again = Tally()
    again.merge(json.loads(json.dumps(tally.state())))
    page = "".join(holdings({"eval": again}))
    assert "later than the first evaluation row" in page and len(again.notes) == 3
