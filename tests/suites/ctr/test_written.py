"""Columns whose numbers and dates are not plain: both readers, training and scoring mean the same."""

import random

import numpy as np
import pytest

from framework.data.faults import FaultPolicy
from framework.data.logs import LogReader
from framework.errors import ConfigError, DataError
from suites.ctr.datasets import ClickLog, Columns
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import schema_of
from suites.ctr.schema.compiled import compiled

FORMS = {
    "a": {"decimal": ",", "thousands": ".", "currency": "€"},
    "b": {"thousands": " ", "percent": True},
    "c": {"thousands": "'", "currency": "CHF"},
    "d": {"date": "DMY"},
    "e": {"date": "YMD"},
    "f": {"date": "MDY"},
}
ATOMS = [*"0123456789.,'-+/:%_", "12", "123", "000", " ", "\u00a0", "\u202f", "\u2019", "\u2212", "€", "CHF", "$"]
ATOMS += ["e", "E5", "T", "Z", "UTC", "am", "PM", "2024", "29", "02", "31", "x", "\u0663"]
EXAMPLES = {
    "a": ["1.234,50 €", "-€ 5", "1.234.567", "0,5", ",5e3", "\u22121"],
    "b": ["12 %", "1 234%", "1\u202f234\u00a0%", "-.5%"],
    "c": ["CHF 1'234.5", "CHF -5", "1\u2019234CHF", "1'234'567"],
    "d": ["29.2.2024", "31.12.1969 23:59", "1/2/2024 0:00", "1.1.1900"],
    "e": ["2024-02-29 17:05:01", "2024-02-29T17:05:01.5+02:00", "2024-1-1 00:30Z", "1969-12-31 1:00 UTC"],
    "f": ["2/29/2024 5:05 PM", "12/31/9999", "1/1/1970 12:30 am", "1/1/0001"],
}


def schema(**change):
    return schema_of(
        {
            "format": {"delimiter": ";", "quote": None, "written": FORMS},
            "features": {
                **{name: {"type": "Dense"} for name in FORMS},
                "bucket": {"type": "Sparse", "column": "a", "bucket": "log_square"},
                **{f"{name}_hour": {"type": "Sparse", "column": name, "bucket": "hour"} for name in "def"},
                **{f"{name}_weekday": {"type": "Sparse", "column": name, "bucket": "weekday"} for name in "def"},
            },
            "labels": {"click": {}},
            "time": "e",
            **change,
        }
    )


def drawn(draw, column):
    """A text that is what someone writes there, or nearly."""
    if draw.random() < 0.1:
        return "".join(draw.choice(ATOMS) for _ in range(draw.randrange(1, 7)))
    text = list(draw.choice(EXAMPLES[column]))
    for _ in range(draw.choice([0, 0, 0, 1, 1, 2])):
        text.insert(draw.randrange(len(text) + 1), draw.choice(ATOMS))
        if draw.random() < 0.5:
            del text[draw.randrange(len(text))]
    return "".join(text)


def test_the_native_reader_and_python_mean_the_same_by_all_forms(tmp_path):
    """A row for each text and column; the others of the row are right, so that the text decides over the row."""
    draw = random.Random(0)
    right = {"a": "5", "b": "5%", "c": "5", "d": "1.2.2024", "e": "2024-02-01", "f": "2/1/2024"}
    rows = []
    for number in range(4000):
        column = draw.choice(list(FORMS))
        rows.append([*{**right, column: drawn(draw, column)}.values(), str(number % 2)])
    path = tmp_path / "log.csv"
    path.write_text("\n".join([";".join([*FORMS, "click"]), *map(";".join, rows)]) + "\n")
    declared = schema()
    held = ClickLog(declared, str(path), [], max_skipped=1.0)
    fields = compiled(declared, [*FORMS, "click"]) | {"missing_numbers": "nan"}
    with LogReader(str(path), fields, 4096, faults=FaultPolicy(skipped=1.0)) as log:
        found = list(log)
    for name in ("sparse", "dense", "labels", "time"):
        streamed = np.concatenate([batch[name] for batch in found])
        np.testing.assert_array_equal(streamed, getattr(held.clicks, name), err_msg=name)
    assert 1000 < len(held) < 3500  # many rows are read, many refused


PRICES = {
    "features": {"a": {"type": "Dense"}, "d_hour": {"type": "Sparse", "column": "d", "bucket": "hour"}},
    "time": None,
}


def small():
    return schema(**PRICES, format={"delimiter": ";", "written": {"a": FORMS["a"], "d": FORMS["d"]}})


def test_scoring_reads_the_same_forms_and_numbers_of_requests_are_numbers(tmp_path):
    processor = ClickProcessor.from_metadata(ClickProcessor(small()).metadata())
    path = tmp_path / "score.csv"
    path.write_text("a;d\n1.234,5 €;1.2.2024 17:00\n1,2,3;1.2.2024\n")
    (_, first), (_, second) = processor.inputs(str(path))
    with pytest.raises(DataError, match=r"score.csv:3: 'a' is '1,2,3', which is no number of the form"):
        second()
    rows = [first(), processor.from_json({"a": 1234.5, "d": "1.2.2024 17:59"}), {"a": 1234.5, "d": "2.2.2024 17:00"}]
    batch = processor.prepare(rows)
    assert batch["dense"].ravel().tolist() == [1234.5] * 3 and len(set(batch["sparse"].ravel().tolist())) == 1
    with pytest.raises(DataError, match=r"'d' is 5; it must be a date as a text, in the order DMY"):
        processor.from_json({"d": 5})


def test_arrays_of_numbers_are_numbers_whatever_the_file_s_form():
    columns = {"a": np.array([1.5, 1234.25]), "d": ["1.2.2024", "2.2.2024"], "click": [0, 1]}
    assert Columns(small(), columns).clicks.dense.ravel().tolist() == [1.5, 1234.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": {"written": {"z": {"decimal": ","}}}}, "format.written names 'z', which nothing reads"),
        ({"format": {"written": {"a": {"decimal": ","}}}}, "'d_hour' has bucket hour, which is for dates"),
        ({"format": {"written": {"a": {"decimals": ","}}}}, "did you mean 'decimal'"),
        ({"format": {"kind": "slot", "written": {"a": {"decimal": ","}}}}, "written is for columns of texts"),
        (
            {"format": {"written": {"d": {"date": "DMY"}, "click": {"date": "DMY"}}}},
            "'click' is a date, so it is no label of numbers",
        ),
    ],
)
def test_a_form_that_nothing_can_use_is_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        schema(**{**PRICES, **change})
