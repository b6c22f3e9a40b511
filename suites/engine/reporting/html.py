"""Pieces of a page: every word is escaped, and pictures and plots share one budget of bytes."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

MOST_BYTES = 3 << 20  # of all pictures and plots of a page


class Room:
    """What is left of a page's bytes; what does not fit is counted.

    Args:
        left: bytes.
    """

    def __init__(self, left: int = MOST_BYTES) -> None:
        self._left = left
        self.left_out = 0

    def take(self, piece: str) -> str:
        """The piece, or nothing where there is no room for it."""
        if len(piece) > self._left:
            self.left_out += 1
            return ""
        self._left -= len(piece)
        return piece


def say(text: object) -> str:
    """A text from anywhere, as text of the page; control characters, which HTML does not have, are left out."""
    return html.escape("".join(c for c in str(text) if c >= " " or c in "\t\n"))


def number(value: object) -> str:
    """A number in four digits, nothing for None; other things as text."""
    return f"{value:.4g}" if isinstance(value, (int, float)) else "" if value is None else say(value)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; numbers stand on the right. Without `head` it has no first row."""
    words = f"<tr>{''.join(f'<th>{say(name)}</th>' for name in head)}</tr>" if head else ""
    lines = (f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{words}{"".join(lines)}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    kind = ' class="number"' if isinstance(value, float) or value is None else ""
    return f"<td{kind}>{number(value)}</td>"


def folded(title: str, text: str) -> str:
    """Text of several lines that opens at a click."""
    return f"<details><summary>{say(title)}</summary><pre>{say(text)}</pre></details>"


def grid(figures: Iterable[str]) -> str:
    """Figures side by side, as many as the width holds."""
    return f'<div class="grid">{"".join(figures)}</div>'


def note(text: str) -> str:
    """A remark on the page itself."""
    return f'<p class="note">{say(text)}</p>'
