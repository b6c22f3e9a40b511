"""Delimited text: quotes, stray quotes, lines, delimiters; against Python's csv where that is right."""

import csv
import io
import random

import pytest

from framework.errors import DataError
from suites.engine.data.intake.tables import Dialect, delimiter_of, refuse_comments, repeated, rows_in


def cells(text, **dialect):
    return [row.cells for row in rows_in(text.split("\n"), Dialect(**dialect))]


def test_quoted_values_hold_delimiters_quotes_and_lines():
    text = 'a,b\n"x, ""y""",2\n"two\nlines",3\n'
    assert cells(text) == [["a", "b"], ['x, "y"', "2"], ["two\nlines", "3"]]
    assert [row.line for row in rows_in(text.split("\n"), Dialect())] == [1, 2, 3]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_csv_writes_is_read_back(delimiter):
    draw = random.Random(3)
    values = ["", "plain", f"a{delimiter}b", 'say "hi"', "two\nlines", " spaced ", "'", '5" disk', "né"]
    rows = [[draw.choice(values) for _ in range(4)] for _ in range(300)]
    rows = [["one", "two", "three", "four"]] + [row for row in rows if any(row)]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    assert cells(out.getvalue(), delimiter=delimiter) == rows


@pytest.mark.parametrize("above", [["# made by a tool"], ["#", "# a, b, c", "# d"], ["", " # note", ""]])
def test_comments_above_a_table_are_refused_by_line(above):
    lines = [*above, "a,b", "1,2", "3,4"]
    with pytest.raises(
        DataError, match=r"log.csv:\d: begins with # and has \d columns, but line \d has 2: it is taken"
    ):
        refuse_comments(lines, Dialect(), "log.csv")


@pytest.mark.parametrize(
    "lines", [[], ["a,b", "#1,2"], ["#a,b", "1,2"], ["#so true,1", "#never,0", "x,1"], ["# alone"]]
)
def test_lines_that_begin_with_a_hash_and_are_rows_are_none(lines):
    refuse_comments(lines, Dialect(), "log.csv")


def stray(rows, closed=None):
    lines = ["user,price,colour,click"] + [f"u{i},{i}.5,red,0" for i in range(rows)]
    lines[10] = 'u9,9.5,"red,0'
    if closed is not None:
        lines[closed] = f'u{closed - 1},1.5,red",0'
    return [*lines, ""]


@pytest.mark.parametrize("closed", [None, 13, 60])
def test_a_stray_quote_costs_its_own_row_only(closed):
    found = list(rows_in(stray(100, closed), Dialect(), 4))
    wrong = [(row.line, row.wrong) for row in found if row.wrong]
    assert wrong == [(11, "a quote is opened and not closed")]
    assert len(found) == 101


def test_text_behind_a_closing_quote_is_wrong():
    (_, row) = rows_in(["a,b", '"x"y,2'], Dialect())
    assert (row.line, row.cells) == (2, []) and "behind the closing quote" in row.wrong


def test_without_newlines_a_value_ends_with_its_line():
    found = list(rows_in(["a,b", '"two', 'lines",3'], Dialect(newlines=False)))
    assert [(row.line, row.cells) for row in found] == [(1, ["a", "b"]), (2, []), (3, ['lines"', "3"])]


def test_spaces_go_where_it_is_said():
    assert cells(' a , "b" \n', strip=True) == [["a", "b"]]


def test_excel_says_its_delimiter_in_the_first_line():
    lines = ["sep=;", "a;b", "1,5;2"]
    assert delimiter_of(lines) == ";"
    assert [(row.line, row.cells) for row in rows_in(lines, Dialect(";"))] == [(2, ["a", "b"]), (3, ["1,5", "2"])]


@pytest.mark.parametrize("mark", ["\t", ",", ";", "|"])
def test_the_delimiter_is_the_one_that_cuts_lines_alike(mark):
    lines = [mark.join(["text", "label"]), *(mark.join([f'"a{mark}, b; {i}"', str(i)]) for i in range(20))]
    assert delimiter_of(lines) == mark


def test_names_that_stand_twice_are_found():
    assert repeated(["a", "b", "a", "", ""]) == ["a", ""]


def test_a_million_open_quotes_take_no_longer_than_lines():
    lines = ["a,b"] + ['"x,1'] * 20_000
    assert sum(bool(row.wrong) for row in rows_in(lines, Dialect(), 2)) == 20_000
