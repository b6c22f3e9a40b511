"""Logs that are streamed give the batches and the training of logs in memory, and go on where a run was stopped."""

import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from framework.data.logs import LogReader
from framework.errors import ConfigError, DataError
from suites.ctr.datasets import ClickLog, Columns, LogPasses, LogStream
from suites.ctr.schema import schema_of
from suites.ctr.schema.compiled import compiled
from suites.ctr.schema.signs import missing_sign, signs_of
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import open_run
from suites.engine.train.training import train
from tests.suites.ctr.helpers import SCHEMA, columns, schema, write_csv


def batches_of(log, size=64):
    return [log.batch(np.arange(i, min(i + size, len(log)))) for i in range(0, len(log), size)]


def assert_same(found, wanted):
    """To the bit; dense features to the last place but one: the log in memory rounds to float32 first."""
    assert len(found) == len(wanted) > 1
    for one, other in zip(found, wanted, strict=True):
        assert set(one) == set(other)
        for name, array in other.items():
            assert one[name].dtype == array.dtype, name
            if name == "dense":
                np.testing.assert_allclose(one[name], array, rtol=3e-7, atol=3e-7)
            else:
                np.testing.assert_array_equal(one[name], array, err_msg=name)


def test_a_stream_gives_the_batches_of_the_log_in_memory(tmp_path):
    write_csv(tmp_path / "log.csv")
    memory = ClickLog(schema(), str(tmp_path / "log.csv"), [])
    stream = LogStream(schema(), str(tmp_path), ["log.csv"])
    learned, other = stream.learn(), memory.learn()
    for name, feature in other.features.items():
        if hasattr(feature, "center"):
            assert learned.features[name].center == pytest.approx(feature.center, rel=1e-6)
            assert learned.features[name].scale == pytest.approx(feature.scale, rel=1e-6)
    stream.follow(other)
    with stream.loader(64) as loader:
        assert_same(list(loader), batches_of(memory))
    assert stream.examples == memory.examples and stream.name_of(0).endswith("log.csv: row 1")


def test_quotes_spaces_missing_values_and_pairs_of_sequences(tmp_path):
    text = 'y;a;items;kinds\n4 ; "x;1" ;i1|i2|;k1||k3\n3;?;;\n5;"a ""b""";i9;?k\n1; ;i1|i2|i3|i4;k1|k2|k3|k4\n'
    (tmp_path / "log.csv").write_text(text.replace('; "x', ';"x'))
    declared = schema_of(
        {
            "format": {"delimiter": ";", "strip": True, "missing": ["?"]},
            "features": {
                "kinds": {"type": "Sequence", "along": "items", "max_length": 3},
                "a": {"type": "Sparse"},
                "items": {"type": "Sequence", "max_length": 3},
            },
            "labels": {"y": {"at_least": 4}},
        }
    )
    memory = ClickLog(declared, str(tmp_path / "log.csv"), [])
    with LogReader(tmp_path / "log.csv", compiled(declared, ["y", "a", "items", "kinds"]), 3) as loader:
        assert_same(list(loader), batches_of(memory, 3))


BUCKETS = {
    "format": {"missing": ["0", "?"]},
    "features": {
        "a": {"type": "Sparse", "bucket": "log_square"},
        "b": {"type": "Sparse"},
        "both": {"type": "Crossed", "of": ["a", "b"]},
    },
    "labels": {"y": {}},
}


def test_buckets_of_numbers_are_those_of_the_log_in_memory(tmp_path):
    """0.5 has the bucket 0 and is not missing, as the text "0" is here; 1e300 has the bucket floor(690.8^2)."""
    numbers = ["-3", "-0.5", "0", "0.5", "", "?", "1", "2", "2.0001", "3", "7.39", "1000", "1e300", "-8e15", "5e-324"]
    lines = [f"1,{number},{'xy'[i % 2]}" for i, number in enumerate(numbers)]
    (tmp_path / "log.csv").write_text("\n".join(["y,a,b", *lines]) + "\n")
    declared = schema_of(BUCKETS)
    memory = ClickLog(declared, str(tmp_path / "log.csv"), [])
    with LogStream(declared, str(tmp_path), ["log.csv"]).loader(8) as loader:
        assert_same(list(loader), batches_of(memory, 8))
    found = memory.clicks.sparse[:, 0]
    wanted = ["-3", "-1", None, "0", None, None, "1", "2", "0", "1", "4", "47", "477170", "-8000000000000000", "0"]
    assert found.tolist() == [missing_sign(1) if t is None else signs_of([t.encode()], 1)[0] for t in wanted]


@pytest.mark.parametrize("text", ["many", "nan", "inf", "-9e15", "1e999", "1_0"])
def test_a_text_without_a_bucket_makes_a_bad_row(tmp_path, text):
    (tmp_path / "log.csv").write_text(f"y,a,b\n1,5,x\n1,{text},x\n")
    declared = schema_of(BUCKETS)
    with pytest.raises(DataError, match=rf"log\.csv:3: 'a' is '{text}', which is no number that has a bucket"):
        ClickLog(declared, str(tmp_path / "log.csv"), [], max_skipped=0)
    assert len(ClickLog(declared, str(tmp_path / "log.csv"), [], max_skipped=0.5)) == 1
    with (
        LogStream(declared, str(tmp_path), ["log.csv"]).loader(8) as loader,
        pytest.raises(DataError, match=rf"log\.csv:3: 'a' is '{text}'"),
    ):
        list(loader)


def test_values_over_several_lines_and_files_in_a_zip(tmp_path):
    text = "y,a\n" + "".join(f'{i % 2},"{i}, or\nso{i % 3}"\n' for i in range(100))
    with zipfile.ZipFile(tmp_path / "logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("day.csv", text)
    (tmp_path / "day.csv").write_text(text)
    declared = schema_of({"format": {"newlines": True}, "features": {"a": {"type": "Sparse"}}, "labels": {"y": {}}})
    memory = ClickLog(declared, str(tmp_path / "logs.zip"), ["day.csv"])
    for root in (tmp_path, tmp_path / "logs.zip"):
        stream = LogStream(declared, str(root), ["day.csv"], block_bytes=100)
        with stream.loader(9) as loader:
            assert_same(list(loader), batches_of(memory, 9))
        assert stream.examples[1] == {"y": "1", "a": "1, or\nso1"} == memory.examples[1]
    plain = replace(declared, format=replace(declared.format, newlines=False))
    with (
        LogStream(plain, str(tmp_path), ["day.csv"]).loader(9) as loader,
        pytest.raises(DataError, match="newlines: true"),
    ):
        list(loader)


def test_the_real_pieces(tmp_path, shared_data):
    with zipfile.ZipFile(shared_data("ctr/criteo_small/criteo_small.zip")) as archive:
        name = next(n for n in archive.namelist() if n.endswith("dev.tsv"))
        (tmp_path / "dev.tsv").write_bytes(archive.read(name))
    config = read_config(Path("configs/ctr/deepfm_criteo.yml"))
    declared = schema_of(config.as_dict()["data"]["schema"])
    memory = ClickLog(declared, str(tmp_path), ["dev.tsv"])
    memory.follow(declared)
    stream = LogStream(declared, str(tmp_path), ["dev.tsv"])
    assert_same(list(stream.loader(100)), batches_of(memory, 100))


def test_a_schema_that_cannot_be_streamed_says_why(tmp_path):
    write_csv(tmp_path / "log.csv")
    features = SCHEMA["features"]
    for changed, said in [
        ({"price": {"type": "Sparse", "column": "prise"}}, "the log has no column 'prise'; did you mean 'price'"),
        ({}, "price: has no center and scale yet"),
    ]:
        stream = LogStream(schema(features={**features, **changed}), str(tmp_path), ["log.csv"])
        with pytest.raises(ConfigError, match=said):
            stream.loader(10)
    with pytest.raises(DataError, match="no file matches"):
        LogStream(schema(), str(tmp_path), ["*.tsv"])
    with pytest.raises(ConfigError, match="files is empty"):
        LogStream(schema(), str(tmp_path), [])


@pytest.mark.parametrize("separator", ["|", "||", "、", " and "])
def test_values_parted_by_any_text_are_the_same_streamed_and_in_memory(tmp_path, separator):
    rows = [["b", "a", "c"], ["a"], [], ["c", "", "b"], ["|", "a|"]]
    lines = [f"{i % 2},{separator.join(row)}" for i, row in enumerate(rows)]
    (tmp_path / "log.csv").write_text("\n".join(["y,tags", *lines]) + "\n")
    feature = {"type": "MultiValued", "separator": separator}
    declared = schema_of({"features": {"tags": feature}, "labels": {"y": {}}})
    memory = ClickLog(declared, str(tmp_path), ["log.csv"])
    given = Columns(declared, {"tags": [separator.join(row) for row in rows], "y": [0, 1, 0, 1, 0]})
    lists = Columns(declared, {"tags": rows[:4], "y": [0, 1, 0, 1]})
    assert memory.batch(np.arange(5))["tags.offsets"].tolist() == [0, 3, 4, 4, 7, 9 if separator != "|" else 11]
    streamed = list(LogStream(declared, str(tmp_path), ["log.csv"]).loader(2))
    assert_same(streamed, batches_of(memory, 2))
    assert_same(batches_of(given, 2), batches_of(memory, 2))
    assert lists.clicks.ragged["tags"][0].tolist() == memory.clicks.ragged["tags"][0].tolist()[:7]


@pytest.fixture
def config(tmp_path):
    """A config file on a log in two files, one of them compressed, that is evaluated on in memory."""
    found = columns()
    half = [{name: values[a:b] for name, values in found.items()} for a, b in ((0, 400), (400, 600))]
    write_csv(tmp_path / "a.csv", half[0])
    data = write_csv(tmp_path / "b.csv", half[1]).read_bytes()
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.csv").unlink()
    (tmp_path / "test.csv").write_bytes(data)

    def write(dataset, **runtime):
        config = {
            "suite": "ctr",
            "model": {"type": "DeepFM", "dim": 4, "hidden": [8]},
            "data": {
                "schema": SCHEMA,
                "train": {"dataset": {"root": str(tmp_path), **dataset}, "batch_size": 32, "shuffle": False},
                "eval": {"dataset": {"type": "LogStream", "root": str(tmp_path), "files": ["test.csv"]}},
            },
            "optimizer": {"type": "Adam"},
            "schedule": {"type": "Constant", "base_lr": 0.01},
            "runtime": {"steps": 30, "workers": 0, "log_every": 5, **runtime},
        }
        (tmp_path / "config.yml").write_text(json.dumps(config))
        return tmp_path / "config.yml"

    return write


def numbers(folder):
    """All weights of a run's last checkpoint, and the rows of its table with their counters."""
    run = open_run(folder, folder / "weights" / "last.safetensors")
    table = run.model.table
    keys = np.unique(np.concatenate([batch["sparse"].ravel() for batch in loaded(folder)]))
    rows = {"rows": table.lookup(keys).numpy(), "counts": table.counts(keys)}
    return {name: t.numpy() for name, t in run.model.state_dict().items()} | rows


def loaded(folder):
    task = build_task(read_config(folder))
    return list(task.train_loader(seed=0, workers=0))


STREAM = {"type": "LogStream", "files": ["a.csv", "b.csv.gz"], "block_bytes": 1000}


def test_a_model_trains_on_a_stream_and_a_stopped_run_goes_on_to_the_same_bits(config, tmp_path):
    path = config(STREAM)
    train(path, runs=tmp_path, name="whole")
    train(path, ["runtime.steps=17"], runs=tmp_path, name="cut")
    cut = yaml.safe_load((tmp_path / "cut" / "config.yml").read_text())
    cut["runtime"]["steps"] = 30
    (tmp_path / "cut" / "config.yml").write_text(yaml.safe_dump(cut, sort_keys=False))
    train(tmp_path / "cut", resume=True)
    whole, parts = numbers(tmp_path / "whole"), numbers(tmp_path / "cut")
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, err_msg=name)
    assert "auc" in (tmp_path / "whole" / "metrics.json").read_text()


def test_each_pass_of_a_stream_ends_with_its_figures_and_evicts_what_was_not_seen(config, tmp_path):
    more = ["table.eviction={most_unseen: 0}", "progressive.window=0", "runtime.steps=43"]
    train(config(STREAM), more, runs=tmp_path, name="run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "progressive.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["pass"], line["step"], line["rows"]) for line in lines] == [
        ("pass", 0, 19, 600),  # 18 batches of 32 and one of 24
        ("pass", 1, 38, 600),
    ]
    assert lines[1]["auc"] > lines[0]["auc"]
    log = (tmp_path / "run" / "log.txt").read_text()
    assert log.count("rows left the table") == 2 and "end of pass 1" in log


@pytest.mark.parametrize("step", [18, 19, 20])
def test_a_run_that_is_stopped_where_a_pass_ends_says_the_same(config, tmp_path, step):
    more = ["table.eviction={most_unseen: 0}", "progressive.window=0"]
    train(config(STREAM), more, runs=tmp_path, name="whole")
    train(config(STREAM), [*more, f"runtime.steps={step}"], runs=tmp_path, name="cut")
    cut = yaml.safe_load((tmp_path / "cut" / "config.yml").read_text())
    cut["runtime"]["steps"] = 30
    (tmp_path / "cut" / "config.yml").write_text(yaml.safe_dump(cut, sort_keys=False))
    train(tmp_path / "cut", resume=True)
    lines = [(tmp_path / name / "progressive.jsonl").read_text() for name in ("whole", "cut")]
    assert lines[0] == lines[1] and '"pass": 0' in lines[0]
    whole, parts = numbers(tmp_path / "whole"), numbers(tmp_path / "cut")
    for name, array in whole.items():
        np.testing.assert_array_equal(parts[name], array, err_msg=name)


def test_a_model_trains_on_passes_that_keep_coming(config, tmp_path):
    for k, name in enumerate(("a.csv", "b.csv.gz")):
        folder = tmp_path / "logs" / "20261122" / f"09{5 * k:02d}"
        folder.mkdir(parents=True)
        (tmp_path / name).rename(folder / name)
        (folder / "_SUCCESS").touch()
    dataset = {"type": "LogPasses", "root": str(tmp_path / "logs"), "every": 5, "wait_seconds": 0.05}
    train(config(dataset, steps=20), runs=tmp_path, name="run")  # 400 rows are 13 batches, 200 are 7
    lines = [json.loads(line) for line in (tmp_path / "run" / "progressive.jsonl").read_text().splitlines()]
    assert [(line["pass"], line["step"], line["rows"]) for line in lines if line["kind"] == "pass"] == [
        (0, 13, 400),
        (1, 20, 200),
    ]
    with pytest.raises(DataError, match=r"no pass after 20261122/0905 in 0\.05 s"):
        train(config(dataset, steps=21), runs=tmp_path, name="again")
    assert LogPasses(schema(), str(tmp_path / "logs")).examples[0]["user"].startswith("u")
    ending = {**dataset, "end": "20261122/0905"}
    train(config(ending, steps=1000), runs=tmp_path, name="ended")  # evaluated and saved as at the last step
    assert json.loads((tmp_path / "ended" / "metrics.json").read_text())["auc"] > 0
    assert "stopped early at step 20: the log has ended" in (tmp_path / "ended" / "log.txt").read_text()
    train(tmp_path / "ended", resume=True)
