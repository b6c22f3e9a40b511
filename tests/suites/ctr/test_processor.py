"""Rows as people have them in Python: what is no value of a log is refused, and never scored as another category."""

import pytest

from framework.errors import DataError
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import schema_of

SCHEMA = {"features": {"age": {"type": "Dense"}, "job": {"type": "Sparse"}}, "labels": {"y": {}}}


@pytest.fixture
def processor():
    return ClickProcessor(schema_of(SCHEMA))


class Table:
    """As pandas has one."""

    ndim = 2

    def to_dict(self):
        return {"age": {0: 3}}


class Row(Table):
    ndim = 1

    def to_dict(self):
        return {"age": 3, "job": "nurse"}


def test_rows_of_pandas_and_rows_with_other_columns_are_taken(processor):
    assert processor.item(Row()) == {"age": 3, "job": "nurse"}
    assert processor.item({"job": "nurse", "surprise": {}}) == {"job": "nurse", "surprise": {}}
    assert processor.item({}) == {}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (Table(), r"a table has many rows; give them one by one: table\.to_dict\('records'\)"),
        ({"age": {"of": 3}}, "'age' is an object; a value is a text, a number"),
        ({"job": ["nurse", {}]}, "'job' is an object"),
        ({"job": {"nurse"}}, "'job' is an object"),
        ({"jobs": "nurse", "age": 3}, "there is no column 'jobs'; did you mean 'job'"),
        ({"other": 3}, "the row has no value that the model reads; it reads"),
        (["nurse"], "a row is a dict of values by column, not list"),
    ],
)
def test_what_is_no_row_is_refused(processor, given, match):
    with pytest.raises(DataError, match=match):
        processor.item(given)


def test_a_request_with_an_object_as_a_value_is_refused(processor):
    with pytest.raises(DataError, match="'age' is an object"):
        processor.from_json({"age": {"of": 3}})
