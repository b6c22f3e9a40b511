"""Which form the numbers or the dates of a column have, told from all its texts; never guessed where two would fit.

A form fits a column if it reads nearly all texts. Where two forms fit as many and mean different numbers, such as
1,234, which is 1234 or 1.234, the column is ambiguous: that is said, with the option that settles it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from suites.engine.data.intake.written import DateOrder, Decimal, Thousands, Written, is_plain, moment_of, plain_number

NEARLY = 0.95  # share of the texts that a form must read
MOST_ODD = 8  # different texts of a column that its form need not read
_CURRENCIES = re.compile(
    r"(?:US|R|A|C|NZ|HK|S)?\$|[€£¥₹₩₽₺₫฿₪₴]|USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|BRL|kr|zł|Kč|Rs"
)
_ORDERS: tuple[DateOrder, ...] = ("YMD", "DMY", "MDY")
_DECIMALS: tuple[Decimal, ...] = (".", ",")
_THOUSANDS: tuple[Thousands, ...] = ("", ",", ".", " ", "'")


@dataclass(frozen=True)
class Settled:
    """What a user says of texts that may mean two things.

    Attributes:
        decimal: "." or ","; None where nothing is said.
        dates: the order of day, month and year.
    """

    decimal: Decimal | None = None
    dates: DateOrder | None = None


@dataclass(frozen=True)
class Told:
    """What was told of a column's texts.

    Attributes:
        form: how they are written; None where they are of no form, or of two.
        why: the reason in a few words.
        ambiguous: why they cannot be read, such as that they mean two things, and what settles it; "" where they can.
        odd: texts that the form does not read.
    """

    form: Written | None
    why: str = ""
    ambiguous: str = ""
    odd: tuple[str, ...] = ()


def reads(text: str, form: Written) -> object:
    """What a text means in a form, to be compared; None where it means nothing."""
    if form.date is not None:
        return moment_of(text, form.date)
    plain = plain_number(text, form)
    return None if plain is None else float(plain)


def told(texts: Mapping[str, int], settled: Settled = Settled()) -> Told | None:
    """The form of a column's numbers or dates; None for texts that are plain numbers, or neither.

    Args:
        texts: the different ones that are not missing, and how often each stands there.
        settled: what the user says.
    """
    if not texts or (settled.decimal != "," and all(map(is_plain, texts))):
        return None
    if not any(text[:1].isdigit() or text[-1:].isdigit() or "%" in text for text in texts):
        return None
    return _dates(texts, settled) or _numbers(texts, settled)


def _dates(texts: Mapping[str, int], settled: Settled) -> Told | None:
    fitting = _fitting(texts, [Written(date=order) for order in _ORDERS if settled.dates in (None, order)])
    if not fitting:
        return _of_two_forms(texts, [Written(date=order) for order in _ORDERS])
    best = fitting[0]
    other = next((form for form in fitting[1:] if _differs(texts, best, form)), None)
    dotted = all("." in text.partition(" ")[0] for text in texts)
    if other is not None and not dotted:
        example = next(text for text in texts if reads(text, best) != reads(text, other))
        return Told(
            None,
            ambiguous=f"dates such as {example} may be day and month or month and day; say which with --dates DMY or "
            "--dates MDY",
        )
    if other is not None:  # with dots the day comes first, wherever they are written
        best = replace(best, date="DMY")
    return _read(texts, best, f"dates, {best.date}, such as {_example(texts, best)}")


def _numbers(texts: Mapping[str, int], settled: Settled) -> Told | None:
    currency, percent = _currency(texts), _share(texts, (t for t in texts if t.rstrip().endswith("%"))) >= NEARLY
    if currency is not None and len(currency) > 1:
        return Told(None, ambiguous=f"amounts in {' and '.join(currency)}; write them in one currency")
    decimals = [mark for mark in _DECIMALS if settled.decimal in (None, mark)]
    forms = [
        Written(decimal=decimal, thousands=mark, percent=percent, currency=next(iter(currency or ()), ""))
        for mark, decimal in product(_THOUSANDS, decimals)
        if mark != decimal
    ]
    fitting = _fitting(texts, forms)
    if not fitting:
        return _of_two_forms(texts, forms)
    best = fitting[0]
    other = next((form for form in fitting[1:] if _differs(texts, best, form)), None)
    if other is not None:
        example = next(text for text in texts if reads(text, best) != reads(text, other))
        meant = " or ".join(sorted({f"{reads(example, form):g}" for form in (best, other)}))
        return Told(
            None, ambiguous=f"numbers such as {example} may be {meant}; say which with --decimal . or --decimal ,"
        )
    if best == Written():
        return None
    return _read(texts, best, f"numbers with {_said(best)}, such as {_example(texts, best)}")


def _fitting(texts: Mapping[str, int], forms: Iterable[Written]) -> list[Written]:
    """The forms that read most texts, if nearly all, the simplest first."""
    shares = [(_share(texts, (t for t in texts if reads(t, form) is not None)), form) for form in forms]
    most = max((share for share, _ in shares), default=0.0)
    return [form for share, form in shares if share == most] if most >= NEARLY else []


def _of_two_forms(texts: Mapping[str, int], forms: Iterable[Written]) -> Told | None:
    """Texts that no one form reads, and several together do."""
    readers = {text: next((form for form in forms if reads(text, form) is not None), None) for text in texts}
    if _share(texts, (text for text, form in readers.items() if form is not None)) < NEARLY:
        return None
    first = next(text for text, form in readers.items() if form is not None)
    second = next((t for t, form in readers.items() if form is not None and form != readers[first]), first)
    return Told(None, ambiguous=f"written in several forms, such as {first} and {second}; write them alike")


def _differs(texts: Iterable[str], one: Written, other: Written) -> bool:
    return any(reads(text, one) != reads(text, other) for text in texts)


def _share(texts: Mapping[str, int], some: Iterable[str]) -> float:
    return sum(texts[text] for text in some) / sum(texts.values())


def _currency(texts: Mapping[str, int]) -> list[str] | None:
    """The signs of currencies that stand in nearly all texts beside digits."""
    found: Counter[str] = Counter()
    for text, times in texts.items():
        rest = re.sub(r"[\d.,'\u2019\s+\u2212-]", "", text)
        if rest and _CURRENCIES.fullmatch(rest):
            found[rest] += times
    return list(found) if sum(found.values()) >= NEARLY * sum(texts.values()) else None


def _read(texts: Iterable[str], form: Written, why: str) -> Told:
    odd = tuple(text for text in texts if reads(text, form) is None)
    if len(odd) > MOST_ODD:
        return Told(None, ambiguous=f"{why}, but {len(odd)} different texts are none, such as {odd[0]}; correct them")
    return Told(form, why, odd=odd)


def _said(form: Written) -> str:
    parts = [
        "decimal commas" if form.decimal == "," else "",
        f"{form.thousands!r} between thousands" if form.thousands else "",
        "percent signs" if form.percent else "",
        f"the currency {form.currency}" if form.currency else "",
    ]
    return ", ".join(filter(None, parts))


def _example(texts: Mapping[str, int], form: Written) -> str:
    """A text that shows what is not plain."""
    return next((text for text in texts if not is_plain(text) and reads(text, form) is not None), next(iter(texts)))
