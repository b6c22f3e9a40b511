"""Threads that train at the same time, by a config: every update is made, checkpoints and figures hold, refusals."""

import json

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, ConfigError, ShapeError
from suites.ctr.train.hogwild import HogwildSettings
from suites.engine.predict.inference import open_run
from suites.engine.reporting.lines import read_lines
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.suites.ctr.test_task import folder, run  # noqa: F401  (a fixture)


class Cut(Hook):
    """Ends a run between two checkpoints, with updates on their way."""

    def after_step(self, loop):
        """See the class."""
        if loop.step == 8:
            raise OSError("the power is gone")


def counts(folder, name="run"):  # noqa: F811
    """Shows and clicks of all rows of a run's last weights, by key."""
    table = open_run(folder / name, folder / name / "weights" / "last.safetensors").model.table
    table.export_text(folder / f"{name}.txt")
    rows = [line.split()[:3] for line in (folder / f"{name}.txt").read_text().splitlines()]
    return {key: (show, click) for key, show, click in rows}


def test_threads_make_every_update_that_one_thread_makes(folder):  # noqa: F811
    run(folder, "runtime.epochs=3")
    before = framework.num_threads()
    train(folder / "config.yml", ["hogwild={threads: 3}", "runtime.epochs=3"], runs=folder, name="threads")
    assert framework.num_threads() == before
    assert counts(folder) == counts(folder, "threads")  # rows are the same, and each was shown as often
    figures = [json.loads((folder / name / "metrics.json").read_text())["auc"] for name in ("run", "threads")]
    assert figures[1] > figures[0] - 0.05


def test_one_thread_learns_what_plain_training_learns(folder):  # noqa: F811
    run(folder, "runtime.epochs=1")
    train(folder / "config.yml", ["hogwild={threads: 1}", "runtime.epochs=1"], runs=folder, name="one")
    models = [open_run(folder / name).model for name in ("run", "one")]
    for (name, own), (_, other) in zip(*(model.named_parameters() for model in models), strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), atol=1e-5, err_msg=name)
    lines = [read_lines(folder / name / "progressive.jsonl") for name in ("run", "one")]
    assert [(e["kind"], e["step"], e["rows"]) for e in lines[0]] == [
        (e["kind"], e["step"], e["rows"]) for e in lines[1]
    ]
    assert lines[1][-1]["auc"] == pytest.approx(lines[0][-1]["auc"], abs=1e-4)


def test_a_stopped_run_goes_on_without_an_update_lost_or_made_twice(folder):  # noqa: F811
    run(folder, "runtime.epochs=2")
    options = ["hogwild={threads: 2}", "runtime.epochs=2", "progressive.window=64"]
    with pytest.raises(OSError, match="the power is gone"):
        more = [*options, "runtime.checkpoint.every=3"]
        train(folder / "config.yml", more, runs=folder, name="cut", hooks=[Cut()])
    train(folder / "cut", resume=True)
    assert counts(folder) == counts(folder, "cut")
    lines = [line for line in read_lines(folder / "cut" / "progressive.jsonl") if line["kind"] == "pass"]
    whole = [line for line in read_lines(folder / "run" / "progressive.jsonl") if line["kind"] == "pass"]
    assert [line["rows"] for line in lines] == [line["rows"] for line in whole]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("runtime.eager=true", "runtime.eager: is on, but `hogwild` runs Programs"),
        ("runtime.accumulate=2", "runtime.accumulate: rows of a table do not have it"),
        (
            "model={type: DNN, dim: 4, hidden: [8], dropout: 0.5}",
            "hogwild: a step of DNN sets .*dropout and batch norm",
        ),
    ],
)
def test_what_threads_cannot_do_is_refused(folder, override, message):  # noqa: F811
    with pytest.raises(ConfigError, match=message):
        train(folder / "config.yml", ["hogwild={threads: 2}", override], runs=folder, name="refused")


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"ahead": -1}])
def test_settings_that_are_none_are_refused(wrong):
    with pytest.raises(AttributeValueError, match=r"hogwild: (threads|ahead) is"):
        HogwildSettings(**wrong)


def test_an_update_that_fails_ends_the_run_with_its_own_error(folder, monkeypatch):  # noqa: F811
    from suites.ctr.train.hogwild import HogwildStep

    inputs = HogwildStep._inputs

    def bad(self, batch):
        found = inputs(self, batch)
        if self.updates == 4:
            found["labels"] = framework.tensor(np.zeros((3, 1), np.float32))
        return found

    monkeypatch.setattr(HogwildStep, "_inputs", bad)
    with pytest.raises(ShapeError):
        train(folder / "config.yml", ["hogwild={threads: 2}"], runs=folder, name="bad")
