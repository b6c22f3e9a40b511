"""Case: a single sample that a report shows, such as one of the worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MARKS = ("", "right", "wrong")  # how a run of a text is shown
Marked = Sequence[tuple[str, str]]  # runs of a text, each with one of `MARKS`


@dataclass(frozen=True)
class Case:
    """A sample of the evaluation set that is worth a look.

    Attributes:
        index: of the sample.
        why: what is the matter with it, in a few words.
        detail: what `ShowsCases.show_case` needs beside the sample.
    """

    index: int
    why: str
    detail: Any = None
