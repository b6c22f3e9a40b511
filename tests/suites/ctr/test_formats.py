"""Slot logs and Parquet in a config: in memory, streamed and served, the same signs; what is wrong is named."""

import gzip
import json
import zipfile

import numpy as np
import pytest
import yaml

from framework.errors import AttributeValueError, ConfigError, DataError
from suites import engine
from suites.ctr.datasets import ClickLog, LogStream, contents
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import read_schema, schema_of
from suites.engine.train.training import train

TOP = 2**64 - 1
SLOT = {
    "format": {"kind": "slot", "head": ["click"], "missing": ["999"]},
    "features": {
        "user": {"type": "Sparse", "column": "6"},
        "second": {"type": "Sparse", "column": "9", "place": 1},
        "age": {"type": "Dense", "column": "10", "transform": "log"},
        "pair": {"type": "Crossed", "of": ["user", "second"]},
        "tags": {"type": "MultiValued", "column": "7", "max_length": 3},
        "items": {"type": "Sequence", "column": "8", "max_length": 2},
    },
    "labels": {"click": {}},
}
LINES = (
    f"1 6:5 7:1 7:{TOP} 99:4 8:1 8:2 8:3 9:7 9:8 10:2.5",
    "0\t6:999 10:-1",
    "",
    f"1   6:{TOP} 7:999 7:4 7:5 7:6 9:1",
    "0",
)


def slot_log(tmp_path, lines=LINES, name="log.txt"):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    return str(tmp_path / name)


def assert_same(one, other):
    assert set(one) == set(other)
    for name, array in other.items():
        np.testing.assert_array_equal(one[name], array, err_msg=name)


def both(tmp_path, declared, name="log.txt"):
    """The batch of a file in memory, and that of the stream."""
    schema = schema_of(declared)
    memory = ClickLog(schema, str(tmp_path / name), [])
    memory.follow(schema)
    with LogStream(schema, str(tmp_path), [name]).loader(1000) as loader:
        (streamed,) = list(loader)
    return memory.batch(np.arange(len(memory))), streamed, memory


def test_a_slot_log_gives_the_same_batch_in_memory_and_streamed(tmp_path):
    slot_log(tmp_path)
    batch, streamed, memory = both(tmp_path, SLOT)
    assert_same(streamed, batch)
    assert batch["labels"].ravel().tolist() == [1, 0, 1, 0]
    assert batch["tags.offsets"].tolist() == [0, 2, 2, 5, 5] and batch["items.offsets"].tolist() == [0, 2, 2, 2, 2]
    assert len(set(batch["sparse"][:, 0].tolist())) == 3  # 5, 2^64 - 1 and twice "missing"
    slot_log(
        tmp_path, ["1\t5:a\u00a0b 6:7", "", "0  5:c\x0bd\t 6:8", "1 "], name="odd.txt"
    )  # signs with other white space
    odd, streamed, _ = both(tmp_path, SLOT, "odd.txt")
    assert_same(streamed, odd)
    assert len(odd["labels"]) == 3
    (tmp_path / "log.txt.gz").write_bytes(gzip.compress((tmp_path / "log.txt").read_bytes()))
    packed, streamed, _ = both(tmp_path, SLOT, "log.txt.gz")
    assert_same(packed, batch)
    assert_same(streamed, batch)
    assert memory.examples[0]["8"] == ["1", "2", "3"]
    assert LogStream(schema_of(SLOT), str(tmp_path), ["log.txt"]).examples == memory.examples


def test_elasticctrs_order_and_its_two_counts(tmp_path):
    slot_log(tmp_path, ["1 0 123:6 5:7 6:7", "3 1 4:7"])
    declared = {
        "format": {"kind": "slot", "head": ["show", "click"], "order": "sign:slot"},
        "features": {"6": {"type": "Sparse"}, "7": {"type": "MultiValued"}},
        "labels": {"click": {}},
        "weight": "show",
    }
    batch, streamed, _ = both(tmp_path, declared)
    assert_same(streamed, batch)
    assert batch["weight"].tolist() == [1, 3] and batch["7.offsets"].tolist() == [0, 2, 3]


def test_a_request_has_the_signs_of_its_line(tmp_path):
    slot_log(tmp_path)
    batch, _, memory = both(tmp_path, SLOT)
    processor = ClickProcessor.from_metadata(ClickProcessor(memory.schema).metadata())
    rows = [processor.from_json({"6": 5, "7": [1, TOP], "8": ["1", "2", "3"], "9": [7, 8], "10": 2.5}), {"10": "-1"}]
    made = processor.prepare(rows)
    for name in ("sparse", "dense"):
        np.testing.assert_array_equal(made[name], batch[name][:2], err_msg=name)
    np.testing.assert_array_equal(made["tags"], batch["tags"][:2])
    with pytest.raises(DataError, match="'6' is 'abc', which is no whole number below 2\\^64"):
        processor.prepare([processor.from_json({"6": "abc"})])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 6:5 6", r"'6' is no pair; expected slot:sign"),
        ("1 6:", r"'6:' is no pair"),
        ("6:5 7:1", r"has 0 values before its pairs; the head is click"),
        ("1 6:abc", r"'6' is 'abc', which is no whole number"),
        (f"1 6:{TOP + 1}", r"which is no whole number"),
        ("1 7:-3", r"'7' is '-3', which is no whole number"),
        ("1 6:1 6:2", r"'6' has 2 values, and the schema takes 1"),
        ("2 6:1", r"the label 'click' is '2'"),
        ("1 10:much", r"'age' is 'much', which is no finite number"),
    ],
)
def test_a_wrong_line_is_named_in_memory_and_streamed(tmp_path, line, said):
    slot_log(tmp_path, [*["1 6:5"] * 3, line])
    schema = schema_of(SLOT)
    with pytest.raises(DataError, match=rf"log\.txt:4: .*{said}"):
        ClickLog(schema, str(tmp_path / "log.txt"), [], max_skipped=0)
    assert len(ClickLog(schema, str(tmp_path / "log.txt"), [], max_skipped=0.5)) == 3
    with LogStream(schema, str(tmp_path), ["log.txt"]).loader(8) as loader, pytest.raises(DataError, match=r":4: "):
        list(loader)


@pytest.mark.parametrize(
    ("form", "features", "said"),
    [
        ({"kind": "slot", "delimiter": ";"}, {}, "are for delimited text; kind is slot"),
        ({"kind": "parquet", "head": ["a"]}, {}, "head and order are for slot logs; kind is parquet"),
        ({"kind": "slot", "head": ["a", "a"]}, {}, "each name may stand there once"),
        ({}, {"a": {"type": "Sparse", "place": 1}}, "'a' takes place 1"),
        ({"kind": "slot", "head": ["a"]}, {"a": {"type": "Dense", "place": 1}}, "'a' takes place 1"),
        ({"kind": "slots"}, {}, "slots"),
    ],
)
def test_a_form_that_cannot_be_is_one_error(form, features, said):
    declared = {"format": form, "features": features or {"a": {"type": "Sparse"}}, "labels": {"y": {}}}
    with pytest.raises((AttributeValueError, ConfigError), match=said):
        schema_of(declared)


def test_a_model_trains_on_a_slot_log_and_scores_a_line(tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 9, 400), rng.integers(1, 9, 400)
    clicks = (rng.random(400) < np.where(users == items, 0.9, 0.2)).astype(int)
    lines = [f"{c} 6:{u} 7:{i} 7:{i + 100}" for c, u, i in zip(clicks, users, items, strict=True)]
    slot_log(tmp_path, lines)
    features = {"6": {"type": "Sparse"}, "7": {"type": "MultiValued"}}
    schema = {"format": {"kind": "slot", "head": ["click"]}, "features": features, "labels": {"click": {}}}
    config = {
        "suite": "ctr",
        "model": {"type": "DeepFM", "dim": 8, "hidden": [16]},
        "data": {
            "schema": schema,
            "train": {"dataset": {"type": "LogStream", "root": str(tmp_path), "files": ["log.txt"]}, "batch_size": 40},
            "eval": {"dataset": {"type": "ClickLog", "root": str(tmp_path), "files": ["log.txt"]}},
        },
        "optimizer": {"type": "Adam"},
        "schedule": {"type": "Constant", "base_lr": 0.03},
        "runtime": {"steps": 200, "workers": 0},
    }
    (tmp_path / "config.yml").write_text(json.dumps(config))
    train(tmp_path / "config.yml", [], runs=tmp_path, name="run")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["auc"] > 0.8
    model = engine.load(tmp_path / "run")
    same, other = model([{"6": 3, "7": [3, 103]}, {"6": 3, "7": [4, 104]}])
    assert same.value["click"] > other.value["click"] + 0.2


def test_parquet_gives_the_batch_of_the_csv_of_the_same_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is not installed")
    table = pyarrow.table(
        {
            "click": [1, 0, 1],
            "user": pyarrow.array([7, None, 9]),
            "price": [0.5, 2.0, None],
            "tags": pyarrow.array([["a|b", "c"], [], ["a|b"]]),
        }
    )
    parquet.write_table(table, tmp_path / "log.parquet")
    declared = {
        "format": {"kind": "parquet"},
        "features": {
            "user": {"type": "Sparse"},
            "price": {"type": "Dense"},
            "tags": {"type": "MultiValued"},
        },
        "labels": {"click": {}},
    }
    batch, streamed, memory = both(tmp_path, declared, "log.parquet")
    assert_same(streamed, batch)
    assert batch["tags.offsets"].tolist() == [0, 2, 2, 3] and batch["tags"][0] == batch["tags"][2]
    assert memory.examples == LogStream(memory.schema, str(tmp_path), ["log.parquet"]).examples
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "log.parquet").read_bytes()[:-20])
    data = bytearray((tmp_path / "log.parquet").read_bytes())
    data[8:60] = b"\xff" * 52  # pages; the footer is whole
    (tmp_path / "damaged.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"damaged\.parquet: it cannot be read"):
        ClickLog(schema_of(declared), str(tmp_path / "damaged.parquet"), [])
    with pytest.raises(DataError, match=r"cut\.parquet: it is no whole Parquet file \((?!.*cut\.parquet: it)"):
        ClickLog(schema_of(declared), str(tmp_path / "cut.parquet"), [])


@pytest.mark.parametrize("order", ["slot:sign", "sign:slot"])
def test_a_guess_reads_the_slot_log_that_it_was_made_from(tmp_path, order):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(60):
        pairs = [("6", rng.integers(1000)), *(("7", rng.integers(1000)) for _ in range(rng.integers(3)))]
        turned = (f"{a}:{b}" if order == "slot:sign" else f"{b}:{a}" for a, b in pairs)
        lines.append(f"1 {rng.integers(2)} {' '.join(turned)}")
    (tmp_path / "log.txt.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    text = guess_schema(tmp_path / "log.txt.gz")
    (tmp_path / "schema.yml").write_text(text)
    schema = read_schema(tmp_path / "schema.yml")
    assert schema.format.order == order and schema.format.head == ("show", "click") and schema.weight == "show"
    assert {name: type(f).__name__ for name, f in schema.features.items()} == {"6": "Sparse", "7": "MultiValued"}
    assert len(ClickLog(schema, str(tmp_path / "log.txt.gz"), [])) == 60


def test_a_guess_reads_the_parquet_file_that_it_was_made_from(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the package pyarrow is not installed")
    rng = np.random.default_rng(0)
    table = {
        "click": rng.integers(0, 2, 60),
        "color": [f"c{i % 3}" for i in range(60)],
        "tags": [["a", "b"], ["a"]] * 30,
    }
    parquet.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    (tmp_path / "schema.yml").write_text(guess_schema(tmp_path / "log.parquet"))
    schema = read_schema(tmp_path / "schema.yml")
    assert {name: type(f).__name__ for name, f in schema.features.items()} == {"color": "Sparse", "tags": "MultiValued"}
    assert len(ClickLog(schema, str(tmp_path / "log.parquet"), [])) == 60


def test_compressed_and_growing_files_of_a_log_in_memory(tmp_path, monkeypatch):
    text = "y,a\n1,x\n0,y\n"
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text.encode()))
    schema = schema_of({"features": {"a": {"type": "Sparse"}}, "labels": {"y": {}}})
    assert len(ClickLog(schema, str(tmp_path), ["log.csv.gz"])) == 2
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(text.encode())[:-6])
    with pytest.raises(DataError, match=r"cut\.csv\.gz: it ends in the middle of its compressed data"):
        ClickLog(schema, str(tmp_path), ["cut.csv.gz"])
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.write(tmp_path / "log.csv.gz", "log.csv.gz")
    with pytest.raises(DataError, match="a compressed file in a zip is not read"):
        ClickLog(schema, str(tmp_path / "logs.zip"), ["log.csv.gz"])
    (tmp_path / "grows.csv").write_text(text)
    monkeypatch.setattr(contents, "read_file", lambda path, limit: text[:-2].encode())
    with pytest.raises(DataError, match=r"grows\.csv: it changed while it was read"):
        ClickLog(schema, str(tmp_path), ["grows.csv"])


def test_paddlerecs_slot_sample_trains_from_its_guess(tmp_path, shared_data):
    with zipfile.ZipFile(shared_data("ctr/paddlerec_slots/paddlerec_slots.zip")) as archive:
        archive.extract("criteo_slots_100.txt", tmp_path)
    declared = yaml.safe_load(guess_schema(tmp_path / "criteo_slots_100.txt"))
    assert declared["labels"] == {"click": {"column": "label"}} and len(declared["features"]) == 40
    declared["features"] |= {f"c{k}": {"type": "Sparse", "column": "feat_idx", "place": k} for k in range(13, 39)}
    del declared["features"]["feat_idx"]
    batch, streamed, memory = both(tmp_path, declared, "criteo_slots_100.txt")
    assert_same(streamed, batch)
    assert batch["sparse"].shape == (100, 26) and batch["dense"].shape == (100, 39) and len(memory) == 100


def test_behaviours_that_are_spread_over_columns(tmp_path, shared_data):
    with zipfile.ZipFile(shared_data("ctr/paddlerec_slots/paddlerec_slots.zip")) as archive:
        text = archive.read("alimama_dmr_sample.txt").decode()
    (tmp_path / "log.csv").write_text(text)
    width = len(text.split("\n", 1)[0].split(","))
    declared = {
        "format": {"header": False, "columns": [f"c{i}" for i in range(width)], "missing": ["0"]},
        "features": {
            "kinds": {"type": "Sequence", "column": "c0", "count": 50},
            "cats": {"type": "Sequence", "column": "c50", "count": 50, "vocabulary": "cat"},
            "cat": {"type": "Sparse", "column": "c150"},
        },
        "labels": {"click": {"column": f"c{width - 1}", "at_least": 1}},
    }
    declared["format"]["missing"] = ["none"]
    batch, streamed, memory = both(tmp_path, declared, "log.csv")
    assert_same(streamed, batch)
    assert batch["cats.offsets"][-1] == 50 * len(memory)
    declared["format"]["missing"] = ["0"]
    declared["labels"]["click"] = {"column": f"c{width - 1}", "positive": ["1"]}
    stream = LogStream(schema_of(declared), str(tmp_path), ["log.csv"])
    assert stream.examples[0]["c50"] == [t for t in text.split("\n", 1)[0].split(",")[50:100] if t != "0"]
    with pytest.raises(ConfigError, match="'c0' and the columns behind it are"):
        ClickLog(
            schema_of(declared | {"features": {"a": {"type": "Sequence", "column": "c0", "count": width + 1}}}),
            str(tmp_path / "log.csv"),
            [],
        )


def test_comments_above_a_log_are_refused_by_line_in_memory_streamed_and_guessed(tmp_path):
    rows = [f"u{at},{at}.5,{at % 2}" for at in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["# exported, 2026", "user,price,click", *rows]) + "\n")
    declared = {"features": {"user": {"type": "Sparse"}, "price": {"type": "Dense"}}, "labels": {"click": {}}}
    said = r"log.csv:1: begins with # and has 2 columns, but line 2 has 3"
    with pytest.raises(DataError, match=said):
        ClickLog(schema_of(declared), str(tmp_path), ["log.csv"])
    with pytest.raises(DataError, match=said), LogStream(schema_of(declared), str(tmp_path), ["log.csv"]).loader(8):
        pass
    with pytest.raises(DataError, match=said):
        guess_schema(tmp_path / "log.csv")
