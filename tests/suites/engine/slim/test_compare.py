"""The table of smaller models: one figure for all of them."""

import pytest

from framework.errors import ConfigError
from suites.engine.slim.compare import compare, entries_of
from suites.engine.slim.judging import judged_by
from tests.suites.engine.slim.runs import NETWORKS, write_run


@pytest.mark.parametrize(
    ("evaluation", "name", "lower"),
    [
        ("{main: top5}", "top5", False),
        ("{loss: true, main: loss}", "top1", False),  # an export has no loss
        ("{main: top5, better: lower}", "top5", True),
    ],
)
def test_the_figure_is_that_which_chose_the_weights(tmp_path, monkeypatch, evaluation, name, lower):
    config, overrides = NETWORKS["resnet18"]
    overrides = [*overrides, f"runtime.evaluation={{$replace: {evaluation}}}"]
    monkeypatch.setitem(NETWORKS, "judged", (config, overrides))
    run = write_run(tmp_path, "judged")
    assert judged_by(run) == (name, lower)
    if not lower:
        (row,) = compare(entries_of([("one", run)]), tmp_path / "o", inputs=1, rounds=1, say=lambda line: None)
        assert row.metric == name and list(row.figures) == ["eval"]


def test_runs_that_are_judged_by_other_figures_have_no_table(tmp_path):
    runs = [(name, write_run(tmp_path / name, name)) for name in ("resnet18", "yolov3")]
    with pytest.raises(ConfigError, match="judged by other figures: AP of yolov3, top1 of resnet18"):
        compare(entries_of(runs), tmp_path / "o", say=lambda line: None)
    assert not (tmp_path / "o").exists()
