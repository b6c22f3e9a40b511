"""Retrieval: figures against plain loops, a run that finds the next item, a server that is asked for it."""

import json

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from suites import ctr, engine
from suites.ctr.retrieval.scores import RetrievalScores
from suites.ctr.schema import schema_of
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import export_run, open_model, open_run
from suites.engine.predict.items import predict_items
from suites.engine.train.training import train
from tests.suites.ctr.helpers import columns, schema, write_csv

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


def sessions(rows=1500):
    """The next item is the one after the last: i3 after i2."""
    lengths, last = RNG.integers(1, 5, rows), RNG.integers(0, 12, rows)
    liked = ["|".join(f"i{(end - k) % 12}" for k in reversed(range(n))) for end, n in zip(last, lengths, strict=True)]
    return {"item": [f"i{(end + 1) % 12}" for end in last], "liked": liked, "click": ["1"] * rows}


MODELS = [{"type": "GRU4Rec", "dim": 16}, {"type": "SSR", "dim": 16, "hidden": 16}]


def run(folder, model, name="run", **more):
    """A run on sessions."""
    write_csv(folder / "log.csv", sessions())
    features = {"item": {"type": "Sparse"}, "liked": {"type": "Sequence", "vocabulary": "item", "max_length": 4}}
    log = {"type": "ClickLog", "root": str(folder / "log.csv"), "files": []}
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
        # One evaluation, at the end: recall@20 of 12 items is 1 from the first one on, so that would be the best.
        "runtime": {"epochs": 6, "workers": 0, "evaluation": {"every": 0}},
        **more,
    }
    (folder / "config.yml").write_text(json.dumps(config))
    train(folder / "config.yml", runs=folder, name=name)


@pytest.mark.parametrize("model", MODELS)
def test_a_run_learns_which_item_comes_next_and_keeps_its_catalogue(tmp_path, model):
    run(tmp_path, model)
    figures = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert figures["mrr@20"] > 0.9 and figures["known"] == 1.0
    (tmp_path / "log.csv").unlink()
    task = open_run(tmp_path / "run")  # the catalogue is the run's, not the log's
    assert task.catalogue == sorted(f"i{i}" for i in range(12))
    batch = task.processor().prepare([{"liked": "i3|i4"}])
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
        ctr.RetrievalTask(model=engine.Factory.of(ctr.GRU4Rec), schema=schema)


ITEMS = {"item": {"type": "Sparse"}, "liked": {"type": "Sequence", "vocabulary": "item"}}


@pytest.mark.parametrize(
    ("made", "task", "other"), [("GRU4Rec", "CtrTask", "RetrievalTask"), ("LR", "RetrievalTask", "CtrTask")]
)
def test_a_task_says_which_one_trains_a_model_that_it_does_not(made, task, other):
    schema = schema_of({"features": ITEMS, "labels": {"click": {}}})
    with pytest.raises(ConfigError, match=rf"{task}: a {made} is trained by {other}"):
        getattr(ctr, task)(model=engine.Factory.of(getattr(ctr, made)), schema=schema)


@pytest.mark.parametrize("made", [ctr.GRU4Rec, ctr.DIN])
def test_a_task_is_written_as_a_config_that_builds_a_task_of_its_class(made):
    schema = schema_of({"features": ITEMS, "labels": {"click": {}}})
    log = engine.Factory.of(ctr.ClickLog, root="log.csv", files=[])
    task = (ctr.RetrievalTask if made is ctr.GRU4Rec else ctr.CtrTask)(
        model=engine.Factory.of(made, dim=4), schema=schema, train=ctr.TrainData(dataset=log)
    )
    config = task.to_config()
    assert config["suite"] == "ctr" and config["model"]["type"] == made.__name__


def answers(model, *values):
    processor = model.processor
    return predict_items(processor, model.inputs, model.predict, [processor.from_json(value) for value in values])


@pytest.mark.parametrize("model", MODELS)
def test_an_export_answers_with_the_best_items_as_exact_scores_rank_them(tmp_path, model):
    run(tmp_path, model)
    export_run(tmp_path / "run", tmp_path / "exported")
    task = open_run(tmp_path / "run")
    _, vectors = task.item_vectors()
    served = open_model(tmp_path / "exported")
    row = {"liked": ["i3", "i4"]}
    batch = task.processor().prepare([row])
    (user,) = predict_of(task)({name: batch[name] for name in task.eval_inputs})["users"]
    best = [task.catalogue[i] for i in np.argsort(-(vectors @ user), kind="stable")]
    all_, unseen, allowed, plain = answers(
        served,
        {**row, "find": {"k": 12}},
        {**row, "find": {"k": 3, "exclude_seen": True, "exclude": [best[0]]}},
        {"liked": "i3|i4", "find": {"allow": ["i9", "i2", "i99"]}},
        {**row, "item": best[0]},
    )
    assert [each["item"] for each in all_["items"]] == best and best[0] == "i5"
    np.testing.assert_allclose([each["score"] for each in all_["items"]], np.sort(vectors @ user)[::-1], atol=1e-5)
    assert [each["item"] for each in unseen["items"]] == [b for b in best[1:] if b not in row["liked"]][:3]
    assert [each["item"] for each in allowed["items"]] == [b for b in best if b in ("i9", "i2")]
    assert allowed["unknown"] == ["i99"]
    assert plain["click"] == pytest.approx(1 / (1 + np.exp(-all_["items"][0]["score"])), abs=1e-5)
    assert served.feed.counters()["item_searches"].value == 3


def test_published_items_are_those_of_the_rows_and_the_network_published_with_them(tmp_path):
    run(tmp_path, MODELS[1])
    exported = tmp_path / "exported"
    export_run(tmp_path / "run", exported)
    served = open_model(exported)
    value = {"liked": "i3|i4", "find": {"k": 12}}
    before = answers(served, value)
    run(
        tmp_path, MODELS[1], "second", publish={"to": str(exported), "every": 0.05}, runtime={"epochs": 1, "workers": 0}
    )
    served.feed.newest.due = 0.0  # a second later
    (found,), (fresh,) = answers(served, value), answers(open_model(exported), value)
    assert found == fresh and [found] != before
    task = open_run(tmp_path / "second", tmp_path / "second" / "weights" / "last.safetensors")
    _, vectors = task.item_vectors()
    batch = task.processor().prepare([{"liked": "i3|i4"}])
    (user,) = predict_of(task)({name: batch[name] for name in task.eval_inputs})["users"]
    np.testing.assert_allclose([each["score"] for each in found["items"]], np.sort(vectors @ user)[::-1], atol=1e-5)
    assert len(list((exported / "rows").glob("*.items"))) <= 2
    (newest,) = (
        p for p in (exported / "rows").glob("*.items") if p.name in (exported / "rows" / "rows.json").read_text()
    )
    (newest / "items.json").write_text("{}")
    with pytest.raises(CheckpointError, match="the items cannot be read"):
        open_model(exported)


def test_a_run_that_would_publish_rows_without_the_network_of_its_items_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"publish\.dense: is false; items and users of one version need its network"):
        run(tmp_path, MODELS[0], publish={"to": "nowhere", "dense": False})


def test_a_server_is_asked_for_items_over_both_routes(tmp_path):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import toy
    from tests.suites.engine.serving.web.test_server import ask

    run(tmp_path, MODELS[0], runtime={"epochs": 1, "workers": 0})
    export_run(tmp_path / "run", tmp_path / "exported")
    values = [{"liked": [f"i{i}"], "find": {"k": 2 + i % 3, "exclude_seen": True}} for i in range(8)]
    with toy.running(open_model(tmp_path / "exported"), Settings(name="next")) as server:
        rows = json.loads(ask(server, "/v1/scores", {"input": values})[2])["data"]
        assert [len(row["result"]["items"]) for row in rows] == [2 + i % 3 for i in range(8)]
        assert all(f"i{i}" not in [e["item"] for e in row["result"]["items"]] for i, row in enumerate(rows))
        assert len({row["version"] for row in rows}) == 1
        texts = [json.dumps(value) for value in values]
        infer = {"inputs": [{"name": "items", "shape": [8], "datatype": "BYTES", "data": texts}]}
        answer = json.loads(ask(server, "/v2/models/next/infer", infer)[2])
        found = [json.loads(text) for text in answer["outputs"][0]["data"]]
        assert [[e["item"] for e in own["items"]] for own in found] == [
            [e["item"] for e in row["result"]["items"]] for row in rows
        ]
        assert answer["parameters"]["version"] == rows[0]["version"]
        values[3]["find"]["k"] = -1
        status, _, problem = ask(server, "/v1/scores", {"input": values})
        assert status == 400 and b"item 3: find.k: is -1; it is a whole number from 1 to 1000" in problem
        assert b"paddock_item_searches_total 16.0" in ask(server, "/metrics")[2]


def test_who_asks_a_run_or_a_model_of_rows_for_items_is_told_what_to_do(tmp_path):
    run(tmp_path, MODELS[0], runtime={"epochs": 1, "workers": 0})
    with pytest.raises(DataError, match="no items lie beside this model; export it anew with `paddock export`"):
        answers(open_model(tmp_path / "run"), {"liked": "i3", "find": {}})
    plain = ctr.CtrTask(model=engine.Factory.of(ctr.LR), schema=schema()).processor()
    with pytest.raises(DataError, match="find: this model scores rows and retrieves no items; leave it out"):
        plain.from_json({"item": "i3", "find": {"k": 3}})


@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_corrects_for_shares_learns_and_is_exported(tmp_path, model):
    run(tmp_path, {**model, "logq": True})
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["mrr@20"] > 0.9
    export_run(tmp_path / "run", tmp_path / "exported")
    (found,) = answers(open_model(tmp_path / "exported"), {"liked": "i3|i4", "find": {"k": 1}})
    assert found["items"][0]["item"] == "i5"


def test_the_shares_of_a_batch_are_those_of_the_training_log():
    data = ctr.Columns(schema(), {**columns(100)})
    data.count_shares(1)
    batch = data.batch(np.arange(10, 30))
    items = columns(100)["item"]
    expected = [np.log(items.count(items[i]) / 100) for i in range(10, 30)]
    np.testing.assert_allclose(batch["log_share"], expected, rtol=1e-6)
