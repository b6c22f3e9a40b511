"""Which regular expressions are slow: each is compared with the engine's own time on the text that shows it."""

import re
import time

import pytest

from framework.errors import AttributeValueError
from framework.patterns import checked, slowness

EXPONENTIAL = {
    r"(?:\s+|#[^\n]*\n)+x": " ",
    r"(a+)+$": "a",
    r"(a|a)*b": "a",
    r"(a*)*b": "a",
    r"(?:a*)+b": "a",
    r"(a|b|ab)*c": "ab",
    r"(\w+\s?)*$": "a",
    r"(?=(a+)+$)b": "a",
    r"((?:ab?)+)+c": "ab",
}
QUADRATIC = [r"a*a*b", r".*,.*x", r"\s*(.*)$\n", r"\d+\w+;", r"a+b?a+c"]


@pytest.mark.parametrize("pattern, piece", EXPONENTIAL.items())
def test_exponential_expressions_are_found_and_are_what_they_are_called(pattern, piece):
    assert "exponential" in str(slowness(pattern, use="match"))
    start = time.perf_counter()
    re.match(pattern, piece * 18 + "!")
    short = time.perf_counter() - start
    re.match(pattern, piece * 22 + "!")
    assert time.perf_counter() - start > 2 * short


@pytest.mark.parametrize("pattern", QUADRATIC)
def test_quadratic_expressions_are_found(pattern):
    assert "quadratic" in str(slowness(pattern, use="match"))


@pytest.mark.parametrize("pattern", [r"\s+$", r"a+b", r"a.*b", r"(?<=x)\w+;"])
def test_search_begins_anywhere_and_so_is_slower_than_match(pattern):
    assert slowness(pattern, use="match") is None
    assert "quadratic" in str(slowness(pattern, use="search"))


@pytest.mark.parametrize(
    "pattern", [r"\S+", r"\bword\b", r"^a+$", r"[a-z]+|[0-9]+", r"\[(\d+)\]$", r'"[^"\\]*(?:\\.[^"\\]*)*"?']
)
def test_linear_expressions_are_left_alone(pattern):
    assert slowness(pattern, use="search") is None


def test_fullmatch_goes_back_behind_the_end_of_a_loop():
    assert slowness(r"a*[ab]*", use="match") is None
    assert "quadratic" in str(slowness(r"a*[ab]*", use="fullmatch"))


@pytest.mark.parametrize(
    "pattern, word",
    [
        ("(", "no regular expression"),
        (r"(a+)\1b", "refers to a group"),
        ("a" * 500, "400 places"),
        (r"(\w+|\d)+x", "exponential"),
    ],
)
def test_an_expression_from_outside_is_refused_with_its_reason(pattern, word):
    with pytest.raises(AttributeValueError, match=word):
        checked(pattern)


def test_a_checked_expression_works():
    assert checked(r"^head\.", use="search").search("head.weight")
