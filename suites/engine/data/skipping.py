"""Rows of a file, or files of a set, that cannot be used: left out and named up to a share; above it one error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from framework.errors import AttributeValueError, DataError
from suites.engine.reporting import Tally

_log = logging.getLogger(__name__)
_NAMED = 8  # reasons in a message
MAX_SKIPPED = 0.01  # share of a set that may be unusable, unless its user says otherwise
Row = TypeVar("Row")
Made = TypeVar("Made")


class SetError(DataError):
    """A fault of a whole set, or of what is asked of it, such as a class that is not listed: never skipped."""


class OtherKindError(SetError):
    """Data are not of the kind that is looked for; they may be whole, and another suite may know them."""


def leave_out(what: str, reasons: Sequence[str], total: int, max_skipped: float, noun: str = "rows") -> None:
    """Logs why some of `total` rows of the set `what` are left out.

    Raises:
        AttributeValueError: `max_skipped` is no share.
        DataError: there are more reasons than this share of `total`; it names the first and counts the others.
    """
    check_share(what, max_skipped)
    if len(reasons) > max_skipped * total:
        others = f"; so are {len(reasons) - 1} others of {total} {noun}, max_skipped allows {max_skipped:.3g} of them"
        raise DataError(f"{reasons[0]}{others if len(reasons) > 1 else ''}")
    if reasons:
        named = "; ".join(reasons[:_NAMED]) + (" ..." if len(reasons) > _NAMED else "")
        _log.warning("%s: %d of %d %s are wrong and were left out: %s", what, len(reasons), total, noun, named)


def check_share(what: str, max_skipped: float) -> None:
    """Raises AttributeValueError where `max_skipped` of the set `what` is not in [0, 1]."""
    if not 0 <= max_skipped <= 1:
        raise AttributeValueError(f"{what}: max_skipped is {max_skipped}; it is a share, 0 to 1")


def usable(
    what: str,
    rows: Sequence[Row],
    make: Callable[[Row], Made],
    max_skipped: float,
    left_out: Tally | None = None,
    noun: str = "rows",
) -> list[tuple[Row, Made]]:
    """The rows that `make` takes, each with what it makes of it; it raises DataError for a row that is wrong.

    Wrong rows are logged, and noted in `left_out`; where there are more than this share of them, the first one's error
    is raised. A `SetError` is raised at once.
    """
    found: list[tuple[Row, Made]] = []
    wrong: list[str] = []
    for row in rows:
        try:
            found.append((row, make(row)))
        except SetError:
            raise
        except DataError as error:
            wrong.append(str(error))
    leave_out(what, wrong, len(rows), max_skipped, noun)
    if left_out is not None:
        for reason in wrong:
            left_out.skip(what, reason)
    return found
