"""The places of a regular expression: each reads one character, and some may follow each other (Glushkov, 1961)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ANYWHERE = 0  # the place of what `search` skips
_MOST_PLACES = 400
_COPIES = 10  # of a counted repeat; with more it counts as without a bound
_SAMPLE = (
    "".join(map(chr, range(256))) + "\u0131\u017f\u0300\u0660\u1680\u2028\u3000\u4e00\u9fa5\ud800\udfff\ufeff\U0001f600"
)
_BEGINS = {sre.AT_BEGINNING, sre.AT_BEGINNING_STRING}


class TooComplicated(Exception):
    """The expression is larger than what is looked through, or has parts whose time is not known."""


@dataclass
class Places:
    """An expression's places.

    Args:
        symbols: of each place, the characters of the sample that it reads, as bits.
        ways: in how many ways the second place follows the first.
        first: places that a match begins at.
        certain: places after which the match is certain, so that the engine never goes back behind them.
        names: of each place, for messages.
    """

    symbols: dict[int, int] = field(default_factory=dict)
    ways: Counter[tuple[int, int]] = field(default_factory=Counter)
    first: set[int] = field(default_factory=set)
    certain: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)

    def shown(self, place: int) -> str:
        """A place in words."""
        return self.names[place]


@dataclass
class _Part:
    """A part of an expression: where it begins and ends, and in how many ways it reads nothing.

    `certain` and `empty_certain` leave out what only an assertion lets pass; `starts` can only stand at the beginning.
    """

    first: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)
    empty: int = 1
    certain: set[int] = field(default_factory=set)
    empty_certain: bool = True
    starts: set[int] = field(default_factory=set)
    empty_starts: bool = False


def places_of(pattern: str | bytes, flags: int, anchored: bool, whole: bool) -> Iterator[Places]:
    """The places of an expression, and of each assertion in it: that is matched by itself.

    Raises:
        TooComplicated: it has too many places, or a reference to a group.
    """
    tree = parser.parse(pattern, flags)
    flags = tree.state.flags
    todo: list[tuple[Any, bool, bool]] = [(tree, anchored, whole)]
    while todo:
        items, anchored, whole = todo.pop()
        builder = _Builder(flags, str(pattern) if isinstance(pattern, str) else pattern.decode("latin-1"))
        yield builder.build(items, anchored, whole)
        todo += [(inner, True, False) for inner in builder.alone]


class _Builder:
    def __init__(self, flags: int, pattern: str) -> None:
        self._flags = flags
        self._sample = _SAMPLE + "".join(sorted(set(_neighbours(pattern)) - set(_SAMPLE)))
        self._made = Places()
        self.alone: list[Any] = []

    def build(self, items: Any, anchored: bool, whole: bool) -> Places:
        made = self._made
        made.symbols[ANYWHERE], made.names[ANYWHERE] = (1 << len(self._sample)) - 1, "the text before a match"
        part = self._sequence(items)
        made.first = set(part.first)
        if not anchored:
            made.first.add(ANYWHERE)
            made.ways[ANYWHERE, ANYWHERE] = 1
            made.ways.update({(ANYWHERE, at): ways for at, ways in part.first.items() if at not in part.starts})
        if not whole:
            made.certain = part.certain
        return made

    def _sequence(self, items: Any) -> _Part:
        whole = _Part()
        for item in items:
            whole = self._joined(whole, self._part(*item))
        return whole

    def _joined(self, a: _Part, b: _Part) -> _Part:
        self._follow(a.last, b)
        return _Part(
            a.first + Counter({at: ways * min(a.empty, 2) for at, ways in b.first.items() if a.empty}),
            b.last + Counter({at: ways * min(b.empty, 2) for at, ways in a.last.items() if b.empty}),
            min(a.empty * b.empty, 2),
            b.certain | (a.certain if b.empty_certain and b.empty else set()),
            a.empty_certain and b.empty_certain,
            a.starts | b.starts | (set(b.first) if a.empty_starts and a.empty else set()),
            a.empty_starts or b.empty_starts,
        )

    def _follow(self, last: Counter[int], part: _Part) -> None:
        for before, out in last.items():
            for after, into in part.first.items():
                if after not in part.starts:
                    self._made.ways[before, after] += min(out * into, 2)

    def _part(self, code: Any, value: Any) -> _Part:
        if code is sre.SUBPATTERN:
            return self._subpattern(*value)
        if code is sre.BRANCH:
            return self._branch(value[1])
        if code in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            return self._repeat(*value)
        if code is sre.ATOMIC_GROUP:
            return self._sequence(value)
        if code in (sre.ASSERT, sre.ASSERT_NOT):
            self.alone.append(value[1])
            return _Part(empty_certain=False)
        if code is sre.AT:
            begins = (value in _BEGINS and not self._flags & re.MULTILINE) or value is sre.AT_BEGINNING_STRING
            return _Part(empty_certain=False, empty_starts=begins)
        if code in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            raise TooComplicated("refers to a group, so its time is not known")
        return self._place(code, value)

    def _subpattern(self, group: Any, add: int, remove: int, items: Any) -> _Part:
        before, self._flags = self._flags, (self._flags | add) & ~remove
        part = self._sequence(items)
        self._flags = before
        return part

    def _branch(self, branches: Any) -> _Part:
        parts = [self._sequence(items) for items in branches]
        return _Part(
            sum((part.first for part in parts), Counter()),
            sum((part.last for part in parts), Counter()),
            min(sum(part.empty for part in parts), 2),
            set().union(*(part.certain for part in parts)),
            any(part.empty and part.empty_certain for part in parts),
            set().union(*(part.starts for part in parts)),
            any(part.empty and part.empty_starts for part in parts),
        )

    def _repeat(self, least: int, most: Any, items: Any) -> _Part:
        if most is sre.MAXREPEAT or most > _COPIES:
            whole = _Part()
            for _ in range(min(least, _COPIES) - 1):
                whole = self._joined(whole, self._sequence(items))
            return self._joined(whole, self._loop(items, least == 0))
        whole = _Part()
        for at in reversed(range(most)):
            whole = self._joined(self._sequence(items), whole)
            if at >= least:
                whole = self._optional(whole)
        return whole

    def _loop(self, items: Any, may_be_empty: bool) -> _Part:
        part = self._sequence(items)
        self._follow(part.last, part)
        return self._optional(part) if may_be_empty else part

    def _optional(self, part: _Part) -> _Part:
        part.empty, part.empty_certain, part.empty_starts = min(part.empty + 1, 2), True, False
        return part

    def _place(self, code: Any, value: Any) -> _Part:
        at = len(self._made.symbols)
        if at > _MOST_PLACES:
            raise TooComplicated(f"has more than {_MOST_PLACES} places")
        bits = 0
        for bit, sign in enumerate(self._sample):
            bits |= self._reads(code, value, sign) << bit
        self._made.symbols[at], self._made.names[at] = bits, self._shown(bits)
        return _Part(Counter([at]), Counter([at]), 0, {at}, False)

    def _reads(self, code: Any, value: Any, sign: str) -> bool:
        if not self._flags & re.IGNORECASE:
            return _reads(code, value, sign, self._flags)
        return any(_reads(code, value, other, self._flags) for other in {sign, sign.lower()[:1], sign.upper()[:1]})

    def _shown(self, bits: int) -> str:
        read = [sign for bit, sign in enumerate(self._sample) if bits >> bit & 1]
        visible = [sign for sign in read if sign.isprintable() and not sign.isspace()] or read
        return "nothing" if not read else f"{visible[0]!r}" + (" and others" if len(read) > 1 else "")


def _neighbours(pattern: str) -> Iterator[str]:
    """The characters of a pattern and those beside them: where its ranges begin and end."""
    for sign in pattern:
        yield from (chr(code) for code in range(max(ord(sign) - 1, 0), min(ord(sign) + 2, 0x110000)))


def _reads(code: Any, value: Any, sign: str, flags: int) -> bool:
    if code is sre.ANY:
        return sign != "\n" or bool(flags & re.DOTALL)
    if code is sre.LITERAL:
        return ord(sign) == value
    if code is sre.NOT_LITERAL:
        return ord(sign) != value
    if code is sre.IN:
        return _in_set(value, sign, flags)
    raise TooComplicated(f"has a part that is not known here ({code})")


def _in_set(items: Any, sign: str, flags: int) -> bool:
    found = any(
        (kind is sre.LITERAL and ord(sign) == value)
        or (kind is sre.RANGE and value[0] <= ord(sign) <= value[1])
        or (kind is sre.CATEGORY and _in_category(value, sign, flags))
        for kind, value in items
    )
    return found != any(kind is sre.NEGATE for kind, _ in items)


def _in_category(category: Any, sign: str, flags: int) -> bool:
    name = str(category).removeprefix("CATEGORY_").lower()
    narrow = flags & re.ASCII or not flags & re.UNICODE
    if narrow and not sign.isascii():
        return name.startswith("not_")
    tests = {
        "digit": unicodedata.category(sign) == "Nd",
        "space": sign.isspace(),
        "word": sign.isalnum() or sign == "_",
    }
    return tests[name.removeprefix("not_")] != name.startswith("not_")
