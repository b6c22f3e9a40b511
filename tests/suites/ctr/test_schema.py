"""Declarations: slots, what models are told, what is refused, and what is guessed from a file."""

import numpy as np
import pytest

from framework.errors import ConfigError, DataError
from suites.ctr.datasets import ClickLog
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.schema import read_schema, schema_of
from suites.engine.cli import main
from tests.suites.ctr.helpers import SCHEMA, columns, schema, write_csv


def test_features_of_one_vocabulary_share_a_slot_and_others_have_the_next_free_one():
    found = schema(
        features={
            "a": {"type": "Sparse", "slot": 2},
            "b": {"type": "Sparse"},
            "c": {"type": "Sparse"},
            "past": {"type": "Sequence", "vocabulary": "a"},
            "x": {"type": "Dense"},
        },
        group=None,
        time=None,
    )
    assert found.slots() == {"a": 2, "b": 1, "c": 3, "past": 2}


def test_models_are_told_what_a_batch_holds():
    fields = schema().fields()
    assert fields.fields == ("user", "item", "both", "tags") and fields.bags == (("tags", "mean"),)
    assert fields.sequences == (("liked", 1),) and fields.dense == 1 and fields.labels == ("click",)
    pairs = {"item": {"type": "Sparse"}, "kind": {"type": "Sparse"}}
    pairs |= {"a": {"type": "Sequence", "vocabulary": "item"}, "b": {"type": "Sequence"}}
    pairs["c"] = {"type": "Sequence", "vocabulary": "kind", "along": "a"}
    fields = schema(features=pairs, group=None, time=None).fields()
    assert fields.sequences == (("a", 0), ("b", -1), ("c", 1)) and fields.groups == ((0, 2), (1,))


def test_plain_data_make_the_same_schema_again():
    assert schema_of(schema().plain()) == schema()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {}}, "features is empty; declare at least one"),
        ({"labels": {}}, "labels is empty; declare what is predicted"),
        ({"features": {"a": {"type": "Sparse", "slot": 4096}}}, "slot is 4096; it must be 1 to 4095, or null"),
        ({"features": {"a": {"type": "Sprase"}}}, "no feature is called 'Sprase'; did you mean 'Sparse'"),
        ({"features": {"a": {"type": "Dense", "transform": "log", "center": 1.0}}}, "center and scale are for"),
        ({"features": {"a": {"type": "Dense", "transform": "standard", "center": 1.0, "scale": 0.0}}}, "scale is 0"),
        ({"features": {"labels": {"type": "Sparse"}}}, "no feature can be called 'labels'"),
        ({"features": {"ab": {"type": "Crossed", "of": ["a", "b"]}}}, "'ab' crosses 'a', which is no sparse feature"),
        ({"features": {"a": {"type": "Crossed", "of": ["a"]}}}, r"of is \['a'\]; name two features or more"),
        ({"features": {"a": {"type": "Sequence", "along": "b"}}}, "'a' goes along 'b', which is no sequence"),
        (
            {"features": {"a": {"type": "Sparse", "slot": 1}, "b": {"type": "Sparse", "slot": 1}}},
            "slot 1 belongs to two vocabularies",
        ),
        ({"format": {"delimiter": ";;"}}, "delimiter is ';;'; it must be one character"),
        ({"format": {"header": False}}, "without a header, columns must name the columns"),
        ({"format": {"newlines": True, "quote": None}}, "newlines is for values in quotes, and quote is null"),
        ({"features": {"a": {"type": "Sparse", "bucket": "log"}}}, r"features\.a\.bucket"),
        ({"labels": {"y": {"positive": ["1"], "at_least": 1.0}}}, "positive and at_least are two ways"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        schema(**change)


def test_a_file_says_in_which_line_it_is_wrong(tmp_path):
    path = tmp_path / "schema.yml"
    path.write_text("features:\n  a: {type: Sparse}\n  b: {typ: Dense}\nlabels:\n  y: {}\n")
    with pytest.raises(ConfigError, match=r"schema.yml:3: features.b: needs 'type', which names the feature"):
        read_schema(path)
    with pytest.raises(ConfigError, match=r"the schema cannot be read \(No such file or directory\); write one with"):
        read_schema(tmp_path / "none.yml")
    path.write_text("a, b\n")
    with pytest.raises(ConfigError, match="is no schema; it must have `features` and `labels`"):
        read_schema(path)


def test_a_guess_reads_the_file_that_it_was_made_from(tmp_path, capsys):
    log, written = write_csv(tmp_path / "log.csv"), tmp_path / "schema.yml"
    assert main(["data", "schema", str(log), "--output", str(written)]) == 0
    assert "log.csv" in written.read_text() and "schema.yml: look at each line" in capsys.readouterr().out
    found = read_schema(written)
    kinds = {name: type(feature).__name__ for name, feature in found.features.items()}
    assert kinds == {
        "user": "Sparse",
        "item": "Sparse",
        "tags": "MultiValued",
        "liked": "MultiValued",
        "price": "Dense",
    }
    assert list(found.labels) == ["click"] and found.time == "time"
    rows = ClickLog(found, str(log), [])
    assert len(rows) == 600
    assert main(["data", "schema", str(log), "--output", str(written)]) == 2  # it may have been edited
    assert "is there already" in capsys.readouterr().err


def guessed(tmp_path, text):
    path = tmp_path / "log.txt"
    path.write_text(text)
    result = tmp_path / "schema.yml"
    result.write_text(guess_schema(path))
    return read_schema(result), result.read_text()


def test_a_guess_knows_delimiters_headers_missing_texts_and_keys(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        "\t".join(map(str, [f"{i:09x}", rng.integers(2), "ab?"[rng.integers(3)], rng.exponential(3) ** 6, 7, i % 9]))
        for i in range(300)
    ]
    found, text = guessed(tmp_path, "\n".join(rows))
    assert found.format.delimiter == "\t" and found.format.header is False and found.format.missing == ("?",)
    kinds = {
        name: (type(feature).__name__, getattr(feature, "transform", "")) for name, feature in found.features.items()
    }
    assert kinds == {"c2": ("Sparse", ""), "c3": ("Dense", "log"), "c5": ("Sparse", "")} and list(found.labels) == [
        "c1"
    ]
    assert "# left out: c0: 100% of its values differ, as those of a key of the row do" in text
    assert "# left out: c4: it holds 1 different values" in text


def test_a_label_of_words_says_which_one_is_taken_as_positive(tmp_path):
    rows = [f"u{i % 5};{i % 7}.5;{'yes' if i % 3 == 0 else 'no'}" for i in range(90)]
    found, text = guessed(tmp_path, "user;size;bought\n" + "\n".join(rows))
    assert found.labels["bought"].positive == ("yes",) and "look which of them is the positive one" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("one column\nof text\n", "no delimiter cuts its lines into columns"),
        ("a,b\n1,2\n", "has 1 rows; some dozen are needed"),
        ("a,b\n1,2\n3,4\n5,6\n", "no column has two values, so none can be a click"),
    ],
)
def test_a_file_that_nothing_can_be_guessed_from_is_refused(tmp_path, text, message):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        guess_schema(path)


def test_the_sample_of_a_large_file_is_spread_over_it(tmp_path, monkeypatch):
    monkeypatch.setattr("suites.ctr.inspection.guess._PART_BYTES", 200)
    path = tmp_path / "log.csv"
    path.write_text("kind,click\n" + "".join(f"k{i // 1000},{i % 2}\n" for i in range(5000)))
    text = guess_schema(path)
    assert "kind: {type: Sparse}  # words, 5 different" in text


def test_helpers_declare_what_they_write():
    assert set(columns()) >= {name for name in SCHEMA["features"] if name != "both"}
