"""Numbers and dates as people write them: "1.234,50 €", "12 %", "3.4.2024 17:05", by a form that a column declares.

The native reader of logs reads the same forms (`framework/native/reader/written.cc`); a test compares the two.
`suites.engine.data.intake.forms` tells from a column's texts which form it has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date as calendar
from functools import cache
from typing import Literal

from framework.errors import AttributeValueError, DataError
from framework.patterns import checked

DateOrder = Literal["YMD", "DMY", "MDY"]
Decimal = Literal[".", ","]
Thousands = Literal["", ",", ".", " ", "'"]
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SPACES = " \u00a0\u202f"
_SPACE = f"[{_SPACES}]"
_SIGN = "[+\u2212-]"
_MARKS = {" ": _SPACE, "'": "['\u2019]"}  # what else stands for a mark between thousands
_TIME = (
    rf"(?:T|{_SPACE}+)(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    rf"(?:{_SPACE}*(?P<half>[AaPp])[Mm])?(?:{_SPACE}*(?:Z|UTC|(?P<zone>[+-]\d\d:?\d\d)))?"
)
_ORDERS = {"YMD": ("year", "month", "day"), "DMY": ("day", "month", "year"), "MDY": ("month", "day", "year")}
_EPOCH = calendar(1970, 1, 1).toordinal()
_DAY = 86400
_ZONE_HOURS = 14


@dataclass(frozen=True, kw_only=True)
class Written:
    """How the numbers or the dates of a column are written.

    A date is the days since 1970-01-01 (in UTC) where a number is wanted, and the seconds since then as a time.

    Args:
        decimal: what stands before the decimals, "." or ",".
        thousands: what stands between groups of three digits; "" for nothing. A space is any space, no-break ones too.
        percent: each number ends with a percent sign, which is left out: "12 %" is 12.
        currency: what may stand before or behind a number, such as "€" or "USD".
        date: the order of day, month and year in a date of digits, with `-`, `/` or `.` between them; a time of day may
            follow, with AM or PM, a zone or neither.
    """

    decimal: Decimal = "."
    thousands: Thousands = ""
    percent: bool = False
    currency: str = ""
    date: DateOrder | None = None

    def __post_init__(self) -> None:
        if self.thousands == self.decimal:
            raise AttributeValueError(f"Written: decimal and thousands are both {self.decimal!r}; give two marks")
        if any(c.isdigit() or c.isspace() or c in ".,'+-%\u2212" for c in self.currency):
            raise AttributeValueError(
                f"Written: currency is {self.currency!r}; it is a sign or letters, without spaces and marks of numbers"
            )
        of_number = (self.decimal, self.thousands, self.percent, self.currency)
        if self.date is not None and of_number != (".", "", False, ""):
            raise AttributeValueError("Written: date is for dates, the others for numbers; give one of them")

    def text_of(self, number: float) -> str:
        """A number as this form writes it; raises DataError where the form is of dates."""
        if self.date is not None:
            raise DataError(f"is {number!r}; it must be a date as a text, in the order {self.date}")
        return str(number).replace(".", self.decimal) + ("%" if self.percent else "")


@dataclass(frozen=True)
class Moment:
    """A time.

    Attributes:
        wall: seconds since 1970, as the clock showed them there.
        offset: seconds of that which the zone is ahead of UTC.
    """

    wall: int
    offset: int = 0

    @property
    def utc(self) -> int:
        """Seconds since 1970."""
        return self.wall - self.offset

    @property
    def days(self) -> float:
        """Days since 1970."""
        return self.utc / _DAY

    @property
    def hour(self) -> int:
        """From 0 to 23, by its own clock."""
        return self.wall % _DAY // 3600

    @property
    def weekday(self) -> int:
        """From 0 for Monday to 6, by its own clock."""
        return (self.wall // _DAY + 3) % 7


def is_plain(text: str) -> bool:
    """Whether a text is a decimal number in ASCII digits, with sign, point and exponent or without.

    >>> is_plain("-1.5e3"), is_plain("1_000"), is_plain("0x10"), is_plain("٣"), is_plain(" 5")
    (True, False, False, False, False)
    """
    return _PLAIN.fullmatch(text) is not None


def number_in(value: object) -> float:
    """`float` for what people and tools write: a number, or a text of a plain one with or without spaces around it.

    Raises:
        TypeError: it is neither a number nor a text.
        ValueError: the text is another, such as `1_0`, `٣`, `0x1` or `nan`.
    """
    if isinstance(value, str):
        if not is_plain(value.strip()):
            raise ValueError(f"{value!r:.40} is no number")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r:.40} is no number")
    return float(value)


def plain_number(text: str, form: Written) -> str | None:
    """The number in plain digits; None for a text that is not of the form.

    >>> plain_number("-1.234,50 €", Written(decimal=",", thousands=".", currency="€"))
    '-1234.50'
    """
    found = _pattern(form).fullmatch(text.strip(_SPACES))
    if found is None:
        return None
    groups = found.groupdict()
    sign, late = groups["sign"], groups.get("late")
    if (sign and late) or (groups.get("named") and groups.get("after")):
        return None
    decimals = groups["decimals"] if groups["only"] is None else groups["only"]
    digits = re.sub(r"\D", "", groups["whole"] or "", flags=re.ASCII)
    point = "" if decimals is None else f".{decimals}"
    return f"{'' if (sign or late or '+') == '+' else '-'}{digits}{point}{groups['exponent'] or ''}"


def moment_of(text: str, order: DateOrder) -> Moment | None:
    """The time that a date means; None for a text that is none in this order, or none of the calendar.

    >>> moment_of("1.2.1970", "DMY").days, moment_of("1970-01-05 17:05", "YMD").weekday
    (31.0, 0)
    """
    found = _date_pattern(order).fullmatch(text.strip(_SPACES))
    if found is None or found["mark"] != found["again"]:
        return None
    try:
        days = calendar(*(int(found[name]) for name in ("year", "month", "day"))).toordinal() - _EPOCH
    except ValueError:
        return None
    if found["hour"] is None:
        return Moment(days * _DAY)
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"] in "pP" else 0)
    zone = (found["zone"] or "+0000").replace(":", "")
    hours, minutes = int(zone[1:3]), int(zone[3:])
    if hour > 23 or minute > 59 or second > 59 or hours > _ZONE_HOURS or minutes > 59:
        return None
    offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    return Moment(days * _DAY + hour * 3600 + minute * 60 + second, offset)


@cache
def _pattern(form: Written) -> re.Pattern[str]:
    mark = _MARKS.get(form.thousands, re.escape(form.thousands))
    grouped = rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|" if form.thousands else ""
    before = rf"(?:(?P<sign>{_SIGN}){_SPACE}*)?"
    behind = rf"{_SPACE}*%" if form.percent else ""
    if form.currency:  # on one side of the number, with a sign of the number before or behind it
        named = re.escape(form.currency)
        before += rf"(?:(?P<named>{named}){_SPACE}*(?P<late>{_SIGN})?)?"
        behind += rf"(?P<after>{named})?" if form.percent else rf"(?:{_SPACE}*(?P<after>{named}))?"
    point, exponent = re.escape(form.decimal), r"(?P<exponent>[eE][+-]?\d+)?"
    number = rf"(?:(?P<whole>{grouped}\d+)(?:{point}(?P<decimals>\d*))?|{point}(?P<only>\d+)){exponent}"
    return checked(before + number + behind, re.ASCII, "fullmatch")


@cache
def _date_pattern(order: DateOrder) -> re.Pattern[str]:
    widths = {"year": r"\d{4}", "month": r"\d{1,2}", "day": r"\d{1,2}"}
    first, second, third = (f"(?P<{name}>{widths[name]})" for name in _ORDERS[order])
    day = rf"{first}(?P<mark>[-/.]){second}(?P<again>[-/.]){third}"
    return checked(rf"{day}(?:{_TIME})?", re.ASCII, "fullmatch")
