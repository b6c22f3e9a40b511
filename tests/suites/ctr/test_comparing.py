"""`data schema --compare` trains both ways and recommends codes where numbers are codes."""

import json

import numpy as np
import pytest

from framework.errors import NotSupportedError
from suites.ctr.inspection.comparing import compare
from suites.engine.cli import main


@pytest.fixture
def log(tmp_path):
    """Codes that decide about clicks, each for itself; the numbers have no order."""
    draw = np.random.default_rng(0)
    clicks = draw.random(40) < 0.5
    codes = draw.integers(0, 40, 1500)
    rows = [f"{int(clicks[code] ^ (draw.random() < 0.05))},{code * 7 + 1000},{draw.random():.3f}" for code in codes]
    (tmp_path / "log.csv").write_text("\n".join(["click,role,price", *rows]) + "\n")
    return tmp_path / "log.csv"


def test_codes_are_recommended_where_numbers_are_codes(log, capsys):
    assert main(["data", "schema", str(log), "--compare", "--seconds", "4"]) == 0
    out = capsys.readouterr().out
    figures = {kind: float(out.split(f"role as {kind}: AUC ")[1].split()[0]) for kind in ("Dense", "Sparse")}
    assert figures["Sparse"] > figures["Dense"] + 0.01 and "# recommended on 1500 rows: Sparse" in out


def test_where_nothing_can_be_taken_in_two_ways_nothing_is_trained(log):
    schema = {"features": {"price": {"type": "Dense"}}, "labels": {"click": {}}}
    assert compare(log, json.dumps(schema))[0].startswith("no feature of whole numbers")
    slots = {"format": {"kind": "slot"}, "features": {"6": {"type": "Sparse"}}, "labels": {"click": {}}}
    with pytest.raises(NotSupportedError, match="takes delimited text, not slot"):
        compare(log, json.dumps(slots))


@pytest.mark.parametrize("words", [["--seconds", "5"], ["--compare", "--seconds", "0"]])
def test_seconds_that_would_do_nothing_are_refused(tmp_path, capsys, words):
    log = tmp_path / "log.csv"
    log.write_text("click,a\n" + "1,2\n0,3\n" * 9)
    assert main(["data", "schema", str(log), *words]) == 2
    assert "is the time of --compare, above 0" in capsys.readouterr().err
