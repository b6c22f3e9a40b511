"""The task from a config to a run that is resumed, evaluated and asked for predictions."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from framework import optim
from framework.errors import CheckpointError, ConfigError, DataError
from suites import ctr, engine
from suites.ctr.metrics import log_loss
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.inference import open_model, open_run
from suites.engine.train.training import evaluate_weights, train
from tests.suites.ctr.helpers import SCHEMA, columns, schema, write_csv

MODELS = {
    "LR": {},
    "FM": {"dim": 4},
    "FFM": {"dim": 2},
    "DNN": {"dim": 4, "hidden": [8]},
    "WideDeep": {"dim": 4, "hidden": [8]},
    "DeepFM": {"dim": 4, "hidden": [8]},
    "DCN": {"dim": 4, "hidden": [8]},
    "DCNv2": {"dim": 4, "hidden": [8]},
    "XDeepFM": {"dim": 4, "cin": [4, 4], "hidden": [8]},
    "AutoInt": {"dim": 4, "layers": 1, "size": 4},
    "DIN": {"dim": 4, "attention": [8], "hidden": [8]},
    "DIEN": {"dim": 4, "hidden": [8]},
    "MMoE": {"dim": 4, "expert_hidden": [8]},
}


@pytest.fixture
def folder(tmp_path):
    """A working folder with a log and a config on it."""
    write_csv(tmp_path / "log.csv")
    log = {"type": "ClickLog", "root": "${data.root}", "files": []}
    config = {
        "suite": "ctr",
        "model": {"type": "DeepFM", **MODELS["DeepFM"]},
        "data": {
            "root": str(tmp_path / "log.csv"),
            "schema": SCHEMA,
            "train": {"dataset": {**log, "split": "train"}, "batch_size": 32},
            "eval": {"dataset": {**log, "split": "val"}, "batch_size": 50},
            "more_eval": {"test": {"dataset": {**log, "split": "test"}}},
        },
        "progressive": {"window": 100},
        "optimizer": {"type": "Adam"},
        "schedule": {"type": "Constant", "base_lr": 0.01},
        "runtime": {"epochs": 2, "workers": 0, "log_every": 5, "evaluation": {"pictures": 2}},
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))
    return tmp_path


def run(folder, *overrides, name="run", **options):
    return train(folder / "config.yml", overrides, runs=folder, name=name, **options)


def rows_of(run: Path):
    """All rows of the run's last checkpoint by key, with the optimizer's state and counters."""
    table = open_run(run).model.table
    keys = np.concatenate([c.sparse.ravel() for c in [clicks(run)]])
    return table.lookup(keys).numpy(), table.counts(keys)


def clicks(run):
    task = build_task(read_config(run))
    return task._train_set.clicks


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_the_law_of_a_log(folder, model):
    labels = {"click": {}, "again": {"column": "click"}} if model == "MMoE" else {"click": {}}
    loop = run(
        folder,
        f"model={json.dumps({'type': model, **MODELS[model]})}",
        f"data.schema.labels={json.dumps(labels)}",
        "runtime.epochs=6",
        "schedule.base_lr=0.03",
    )
    figures = json.loads((folder / "run" / "metrics.json").read_text())
    assert loop.step == 6 * 15 and figures["auc"] > 0.6  # the law itself has 0.81
    assert {"log_loss", "copc", "bucket_error", "gauc", "test/auc"} <= figures.keys()


def test_a_run_that_was_stopped_continues_to_the_same_bits(folder):
    run(folder, name="whole")
    run(folder, "runtime.steps=17", "runtime.epochs=null", name="cut")
    cut = yaml.safe_load((folder / "cut" / "config.yml").read_text())
    cut["runtime"] |= {"steps": None, "epochs": 2}
    (folder / "cut" / "config.yml").write_text(yaml.safe_dump(cut, sort_keys=False))
    train(folder / "cut", resume=True)
    a, b = rows_of(folder / "whole"), rows_of(folder / "cut")
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(a[1], b[1])
    whole, again = (
        open_run(folder / name, folder / name / "weights" / "last.safetensors") for name in ("whole", "cut")
    )
    for name, t in whole.model.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), again.model.state_dict()[name].numpy())
    lines = [(folder / name / "progressive.jsonl").read_text() for name in ("whole", "cut")]
    assert lines[0] == lines[1]
    assert all(
        (folder / name / "weights/step_00000030/resources/signs/chain.json").is_file() for name in ("whole", "cut")
    )


def test_best_weights_come_with_the_rows_of_their_step(folder):
    run(folder, "runtime.epochs=4")
    figures = json.loads((folder / "run" / "metrics.json").read_text())
    best = evaluate_weights(folder / "run")
    last = evaluate_weights(folder / "run", weights=folder / "run" / "weights" / "last.safetensors")
    assert best["auc"] >= last["auc"] == pytest.approx(figures["auc"], abs=1e-12)
    assert len([p for p in (folder / "run" / "weights").iterdir() if p.name.startswith("best.")]) == 2


def test_a_run_may_start_from_weights_and_rows_of_another(folder):
    run(folder, "runtime.epochs=4")
    best = folder / "run" / "weights" / "best.safetensors"
    before = evaluate_weights(folder / "run")
    run(folder, f"runtime.weights={best}", "runtime.epochs=1", "schedule.base_lr=1.0e-9", name="next")
    assert evaluate_weights(folder / "next")["log_loss"] == pytest.approx(before["log_loss"], abs=1e-6)
    assert "rows of the table 'signs'" in (folder / "next" / "log.txt").read_text()


def test_weights_without_their_rows_are_refused(folder):
    run(folder, "runtime.epochs=1")
    weights = folder / "run" / "weights"
    (folder / "alone.safetensors").write_bytes((weights / "best.safetensors").read_bytes())
    with pytest.raises(
        CheckpointError, match=r"alone.safetensors: the model's 'signs' does not lie beside it \(.* is not there\)"
    ):
        open_run(folder / "run", folder / "alone.safetensors")


def test_progressive_figures_are_of_predictions_before_their_rows(folder):
    run(folder, "runtime.epochs=1", "data.train.batch_size=50")
    lines = [json.loads(line) for line in (folder / "run" / "progressive.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["step"], line["rows"]) for line in lines] == [
        ("window", 2, 100), ("window", 4, 100), ("window", 6, 100), ("window", 8, 100), ("pass", 9, 450),
    ]  # fmt: skip


def test_the_first_step_shows_what_the_untrained_model_says(folder):
    run(folder, "runtime.epochs=1", "data.train.batch_size=480")
    (line,) = [json.loads(line) for line in (folder / "run" / "progressive.jsonl").read_text().splitlines()][:1]
    task = build_task(read_config(folder / "config.yml"))
    batch = task._train_set.batch(np.arange(480))
    scores = predict_of(task)({name: batch[name] for name in task.eval_inputs})["scores"][:, 0]
    # Vectors that begin at 0.01 where training looks, and read as 0 where evaluation does, move a logit by some 1e-3.
    assert line["log_loss"] == pytest.approx(log_loss(scores, batch["labels"][:, 0]), abs=1e-3)


def test_rows_that_are_seldom_may_be_left_out_and_leave_again(folder):
    run(folder, "table={admission: {type: ByCount, threshold: 3}, eviction: {most_unseen: 0}}", "runtime.epochs=1")
    text = (folder / "run" / "log.txt").read_text()
    assert "rows left the table" in text


def test_a_run_predicts_on_a_file_and_on_objects(folder):
    run(folder)
    model = open_model(folder / "run")
    (folder / "new.csv").write_text("user,item,tags,liked,price\nu1,i1,t1,i3|i5,2.5\nu1,never seen,,,\n")
    found = model(str(folder / "new.csv"))
    assert [set(each.to_json()) for each in found] == [{"click"}] * 2
    assert all(0 < each.value["click"] < 1 for each in found)
    (same,) = model({"user": "u1", "item": "i1", "tags": ["t1"], "liked": ["i3", "i5"], "price": 2.5})
    assert same.value == found[0].value
    assert found[0].draw().startswith("user=u1, item=i1, tags=t1, liked=i3|i5, ...: click 0.")


def test_requests_that_do_not_fit_are_refused_with_one_clear_error(folder):
    run(folder, "runtime.epochs=1")
    processor = open_model(folder / "run").processor
    with pytest.raises(DataError, match="there is no column 'itm'; the model reads user, item, tags, liked, price"):
        processor.from_json({"itm": "i1"})
    with pytest.raises(DataError, match="row 0: 'price' is 'cheap', which is no finite number"):
        processor.prepare([processor.from_json({"price": "cheap"})])
    assert processor.prepare([processor.from_json(processor.example())])["sparse"].shape == (1, 3)


def test_another_schema_than_the_runs_is_refused(folder):
    run(folder, "runtime.epochs=1")
    with pytest.raises(ConfigError, match=r"data\.schema: it declares other features, slots or labels than the run"):
        evaluate_weights(folder / "run", ["data.schema.features.user.slot=9"])


@pytest.mark.parametrize("setting", ["accumulate=2", "ema={decay: 0.9}", "precision=bfloat16"])
def test_settings_that_rows_do_not_have_are_refused(folder, setting):
    name = setting.partition("=")[0]
    with pytest.raises(ConfigError, match=f"runtime.{name}: rows of a table do not have it; leave it at its default"):
        run(folder, f"runtime.{setting}")


def test_objects_train_as_a_config_does(tmp_path):
    log = engine.Factory.of(ctr.Columns, columns=columns())
    task = ctr.CtrTask(
        model=engine.Factory.of(ctr.FM, dim=4),
        schema=schema(),
        train=ctr.TrainData(dataset=log, batch_size=64),
        eval=ctr.EvalData(dataset=log),
    )
    schedule = partial(optim.Constant, base_lr=0.05)
    trainer = engine.Trainer(task, optimizer=optim.Adam, schedule=schedule, epochs=5, workers=0)
    trainer.fit(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["auc"] > 0.7


def test_a_program_has_the_bits_of_eager_execution(folder):
    run(folder, "runtime.epochs=1", "runtime.clip_norm=0.1")
    run(folder, "runtime.epochs=1", "runtime.clip_norm=0.1", "runtime.eager=true", name="eager")
    a, b = rows_of(folder / "run"), rows_of(folder / "eager")
    np.testing.assert_allclose(a[0], b[0], rtol=0, atol=1e-6)


def test_shows_and_clicks_are_counted_for_every_sign_of_a_row(folder):
    run(folder, "runtime.epochs=1")
    task = build_task(read_config(folder / "run"))
    held = task._train_set.clicks  # 480 rows, 15 whole batches
    table = open_run(folder / "run", folder / "run" / "weights" / "last.safetensors").model.table
    clicked = held.labels[:, 0]
    values, offsets = held.ragged["tags"]
    for signs, click in ((held.sparse[:, 0], clicked), (values, np.repeat(clicked, np.diff(offsets)))):
        keys, places = np.unique(signs, return_inverse=True)
        counts = table.counts(keys)
        np.testing.assert_array_equal(counts[:, 0], np.bincount(places))
        np.testing.assert_array_equal(counts[:, 1], np.bincount(places, click))


def test_a_division_at_random_of_a_log_with_times_is_noted_in_the_runs_log(folder):
    train(folder / "config.yml", ["runtime.epochs=1"], runs=folder, name="run")
    log = (folder / "run" / "log.txt").read_text()
    assert "of the training rows are later than the first evaluation row" in log
