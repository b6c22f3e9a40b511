"""Font files: which characters they have, and texts drawn with them. FreeType as matplotlib brings it does the work.

Letters: H W size of a drawn text.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from framework.errors import DataError
from framework.outside import expanded
from suites.ocr.rendering.legible import LETTERS, Legible, legible, models_of

_ENDINGS = (".ttf", ".otf", ".ttc")
_SYSTEM = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "/Library/Fonts", "C:/Windows/Fonts")
_OPEN = 64  # font files that are open at a time
_EM = 48  # pixels of the em that outlines are taken at
_DOTS = 72  # dots an inch, so that a size in points is one in pixels
_SHOWN = 12  # names in a message
_MONGOLIAN = frozenset(map(chr, range(0x1800, 0x18B0)))  # joined letters that run from left to right
_MODELS = ("Sans", "Sans-Bold", "Sans-Oblique", "SansMono", "Serif", "Serif-Italic")  # faces of DejaVu


class Font:
    """A font file.

    Args:
        path: the file; the first font of a collection is taken.

    Raises DataError for a file that is no font, or one of fixed sizes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not _opened(path).scalable:
            raise DataError(f"{path}: is a font of fixed sizes; lines are drawn in many")
        self.characters = frozenset(chr(code) for code in _opened(path).get_charmap() if code <= sys.maxunicode)

    @cached_property
    def legible(self) -> Legible:
        """What its letters are, see `suites.ocr.rendering.legible`."""
        return legible(self.drawn, self._outline, self._name, self.characters, _models)

    @cached_property
    def damaged(self) -> bool:
        """Whether a Latin letter or digit that it has cannot be drawn."""
        return any(self._outline(letter) is None for letter in LETTERS if letter in self.characters)

    def draws(self, character: str) -> bool:
        """Whether it draws a character as itself: not nothing, no box for want of a glyph, no other letter."""
        if character not in self.characters or character in self.legible.wrong:
            return False
        outline = self._outline(character)
        return outline is not None and (outline not in (b"", self._box) or character.isspace())

    def _outline(self, character: str) -> bytes | None:
        """The points of a glyph from its left end on; empty without ink, None where the file is damaged there."""
        font = _opened(self.path)
        font.set_size(_EM, _DOTS)
        try:
            font.load_glyph(font.get_char_index(ord(character)))
        except RuntimeError:
            return None
        return _points(font)

    def _name(self, character: str) -> str:
        font = _opened(self.path)
        return str(font.get_glyph_name(font.get_char_index(ord(character))))

    @cached_property
    def _box(self) -> bytes:
        """The outline of the glyph that stands for all that are not there."""
        font = _opened(self.path)
        font.set_size(_EM, _DOTS)
        try:
            font.load_glyph(0)
        except RuntimeError:
            return b""
        return _points(font)

    def drawn(self, text: str, size: int) -> np.ndarray:
        """How much of each pixel a text covers, uint8 [H, W], as tight as its ink; `size` are pixels of the em.

        Without ink, and where a glyph is not there or damaged at this size, the array is empty.
        """
        font = _opened(self.path)
        if not all(font.get_char_index(ord(character)) for character in text):
            return np.zeros((0, 0), np.uint8)
        font.clear()
        font.set_size(size, _DOTS)
        try:
            font.set_text(text)
            font.draw_glyphs_to_bitmap(antialiased=True)
        except RuntimeError:
            return np.zeros((0, 0), np.uint8)
        ink = np.array(font.get_image(), np.uint8)
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        if not len(rows):
            return np.zeros((0, 0), np.uint8)
        return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _points(font: Any) -> bytes:
    points, kinds = font.get_path()
    return bytes((points - points.min(axis=0) * (1, 0)).tobytes() + kinds.tobytes()) if len(points) else b""


@lru_cache(1)
def _models() -> np.ndarray:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return models_of([Font(folder / f"DejaVu{name}.ttf").drawn for name in _MODELS])


@lru_cache(_OPEN)
def _opened(path: Path) -> Any:
    from matplotlib.ft2font import FT2Font

    try:
        return FT2Font(str(path))
    except (RuntimeError, OSError) as error:
        raise DataError(f"{path}: is no font that FreeType reads ({error})") from None


def fonts_in(places: Sequence[str], strict: bool = True) -> tuple[list[Font], list[str]]:
    """The fonts of files and folders, in order of their paths, and lines on what is left out.

    Args:
        places: files, and folders that are looked through; without any the system's folders, and else matplotlib's own.
        strict: leave out fonts whose letters are signs, and say which have one case alone.

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
    if strict:
        fonts, said = _legible(fonts)
        wrong += said
    if not fonts:
        looked = ", ".join(places or _SYSTEM)
        raise DataError(f"fonts: there is none in {looked}; Debian has packages such as fonts-dejavu")
    return fonts, wrong


def _legible(fonts: Sequence[Font]) -> tuple[list[Font], list[str]]:
    """The fonts whose letters are letters, and lines on the others and on those of one case."""
    kept = [font for font in fonts if not font.legible.signs]
    said = _named(
        [font for font in fonts if font.legible.signs],
        "have letters like no others, signs or ornaments, and are left out",
    )
    for case, other in (("capitals", "small letters"), ("small letters", "capitals")):
        said += _named([font for font in kept if font.legible.case == case], f"have {case} alone and draw no {other}")
    said += _named([font for font in kept if font.damaged], "are damaged; what cannot be drawn of them is not")
    return kept, said


def _having(characters: Sequence[str], fonts: Sequence[Font], strict: bool) -> dict[str, int]:
    """Of each character a bit for each font that has it. Font by font, as few of them are open at a time."""
    having = dict.fromkeys(characters, 0)
    for k, font in enumerate(fonts):
        for character in characters:
            if font.draws(character) if strict else character in font.characters:
                having[character] |= 1 << k
    return having


def _named(fonts: Sequence[Font], what: str) -> list[str]:
    names = ", ".join(font.path.name for font in fonts[:_SHOWN]) + (" ..." if len(fonts) > _SHOWN else "")
    return [f"{len(fonts)} fonts {what}: {names}"] if fonts else []


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
    """A text, and which fonts draw all of its characters: bit k is font k. Numbers would take gigabytes."""

    text: str
    drawn_by: int

    @property
    def fonts(self) -> list[int]:
        """The numbers of these fonts, from the least on."""
        return [k for k, bit in enumerate(reversed(f"{self.drawn_by:b}")) if bit == "1"]


def drawable(texts: Iterable[str], fonts: Sequence[Font], strict: bool = True) -> tuple[list[Drawable], list[str]]:
    """The texts that a font has all characters of, and lines on the others, which name what the fonts lack.

    A text is drawn with one font. So one that only two fonts together have the characters of is left out too, and so is
    one whose writing is more than glyphs side by side: Arabic, Hebrew, Devanagari, letters with combining marks.

    Args:
        texts: to draw.
        fonts: to draw them with.
        strict: a font has what it draws as itself (`Font.draws`); else all that it says it has.
    """
    every = list(texts)
    texts = [text for text in every if not any(map(_joined, text))]
    said = _told_of_joined(every) if len(texts) < len(every) else []
    having = _having(sorted(set().union(*texts)), fonts, strict)
    found, lacking, lines = [], Counter[str](), 0
    for text in texts:
        common = (1 << len(fonts)) - 1
        for character in set(text):
            common &= having[character]
        if common:
            found.append(Drawable(text, common))
        else:
            lines += 1
            absent = [c for c in sorted(set(text)) if not having[c]]
            lacking.update(absent or [c for c in sorted(set(text)) if having[c].bit_count() < len(fonts)])
    if lines:
        said.append(
            f"{lines} of {len(every)} texts are left out: no font has all of their characters: {_often(lacking)}"
        )
    return found, said


def _joined(character: str) -> bool:
    """Whether it runs from right to left, joins its neighbours, or stands on them: glyphs side by side say it wrong."""
    kind = unicodedata.category(character)
    return kind[0] == "M" or unicodedata.bidirectional(character) in ("R", "AL", "AN") or character in _MONGOLIAN


def _told_of_joined(texts: Sequence[str]) -> list[str]:
    counts = Counter(character for text in texts for character in set(text) if _joined(character))
    lines = sum(any(map(_joined, text)) for text in texts)
    return [
        f"{lines} of {len(texts)} texts are left out: right-to-left, joined or combining characters are not drawn: "
        f"{_often(counts)}"
    ]


def _often(counts: Counter[str]) -> str:
    often = sorted(counts, key=lambda c: (-counts[c], c))
    return ", ".join(f"{c!r} in {counts[c]}" for c in often[:_SHOWN]) + (" ..." if len(counts) > _SHOWN else "")
