"""A cluster follows a log that keeps coming: each row is trained on once, whoever is killed, and passes end."""

import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from framework.data.logs import LogFolders, Patience
from framework.errors import ConfigError, DataError
from framework.table import Table
from suites import engine
from suites.ctr.cluster.coming import ComingPasses
from suites.ctr.cluster.trainer import expect_shares
from suites.ctr.cluster.work import Work
from suites.ctr.serving.published import LIST
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.training import train
from tests.suites.ctr.cluster.test_publishing import answers
from tests.suites.ctr.cluster.test_run import Killer, children, overrides, rows_of, trained
from tests.suites.ctr.helpers import SCHEMA, columns, write_csv
from tests.waiting import until

ROWS, PASSES = 2000, 4
NAMES = [f"20261122/{9 + k:02d}00" for k in range(12)]


def write_pass(root, number, rows=ROWS, files=2):
    """A complete pass; its done-file comes last."""
    folder = root / NAMES[number]
    folder.mkdir(parents=True)
    found = columns(rows, seed=number)
    for k in range(files):
        write_csv(folder / f"{k}.csv", {name: values[k::files] for name, values in found.items()})
    (folder / "_SUCCESS").touch()


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    write_pass(folder / "passes", 0)
    write_csv(folder / "log.csv", columns(500, seed=99))  # to evaluate on
    (folder / "schema.json").write_text(json.dumps({"format": {"delimiter": ",", "header": True}, **SCHEMA}))
    return folder


def coming(log, passes=PASSES, wait=60.0, **more):
    dataset = {
        "type": "LogPasses",
        "root": str(log / "passes"),
        "files": "*.csv",
        "shuffle_rows": 500,
        "wait_seconds": wait,
        "end": NAMES[passes - 1],
    }
    return {
        "data.train.dataset": json.dumps({key: value for key, value in dataset.items() if value is not None}),
        "runtime.epochs": "null",
        "runtime.steps": 100000,
        "schedule": "{type: Constant, base_lr: 0.01}",
    } | more


def expected_shows(run, log, passes):
    """How often each sign stands in all rows of the passes."""
    task = build_task(read_config(run))
    loader = task.train_loader(seed=0, workers=0)
    signs = []
    for number, name in enumerate(passes):
        for batch in loader.open(name, number, drop_last=False):
            signs += [batch[each].ravel() for each in task.model.signs]
    return np.unique(np.concatenate(signs), return_counts=True)


def assert_each_row_once(run, log, passes=PASSES):
    keys, shows = expected_shows(run, log, NAMES[:passes])
    table = rows_of(run)
    np.testing.assert_array_equal(table.counts(keys)[:, 0], shows)
    assert len(table) == len(keys)


def test_the_position_in_the_folders_is_kept_and_the_last_one_ends_the_work(log, tmp_path, monkeypatch):
    """As a head that is killed after each look, the first part open, done and then over."""
    said = []

    def head():
        work = Work(tmp_path / "work.json", 2, None, None, parts=True)
        folders = LogFolders(log / "passes", {"columns": ["x"]}, 8, end=NAMES[1], patience=Patience(0.0, 0.01, "error"))
        return work, ComingPasses(folders, work, said.append)

    for number in range(2):
        work, coming = head()
        coming.look()
        assert (work.part.name, work.epoch, work.waiting) == (NAMES[number], number, False)
        work, coming = head()
        coming.look()
        assert work.part.name == NAMES[number] and len(said) == number + 1
        for _ in range(2):
            work.done("a", work.lease("a").worker)
        assert work.pass_done
        work.next_pass()
        if not number:
            with pytest.raises(DataError, match=f"no pass after {NAMES[0]} in 0 s"):
                head()[1].look()
            write_pass(log / "passes", 1)
    work, coming = head()
    coming.look()
    assert work.over


class Writer(threading.Thread):
    """Completes one pass after the other, a moment apart, when the run has come to the one before."""

    def __init__(self, log, run, first=1, last=PASSES, rows=ROWS):
        super().__init__(daemon=True)
        self._log, self._run, self._numbers, self._rows = log, run / "cluster" / "work.json", range(first, last), rows

    def run(self):
        for number in self._numbers:
            until(lambda name=NAMES[number - 1]: self._run.is_file() and name in self._run.read_text())
            write_pass(self._log / "passes", number, self._rows)


def test_folders_that_fill_while_the_cluster_trains_and_is_killed_count_each_row_once(log, tmp_path):
    Writer(log, tmp_path / "run").start()
    with Killer(pause=(0.5, 1.0), most=2) as killer:
        assert trained(log, tmp_path, more=coming(log))
    run = tmp_path / "run"
    assert min(killer.killed.values()) > 0
    assert_each_row_once(run, log)
    said = (run / "log.txt").read_text()
    for number in range(PASSES):
        assert f"pass {number} is {NAMES[number]}, in 2 blocks or files" in said and f"end of pass {number}" in said
    assert not any(children().values())
    windows = [json.loads(line) for line in (run / "progressive.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in windows} == {"window"} and max(line["pass"] for line in windows) > 0
    assert json.loads((run / "metrics.json").read_text())["auc"] > 0.6


@pytest.mark.slow  # the other whole runs stay in the quick tests
def test_a_run_that_was_stopped_goes_on_with_the_share_and_the_folder_where_it_was(log, tmp_path):
    def stop():
        until(lambda: (run / "cluster" / "work.json").is_file() and NAMES[1] in (run / "log.txt").read_text())
        os.kill(os.getpid(), signal.SIGTERM)

    run = tmp_path / "run"
    write_pass(log / "passes", 1)
    threading.Thread(target=stop, daemon=True).start()
    assert trained(log, tmp_path, more=coming(log)) is False
    assert json.loads((run / "cluster" / "work.json").read_text())["part"]["name"] in NAMES[:2]
    for number in (2, 3):
        write_pass(log / "passes", number)
    assert trained(log, tmp_path, resume=True, more=coming(log) | {"cluster.shards": 3})
    assert_each_row_once(run, log)


def test_at_the_end_of_each_pass_rows_leave_the_table_as_on_one_machine(log, tmp_path):
    for number in (1, 2):
        write_pass(log / "passes", number)
    more = coming(log, 3, **{"table.eviction": "{decay: 0.5, least_score: 0.0}", "data.train.shuffle": "false"})
    more |= {"cluster.shares": 1, "cluster.trainers": 1}
    assert trained(log, tmp_path, more=more)
    train(Path("ctr/deepfm_csv"), overrides(log, **more), runs=tmp_path, name="one")
    tables = [rows_of(tmp_path / "run"), Table.open(next((tmp_path / "one" / "weights").glob("last.*/signs")))]
    keys, _ = expected_shows(tmp_path / "run", log, NAMES[:3])
    (ours, single) = (table.counts(keys) for table in tables)
    np.testing.assert_allclose(ours[:, :2], single[:, :2])  # three times halved
    np.testing.assert_array_equal(ours[:, 2], single[:, 2])
    assert tables[0].passes == 3


@pytest.mark.slow  # the other whole runs stay in the quick tests
def test_a_model_that_is_served_follows_a_log_that_keeps_coming(log, tmp_path):
    steps = {"runtime.steps": 2}
    train(Path("ctr/deepfm_csv"), overrides(log, **coming(log, 1) | steps), runs=tmp_path, name="first")
    export_run(tmp_path / "first", tmp_path / "exported")
    Writer(log, tmp_path / "run", last=3).start()
    more = coming(log, 3) | {"publish": json.dumps({"to": str(tmp_path / "exported"), "every": 0.2})}
    assert trained(log, tmp_path, more=more)
    files = json.loads((tmp_path / "exported" / "rows" / LIST).read_text())["files"]
    assert len(files) > 1
    np.testing.assert_allclose(
        answers(open_model(tmp_path / "exported")), answers(engine.load(tmp_path / "run")), atol=1e-6
    )


def test_a_next_pass_that_does_not_come_ends_the_run_with_everything_saved(log, tmp_path):
    with pytest.raises(DataError, match=rf"no pass after {NAMES[0]} in 0\.2 s; see whether its writer still runs"):
        trained(log, tmp_path, more=coming(log, 2, wait=0.2))
    assert not any(children().values())
    write_pass(log / "passes", 1, rows=100)
    assert trained(log, tmp_path, resume=True, more=coming(log, 2, wait=0.2))
    said = (tmp_path / "run" / "log.txt").read_text()
    assert said.count(f"pass 0 is {NAMES[0]}") == 1
    assert_each_row_once(tmp_path / "run", log, 2)


@pytest.mark.slow  # the other whole runs stay in the quick tests
def test_steps_end_a_log_that_keeps_coming_without_a_next_pass(log, tmp_path):
    more = coming(log) | {"runtime.steps": 20, "data.train.batch_size": 16}
    assert trained(log, tmp_path, more=more)
    assert json.loads((tmp_path / "run" / "cluster" / "work.json").read_text())["batches"] >= 20
    assert (tmp_path / "run" / "metrics.json").is_file()


def test_files_that_change_behind_the_done_file_end_the_run_with_one_error(log, tmp_path):
    run = tmp_path / "run"

    def change():
        until((run / "cluster" / "work.json").is_file)
        write_csv(log / "passes" / NAMES[0] / "late.csv", columns(50))

    threading.Thread(target=change, daemon=True).start()
    with pytest.raises(Exception, match=r"its files are not those that were there when the pass began") as caught:
        trained(log, tmp_path, more=coming(log) | {"cluster.most_restarts": 0})
    assert "trainer" in str(caught.value)


def test_a_source_without_passes_is_refused(log, tmp_path):
    with pytest.raises(ConfigError, match="list has no passes that could be dealt out in shares; a cluster trains on"):
        expect_shares([])
