"""Numbers and dates as people write them: what each form takes, refuses, and means."""

import pytest

from framework.errors import AttributeValueError, DataError
from suites.engine.data.intake.written import Written, is_plain, moment_of, plain_number

EURO = Written(decimal=",", thousands=".", currency="€")
SWISS = Written(thousands="'", currency="CHF")
FRENCH = Written(decimal=",", thousands=" ")


@pytest.mark.parametrize(
    ("form", "text", "plain"),
    [
        (EURO, "1.234,50 €", "1234.50"),
        (EURO, "€ -5", "-5"),
        (EURO, "-€5", "-5"),
        (EURO, "\u22121.234.567", "-1234567"),
        (EURO, "0,123", "0.123"),
        (EURO, ",5", ".5"),
        (EURO, "5e3", "5e3"),
        (SWISS, "CHF 1\u2019234.5", "1234.5"),
        (FRENCH, "1\u202f234\u00a0567,5", "1234567.5"),
        (Written(percent=True), "12.5\u00a0%", "12.5"),
        (Written(thousands=","), "+1,234", "1234"),
    ],
)
def test_a_form_reads_what_people_write(form, text, plain):
    assert plain_number(text, form) == plain


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (EURO, "1.23,5"),  # no group of three
        (EURO, "0.123"),  # a group that begins with 0 is decimals of another form
        (EURO, "1234.567,5"),
        (EURO, "$5"),
        (EURO, "€5€"),
        (EURO, "€"),
        (EURO, "--5"),
        (EURO, "1,5,5"),
        (EURO, "\u0663"),  # an Arabic digit
        (FRENCH, "1 23"),
        (Written(percent=True), "12"),
        (Written(thousands=","), "1,23,456"),
        (Written(decimal=","), "1.5"),
        (Written(), "1_000"),
    ],
)
def test_a_form_refuses_what_could_mean_something_else(form, text):
    assert plain_number(text, form) is None


@pytest.mark.parametrize(
    ("text", "order", "utc", "hour", "weekday"),
    [
        ("1970-01-01", "YMD", 0, 0, 3),
        ("1969-12-31 23:00", "YMD", -3600, 23, 2),
        ("29.2.2024 17:05:09", "DMY", 1709226309, 17, 3),
        ("2/29/2024 12:05 AM", "MDY", 1709165100, 0, 3),
        ("2024-02-29T00:30:00.123+02:00", "YMD", 1709159400, 0, 3),
        ("2024-05-01 12:00:00 UTC", "YMD", 1714564800, 12, 2),
        ("2024-05-01T12:00Z", "YMD", 1714564800, 12, 2),
    ],
)
def test_a_date_is_a_time_with_an_hour_and_a_weekday(text, order, utc, hour, weekday):
    moment = moment_of(text, order)
    assert (moment.utc, moment.hour, moment.weekday) == (utc, hour, weekday)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("2023-02-29", "YMD"),
        ("31/4/2024", "DMY"),
        ("12/31/2024", "DMY"),
        ("2024-05/01", "YMD"),
        ("24-05-01", "YMD"),
        ("2024-05-01 24:00", "YMD"),
        ("2024-05-01 13:00 PM", "YMD"),
        ("2024-05-01 5", "YMD"),
        ("0000-01-01", "YMD"),
        ("2024-05-01 10:00+15:00", "YMD"),
    ],
)
def test_what_is_no_date_of_the_calendar_is_none(text, order):
    assert moment_of(text, order) is None


def test_plain_numbers_are_those_of_the_native_reader():
    assert all(map(is_plain, ["5", "+5", "5.", ".5", "-1.5e-3", "1e400"]))
    assert not any(map(is_plain, ["1_000", "\u0663", "0x10", " 5 ", "5 ", "inf", "nan", "1e", ".", "", "+-5", "1,5"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decimal": ",", "thousands": ","}, "decimal and thousands are both"),
        ({"currency": "5 €"}, "currency is '5 €'"),
        ({"date": "YMD", "percent": True}, "date is for dates"),
    ],
)
def test_a_form_that_contradicts_itself_is_refused(arguments, message):
    with pytest.raises(AttributeValueError, match=message):
        Written(**arguments)


def test_a_number_is_written_as_the_form_has_it():
    form = Written(decimal=",", percent=True)
    assert form.text_of(1.5) == "1,5%" and plain_number(form.text_of(-1e-7), form) == "-1e-07"
    with pytest.raises(DataError, match="it must be a date as a text, in the order DMY"):
        Written(date="DMY").text_of(5)
