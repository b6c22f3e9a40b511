"""Font files: which characters they have, and texts drawn with them. FreeType as matplotlib brings it does the work.

Letters: H W size of a drawn text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from framework.errors import DataError
from framework.outside import expanded

_ENDINGS = (".ttf", ".otf", ".ttc")
_SYSTEM = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "/Library/Fonts", "C:/Windows/Fonts")
_OPEN = 64  # font files that are open at a time
_DOTS = 72  # dots an inch, so that a size in points is one in pixels
_SHOWN = 12  # names in a message


class Font:
    """A font file.

    Args:
        path: the file; the first font of a collection is taken.

    Raises DataError for a file that is no font.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.characters = frozenset(map(chr, _opened(path).get_charmap()))

    def drawn(self, text: str, size: int) -> np.ndarray:
        """How much of each pixel a text covers, uint8 [H, W], as tight as its ink; `size` are pixels of the em."""
        font = _opened(self.path)
        font.clear()
        font.set_size(size, _DOTS)
        font.set_text(text)
        font.draw_glyphs_to_bitmap(antialiased=True)
        ink = np.array(font.get_image(), np.uint8)
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        if not len(rows):
            return np.zeros((0, 0), np.uint8)
        return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@lru_cache(_OPEN)
def _opened(path: Path) -> Any:
    from matplotlib.ft2font import FT2Font

    try:
        return FT2Font(str(path))
    except (RuntimeError, OSError) as error:
        raise DataError(f"{path}: is no font that FreeType reads ({error})") from None


def fonts_in(places: Sequence[str]) -> tuple[list[Font], list[str]]:
    """The fonts of files and folders, in order of their paths, and a line on each file that is none.

    Args:
        places: files, and folders that are looked through; without any the system's folders, and else matplotlib's own.

    Raises:
        DataError: a place is not there, or there is no font.
    """
    if places:
        files = [file for place in places for file in _files(expanded(place))]
    else:
        files = [file for place in _SYSTEM if expanded(place).is_dir() for file in _files(expanded(place))]
        files = files or _bundled()
    fonts, wrong = [], []
    for file in dict.fromkeys(files):
        try:
            fonts.append(Font(file))
        except DataError as error:
            wrong.append(str(error))
    if not fonts:
        looked = ", ".join(places or _SYSTEM)
        raise DataError(f"fonts: there is none in {looked}; Debian has packages such as fonts-dejavu")
    return fonts, wrong


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise DataError(f"fonts: {place} is no file and no folder")
    return sorted(file for file in place.rglob("*") if file.suffix.lower() in _ENDINGS and file.is_file())


def _bundled() -> list[Path]:
    import matplotlib

    return sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVu*.ttf"))


class Drawable(NamedTuple):
    """A text, and the numbers of the fonts that have all of its characters."""

    text: str
    fonts: tuple[int, ...]


def drawable(texts: Iterable[str], fonts: Sequence[Font]) -> tuple[list[Drawable], list[str]]:
    """The texts that a font has all characters of, and lines on the others, which name what the fonts lack.

    A text is drawn with one font. So one that only two fonts together have the characters of is left out too.
    """
    having: dict[str, int] = {}  # of a character, a bit for each font
    found, lacking, lines = [], Counter[str](), 0
    count = 0
    for text in texts:
        count += 1
        common = (1 << len(fonts)) - 1
        for character in set(text):
            if character not in having:
                having[character] = sum(1 << k for k, font in enumerate(fonts) if character in font.characters)
            common &= having[character]
        if common:
            found.append(Drawable(text, tuple(k for k in range(len(fonts)) if common >> k & 1)))
        else:
            lines += 1
            absent = [c for c in sorted(set(text)) if not having[c]]
            lacking.update(absent or [c for c in sorted(set(text)) if having[c].bit_count() < len(fonts)])
    if not lines:
        return found, []
    often = sorted(lacking, key=lambda c: (-lacking[c], c))
    named = ", ".join(f"{c!r} in {lacking[c]}" for c in often[:_SHOWN]) + (" ..." if len(often) > _SHOWN else "")
    return found, [f"{lines} of {count} texts are left out: no font has all of their characters: {named}"]
