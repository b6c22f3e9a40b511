"""Retrieval: figures against plain loops, the index against the exact answer, a run that finds the next item."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError, ConfigError
from suites import ctr, engine
from suites.ctr.retrieval import ItemIndex, RetrievalScores
from suites.ctr.schema import schema_of
from suites.engine.inference import open_run
from suites.engine.training import train
from tests.suites.ctr.helpers import write_csv

RNG = np.random.default_rng(0)


def test_recall_and_mean_reciprocal_rank_are_over_the_whole_catalogue():
    signs, vectors, users = np.array([7, -3, 12, 5]), RNG.normal(size=(4, 3)), RNG.normal(size=(40, 3))
    items = RNG.choice([7, -3, 12, 5, 99], 40)
    labels = (RNG.random((40, 1)) < 0.7).astype(np.float32)
    metric = RetrievalScores(signs, vectors, item=1, k=2)
    for part in (slice(15), slice(15, None)):
        sparse = np.stack([np.zeros(40, np.int64), items], 1)[part]
        metric.update({"users": users[part]}, {"sparse": sparse, "labels": labels[part]})
    places = []
    for user, item in zip(users[labels[:, 0] == 1], items[labels[:, 0] == 1], strict=True):
        ranked = signs[np.argsort(-(vectors @ user))].tolist()
        places.append(ranked.index(item) + 1 if item in ranked else np.inf)
    found = metric.result()
    assert found["recall@2"] == pytest.approx(np.mean([p <= 2 for p in places]))
    assert found["mrr@2"] == pytest.approx(np.mean([1 / p if p <= 2 else 0 for p in places]))
    assert found["known"] == pytest.approx(np.mean(np.isfinite(places)))


def test_a_score_that_many_items_share_finds_none_of_them():
    metric = RetrievalScores(np.arange(50), np.zeros((50, 3)), item=0, k=20)
    metric.update({"users": RNG.normal(size=(9, 3))}, {"sparse": np.arange(9)[:, None], "labels": np.ones((9, 1))})
    assert metric.result()["recall@20"] == 0.0


def test_the_index_finds_nearly_what_the_exact_search_finds_and_can_be_kept(tmp_path):
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    names, vectors = [f"i{i}" for i in range(3000)], RNG.normal(size=(3000, 16)).astype(np.float32)
    users = RNG.normal(size=(50, 16)).astype(np.float32)
    built = ItemIndex.build(names, vectors)
    built.save(tmp_path / "index")
    index = ItemIndex.open(tmp_path / "index")
    hits = 0
    for user, found in zip(users, index.find(users, 10), strict=True):
        exact = [names[i] for i in np.argsort(-(vectors @ user))[:10]]
        hits += len({name for name, _ in found} & set(exact))
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert found[0][1] == pytest.approx(float(vectors[names.index(found[0][0])] @ user), rel=1e-5)
    assert hits / 500 > 0.95
    (tmp_path / "index" / "items.json").write_text("[]")
    with pytest.raises(CheckpointError, match="the index has 3000 items but 0 names; build it again"):
        ItemIndex.open(tmp_path / "index")
    with pytest.raises(AttributeValueError, match="k is 0; it must be 1 or more"):
        built.find(users, 0)


def sessions(rows=1500):
    """The next item is the one after the last: i3 after i2."""
    lengths, last = RNG.integers(1, 5, rows), RNG.integers(0, 12, rows)
    liked = ["|".join(f"i{(end - k) % 12}" for k in reversed(range(n))) for end, n in zip(last, lengths, strict=True)]
    return {"item": [f"i{(end + 1) % 12}" for end in last], "liked": liked, "click": ["1"] * rows}


@pytest.mark.parametrize("model", [{"type": "GRU4Rec", "dim": 16}, {"type": "SSR", "dim": 16, "hidden": 16}])
def test_a_run_learns_which_item_comes_next_and_keeps_its_catalogue(tmp_path, model):
    write_csv(tmp_path / "log.csv", sessions())
    features = {"item": {"type": "Sparse"}, "liked": {"type": "Sequence", "vocabulary": "item", "max_length": 4}}
    log = {"type": "ClickLog", "root": str(tmp_path / "log.csv"), "files": []}
    config = {
        "suite": "ctr",
        "model": model,
        "data": {
            "schema": {"features": features, "labels": {"click": {}}},
            "train": {"dataset": {**log, "split": "train"}, "batch_size": 64},
            "eval": {"dataset": {**log, "split": "val"}},
        },
        "table": {"init": {"type": "Normal", "scale": 0.3}},
        "optimizer": {"type": "Adam"},
        "schedule": {"type": "Constant", "base_lr": 0.02},
        "runtime": {"epochs": 6, "workers": 0},
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))
    train(tmp_path / "config.yml", runs=tmp_path, name="run")
    figures = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert figures["mrr@20"] > 0.9 and figures["known"] == 1.0
    (tmp_path / "log.csv").unlink()
    task = open_run(tmp_path / "run")  # the catalogue is the run's, not the log's
    assert task.catalogue == sorted(f"i{i}" for i in range(12))
    batch = task.processor().prepare([{"liked": "i3|i4"}])
    from suites.engine.evaluation import predict_of

    (user,) = predict_of(task)({name: batch[name] for name in task.eval_inputs})["users"]
    _, vectors = task.item_vectors()
    assert task.catalogue[int(np.argmax(vectors @ user))] == "i5"


@pytest.mark.parametrize(
    "features",
    [
        {"item": {"type": "Sparse"}},
        {"item": {"type": "MultiValued"}, "past": {"type": "Sequence", "vocabulary": "item"}},
    ],
)
def test_models_of_retrieval_say_what_they_need(features):
    schema = schema_of({"features": features, "labels": {"click": {}}})
    with pytest.raises(ConfigError, match="GRU4Rec: the first sequence of the schema must have the vocabulary of a"):
        ctr.CtrTask(model=engine.Factory.of(ctr.GRU4Rec), schema=schema)
