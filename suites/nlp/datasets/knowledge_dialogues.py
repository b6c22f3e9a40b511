"""KnowledgeDialogues: what to say next, of a goal, facts and what was said, in DuConv's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Pair, read_lines
from suites.nlp.datasets.pairs import PairDataset
from suites.nlp.datasets.rows import parse_json

_MOST = 1000  # turns, facts
_BETWEEN, _FACT, _TURN = " || ", " | ", " ## "


@register("dataset")
class KnowledgeDialogues(PairDataset):
    """Answers of the side that leads a conversation, from a goal and facts (Wu et al. 2019, DuConv).

    A line is a JSON object with `goal` and `knowledge`, lists of triples of texts, and either `conversation`, a list of
    turns of which the first, third, ... are the leader's and become a pair each, or `history` and `response`, one pair.
    The source is `goal || facts || turns`, with ` | ` between facts and ` ## ` between turns; the target is the answer.

    Args:
        path: the file, also inside a zip or `.gz`.
        turns: the last ones before an answer that are read.
        facts: of them so many, the first.
        max_skipped: share of the lines that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        turns: int = 4,
        facts: int = 20,
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        if not (0 <= turns <= _MOST and 0 <= facts <= _MOST):
            raise AttributeValueError(
                f"KnowledgeDialogues: turns is {turns} and facts {facts}; both must be from 0 to {_MOST}"
            )
        self.left_out = Tally()
        lines = [
            (number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line.strip()
        ]

        def read(row: tuple[int, str]) -> list[Pair]:
            return list(_pairs(f"{path}:{row[0]}", row[1], turns, facts))

        made = usable(f"KnowledgeDialogues {path}", lines, read, max_skipped, self.left_out, "lines")
        found = [(number, pair) for (number, _), pairs in made for pair in pairs]
        self._hold(path, [pair for _, pair in found], [str(number) for number, _ in found], [])


def _pairs(where: str, line: str, turns: int, facts: int) -> Iterator[Pair]:
    row = parse_json(where, line)
    if not isinstance(row, dict):
        raise DataError(f"{where}: is a {type(row).__name__}; each line must be a JSON object")
    goal, known = _triples(where, row, "goal"), _triples(where, row, "knowledge")
    about = [_FACT.join(goal), _FACT.join(known[:facts])]
    if "conversation" in row:
        said = _texts(where, row, "conversation")
        answers = [(said[:at], said[at]) for at in range(0, len(said), 2)]
    else:
        response = row.get("response")
        if not isinstance(response, str) or not response.strip():
            raise DataError(f"{where}: has neither 'conversation', a list of turns, nor a 'response' with words")
        answers = [(_texts(where, row, "history", empty=True), response)]
    for before, answer in answers:
        yield Pair(_BETWEEN.join([*about, _TURN.join(before[max(len(before) - turns, 0) :])]).strip(), answer.strip())


def _triples(where: str, row: dict[str, Any], key: str) -> list[str]:
    found = row.get(key)
    if not isinstance(found, list) or not all(
        isinstance(each, list) and each and all(isinstance(part, str) for part in each) for each in found
    ):
        raise DataError(f"{where}: its '{key}' is {str(found)[:40]!r}; it must be a list of lists of texts")
    return [" ".join(part.strip() for part in each) for each in found]


def _texts(where: str, row: dict[str, Any], key: str, *, empty: bool = False) -> list[str]:
    found = row.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) and each.strip() for each in found):
        raise DataError(f"{where}: its '{key}' is {str(found)[:40]!r}; it must be a list of texts with words")
    if not (found or empty):
        raise DataError(f"{where}: its '{key}' is empty")
    return [each.strip() for each in found]
