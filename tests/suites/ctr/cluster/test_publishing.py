"""A cluster publishes what it learns as one machine does: an export beside it answers as the run's own evaluation."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from framework.errors import CheckpointError
from framework.table import TableSnapshot
from suites import engine
from suites.ctr.serving.published import LIST
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import evaluate_export, export_run, open_model, open_run
from suites.engine.train.training import train, train_on_cluster
from tests.suites.ctr.cluster.test_run import children, log, overrides, rows_of, trained  # noqa: F401  (a fixture)
from tests.suites.ctr.helpers import columns
from tests.suites.ctr.test_retrieval import MODELS
from tests.suites.ctr.test_retrieval import answers as retrieved
from tests.suites.ctr.test_retrieval import run as retrieval
from tests.waiting import until

CONFIG = "ctr/deepfm_csv"


@pytest.fixture
def exported(log, tmp_path):  # noqa: F811
    """A folder that holds an export of the model, barely trained."""
    more = overrides(log, **{"runtime.epochs": "null", "runtime.steps": 2})
    train(Path(CONFIG), more, runs=tmp_path, name="first")
    export_run(tmp_path / "first", tmp_path / "exported")
    return tmp_path / "exported"


def published(exported):
    return json.loads((exported / "rows" / LIST).read_text())["files"]


class Reader:
    """Reads what is published again and again, as a server does; keeps what it saw, and opens each version whole."""

    def __init__(self, exported):
        self.seen, self.errors = [published(exported)], []
        self._folder, self._done = exported, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._done.wait(0.01):
            files = published(self._folder)
            if files == self.seen[-1]:
                continue
            self.seen.append(files)
            try:
                paths = [self._folder / "rows" / name for name in files]
                TableSnapshot.open(paths[0], paths[1:])
            except CheckpointError as error:
                if published(self._folder) == files:  # else it was replaced meanwhile
                    self.errors.append(error)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    @property
    def versions(self):
        """The newest file of each list seen."""
        return [files[-1] for files in self.seen]


def answers(model):
    found = columns(50, seed=9)
    rows = [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]
    return np.array([p.value["click"] for p in model(rows)])


def publishing(exported, every=0.1, **more):
    return {"publish": json.dumps({"to": str(exported), "every": every} | more), "runtime.epochs": 3}


def test_a_base_and_deltas_are_published_and_answer_as_the_runs_own_evaluation(log, tmp_path, exported):  # noqa: F811
    with Reader(exported) as reader:
        assert trained(log, tmp_path, more=publishing(exported))
    assert not reader.errors and len(set(reader.versions)) == len(reader.versions) > 3
    assert published(exported)[0].endswith(".base") and any(name.endswith(".delta") for name in published(exported))
    run = tmp_path / "run"
    figures = json.loads((run / "metrics.json").read_text())
    assert evaluate_export(run, exported)["auc"] == pytest.approx(figures["auc"], abs=1e-6)
    np.testing.assert_allclose(answers(open_model(exported)), answers(engine.load(run)), atol=1e-6)
    table = rows_of(run)
    keys = np.asarray(table._native.read_rows(0, 256, 0, False)[0].numpy())
    paths = [exported / "rows" / name for name in published(exported)]
    served = TableSnapshot.open(paths[0], paths[1:])
    np.testing.assert_array_equal(served.lookup(keys), table.lookup(keys).numpy())
    assert served.missed == 0
    said = (run / "log.txt").read_text()
    assert said.count("published as") >= len(published(exported))


@pytest.mark.slow
def test_shards_killed_while_publishing_leave_whole_publications_and_new_ones_follow(
    log,  # noqa: F811
    tmp_path,
    exported,
):
    def kill():
        for _ in range(2):
            before = reader.versions[-1]
            until(lambda before=before: reader.versions[-1] != before or over.is_set(), 300)
            there = children()["shard"]
            if there and not over.is_set():
                os.kill(there[0][0], signal.SIGKILL)
                killed.append(there[0][0])

    killed, over = [], threading.Event()
    with Reader(exported) as reader:
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        assert trained(log, tmp_path, more=publishing(exported, every=0.02) | {"runtime.epochs": 5})
        over.set()
        killer.join()
    assert len(killed) > 0 and not reader.errors
    bases = {files[0] for files in reader.seen}
    assert len(bases) >= 2  # a shard that was started anew has no cut to follow
    np.testing.assert_allclose(answers(open_model(exported)), answers(engine.load(tmp_path / "run")), atol=1e-6)


def test_a_run_that_is_continued_publishes_on_and_no_version_comes_twice(log, tmp_path, exported):  # noqa: F811
    def stop():
        until(lambda: len(reader.seen) >= 3)
        os.kill(os.getpid(), signal.SIGTERM)

    more = publishing(exported) | {"runtime.epochs": 6}
    with Reader(exported) as reader:
        stopping = threading.Thread(target=stop)
        stopping.start()
        assert trained(log, tmp_path, more=more) is False
        stopping.join()
        last = published(exported)  # what was learned until the stop
        time.sleep(0.05)
        assert reader.seen[-1] == last
        assert trained(log, tmp_path, resume=True, more=more | {"cluster.shards": 3})
    assert not reader.errors and len(set(reader.versions)) == len(reader.versions)
    assert published(exported)[0] != last[0]  # begins with a whole one
    np.testing.assert_allclose(answers(open_model(exported)), answers(engine.load(tmp_path / "run")), atol=1e-6)


def test_the_end_of_a_run_is_published_with_the_items_of_the_shards_rows(tmp_path):
    retrieval(tmp_path, MODELS[0], "first", runtime={"steps": 2, "epochs": None, "workers": 0, "threads": 1})
    to = tmp_path / "exported"
    export_run(tmp_path / "first", to)
    before = (to / "rows" / LIST).read_text()
    more = [
        f"publish={json.dumps({'to': str(to), 'every': 1000})}",
        "runtime.epochs=3",
        "runtime.steps=null",
        "cluster.trainers=1",
    ]
    assert train_on_cluster(tmp_path / "config.yml", more, address="processes", runs=tmp_path, name="run")
    task = open_run(tmp_path / "run")
    _, vectors = task.item_vectors()
    batch = task.processor().prepare([{"liked": "i3|i4"}])
    (user,) = predict_of(task)({name: batch[name] for name in task.eval_inputs})["users"]
    (found,) = retrieved(open_model(to), {"liked": "i3|i4", "find": {"k": 12}})
    np.testing.assert_allclose([each["score"] for each in found["items"]], np.sort(vectors @ user)[::-1], atol=1e-5)
    assert (to / "rows" / LIST).read_text() != before


def test_a_folder_without_an_export_is_refused_before_anything_starts(log, tmp_path):  # noqa: F811
    with pytest.raises(CheckpointError, match="holds no exported model; run `paddock export` first"):
        trained(log, tmp_path, more=publishing(tmp_path / "nowhere"))
    assert not any(children().values())


def test_a_publication_that_cannot_be_written_is_told_and_the_run_goes_on(log, tmp_path, exported):  # noqa: F811
    before = published(exported)
    (exported / "rows" / ".new").mkdir()  # as a full disk: the file cannot be placed
    (exported / "rows" / ".new" / "x").touch()
    assert trained(log, tmp_path, more=publishing(exported) | {"runtime.epochs": 2})
    assert published(exported) == before
    assert "publish:" in (tmp_path / "run" / "log.txt").read_text()
