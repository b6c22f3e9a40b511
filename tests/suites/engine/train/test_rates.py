"""The range test: rates that grow, what it suggests, and that a run of the same name is as if it had not been."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.engine.cli.train import main
from suites.engine.train.rates import FILE, Sweep, rates_between
from tests.suites.engine import toy  # noqa: F401 (its suite)

CONFIG = """
suite: toy
optimizer: {type: SGD}
schedule: {type: Constant, base_lr: 0.2, reference_batch: 8}
runtime: {steps: 4, workers: 0, seed: 3}
data: {samples: 20, batch_size: 4}
"""


def test_rates_grow_by_the_same_factor():
    found = rates_between(1e-4, 1e-1, 31)
    assert found[0] == pytest.approx(1e-4) and found[-1] == pytest.approx(1e-1) and len(found) == 31
    np.testing.assert_allclose(np.diff(np.log(found)), np.log(1000) / 30)
    for wrong in ((0.0, 1.0, 20), (1.0, 0.5, 20), (0.1, 1.0, 9)):
        with pytest.raises(AttributeValueError, match="range test"):
            rates_between(*wrong)


def made(scale=1.0):
    """A loss that is flat, falls around 1e-3, and flies away from 1e-1 on."""
    rates = rates_between(1e-6, 1.0, 120)
    losses = [2.0 - 1.5 / (1 + (1e-3 / r) ** 2) + (10 * r) ** 4 for r in rates]
    return Sweep(rates, losses, scale)


def test_the_suggestion_is_a_tenth_of_the_rate_of_the_lowest_loss():
    found = made().suggestion()
    assert found == pytest.approx(made().rates[int(made().smoothed().argmin())] / 10)
    assert 3e-4 < found < 1e-2
    assert made(scale=0.5).suggestion() == pytest.approx(2 * found)  # base_lr is for another batch


def test_nothing_is_suggested_where_nothing_is_learnt():
    rates = rates_between(1e-6, 1.0, 30)
    for losses in ([1.0] * 30, list(np.linspace(1, 9, 30)), [1.0] * 3):
        sweep = Sweep(rates[: len(losses)], losses)
        assert sweep.suggestion() is None and "at no rate" in sweep.advice(0.1)
    assert Sweep([], []).chart() == "no step was finite"


def test_the_chart_shows_both_ends_and_marks_the_suggestion():
    lines = made().chart().splitlines()
    assert len(lines) == 14 and lines[-1].split() == ["base_lr", "1.0e-06", "1.0e+00"]
    marked = {line.index("*") for line in lines if "*" in line}
    assert len(marked) == 1 and any(line[next(iter(marked))] == ":" for line in lines if len(line) > min(marked))


def test_the_command_trains_nothing_and_leaves_its_findings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.yml").write_text(CONFIG)
    status = main(["toy.yml", "--find-lr", "--name", "mine"])
    said, folder = capsys.readouterr().out, tmp_path / "runs/mine_find_lr"
    found = json.loads((folder / FILE).read_text())
    assert found["base_lr"][0] == pytest.approx(1e-7) and len(found["base_lr"]) == len(found["loss"])
    assert (status == 0) == (found["suggestion"] is not None) and "range test:" in said and "base_lr" in said
    assert list((folder / "weights").iterdir()) == [] and not (tmp_path / "runs/mine").exists()
    assert main(["toy.yml", "--find-lr", "--name", "mine"]) != 0  # an earlier one stays unless it is asked for
    assert main(["toy.yml", "--find-lr", "--name", "mine", "--overwrite"]) == status


def test_what_a_range_test_does_not_go_with_is_refused(capsys):
    for words in (["--resume"], ["--profile"], ["--seeds", "2"], ["--hosts", "2"]):
        with pytest.raises(SystemExit):
            main(["toy.yml", "--find-lr", *words])
        assert "--find-lr takes a config file" in capsys.readouterr().err
