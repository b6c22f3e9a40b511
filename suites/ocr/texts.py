"""What files say: lists of words, texts to count in or to draw, and what is written in pictures."""

from __future__ import annotations

import unicodedata

from framework.errors import DataError
from framework.outside import expanded, read_bytes
from suites.engine.data.intake.texts import numbered_lines


def lines_of_file(path: str) -> list[tuple[int, str]]:
    """(number from 1, line) of a text file; DataError for one that cannot be read or is no text."""
    try:
        data = read_bytes(expanded(path), "member_bytes", DataError)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return numbered_lines(data, path)


def as_said(text: str) -> str:
    """What is written in a picture, in the one form in which texts are compared: whole letters, no space around."""
    return unicodedata.normalize("NFC", text.strip())
