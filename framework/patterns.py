"""Regular expressions that read a text in time that grows with its length alone; others are refused by `checked`.

Python's engine goes back where a match fails. It takes exponential time where one piece of text leads from a place in
a loop back to it in two ways, and quadratic time where two loops in a row read the same piece. Both are found on the
automaton of the expression's places: Weideman and others, "Analyzing matching time behavior of backtracking regular
expression matchers", CIAA 2016. An expression that `search` runs begins with a loop over any character.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from framework.errors import AttributeValueError
from framework.pattern_places import Places, TooComplicated, places_of

_ANCHORED = frozenset({"match", "fullmatch"})
USES = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
_MOST_STEPS = 2_000_000


@functools.lru_cache(maxsize=1024)
def checked(pattern: str, flags: int = 0, use: str = "search") -> re.Pattern[str]:
    """A compiled expression from outside, or one that is put together.

    Args:
        pattern: the expression.
        flags: those of `re`.
        use: the method that will be called; `search` stands for all that begin anywhere.

    Raises:
        AttributeValueError: it is no expression, or may take more time than its text is long.
    """
    try:
        compiled = re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise AttributeValueError(f"pattern {pattern!r}: is no regular expression ({error})") from None
    if fault := slowness(pattern, compiled.flags, use):
        raise AttributeValueError(f"pattern {pattern!r}: {fault}")
    return compiled


def slowness(pattern: str | bytes, flags: int = 0, use: str = "search") -> str | None:
    """Why a match by the method `use` may take more than linear time; None where it cannot."""
    try:
        roots = places_of(pattern, flags, anchored=use in _ANCHORED, whole=use == "fullmatch")
        return next(filter(None, map(_fault, roots)), None)
    except TooComplicated as error:
        return str(error)


def _fault(places: Places) -> str | None:
    graph = _Graph(places)
    for place in graph.loops:
        if graph.two_ways_round(place):
            return f"{places.shown(place)} is read in two ways by one loop: exponential time"
    for first in graph.loops:
        for then in graph.loops:
            if first != then and graph.one_after_other(first, then):
                return f"{places.shown(first)} and then {places.shown(then)} read the same text: quadratic time"
    return None


class _Graph:
    """Which place may follow which, where no match is certain yet."""

    def __init__(self, places: Places) -> None:
        self._symbols, self._ways = places.symbols, places.ways
        self._next: dict[int, list[int]] = {place: [] for place in places.symbols}
        self._steps = 0
        for before, after in places.ways:
            if before not in places.certain and after not in places.certain:
                self._next[before].append(after)
        self._reach = {place: self._reachable(place) for place in self._next}
        started = {place for first in places.first - places.certain for place in (first, *self._reach[first])}
        self.loops = [place for place in self._next if place in self._reach[place] and place in started]

    def two_ways_round(self, place: int) -> bool:
        """Whether some text leads from the place to itself along two ways."""
        circle = [other for other in self._reach[place] if place in self._reach[other]]
        if any(self._ways.get((a, b), 0) > 1 for a in circle for b in self._next[a] if b in circle):
            return True
        parted = [pair for pair in self._together((place, place)) if pair[0] != pair[1]]
        return any((place, place) in self._together(pair) for pair in parted)

    def one_after_other(self, first: int, then: int) -> bool:
        """Whether some text leads from `first` to itself, from `first` to `then` and from `then` to itself."""
        if then not in self._reach[first] or not self._symbols[first] & self._symbols[then]:
            return False
        return (first, then, then) in self._together((first, first, then))

    def _reachable(self, place: int) -> set[int]:
        found: set[int] = set()
        todo = [place]
        while todo:
            new = set(self._next[todo.pop()]) - found
            found |= new
            todo += new
        return found

    def _together(self, start: tuple[int, ...]) -> set[tuple[int, ...]]:
        """The tuples of places that one text leads to from those of `start`, each in a circle of its own."""
        found: set[tuple[int, ...]] = set()
        todo = [start]
        while todo:
            for new in self._joint(todo.pop()):
                if new not in found:
                    found.add(new)
                    todo.append(new)
        return found

    def _joint(self, at: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        rows: list[tuple[tuple[int, ...], int]] = [((), -1)]
        for place in at:
            rows = [
                ((*row, after), symbols & self._symbols[after])
                for row, symbols in rows
                for after in self._next[place]
                if symbols & self._symbols[after]
            ]
        self._steps += len(rows)
        if self._steps > _MOST_STEPS:
            raise TooComplicated("is too long to be checked for the time that it may take")
        return [row for row, _ in rows]
