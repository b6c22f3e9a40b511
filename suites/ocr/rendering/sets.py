"""Sets of drawn lines and pages on disk, in the forms that `LineList`, `IcdarText` and `PaddleText` read.

Picture k depends on the seed, k, the texts, the fonts and the look alone: the same again bit for bit.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from framework import limits
from framework.atomic import write_text
from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.data.sources import open_source
from suites.ocr.alphabet import Alphabet
from suites.ocr.rendering.fonts import Drawable, Font, drawable
from suites.ocr.rendering.look import Ground, Look, line_picture, plain_ground
from suites.ocr.rendering.pages import page_picture
from suites.ocr.texts import lines_of_file
from suites.vision.files import pictures_below
from suites.vision.pictures.images import decode_image, write_image

_MOST_CHARACTERS = 2_000  # of a text
_MOST_PICTURES = 1_000_000
_TRIES = 8  # fonts for a text
_TEXTS = 3  # streams of random numbers beside those of the pictures


@dataclass(frozen=True)
class Render:
    """What is drawn with what.

    Args:
        texts: lines of text.
        fonts: to draw them with.
        look: how they vary.
        ground: what they are drawn on.
        seed: of all that is drawn at random.
    """

    texts: Sequence[Drawable]
    fonts: Sequence[Font]
    look: Look
    ground: Ground = plain_ground
    seed: int = 0

    def lines(self, folder: Path, name: str, count: int) -> Path:
        """Write `count` lines below `folder`/`name` and their list `folder`/`name`.txt, which is returned."""
        order = np.random.default_rng((self.seed, _TEXTS)).permutation(len(self.texts))
        rows = []
        for k in range(_checked(count)):
            rng = np.random.default_rng((self.seed, k, 0))
            chosen = self.texts[order[k % len(order)]]
            text, cover = chosen.text, self._cover(chosen, rng)
            _check_pixels(cover.size)
            if not cover.size:
                continue
            file = f"{name}/{k:06d}.jpg"
            write_image(folder / file, line_picture(cover, self.look, self.ground, rng))
            rows.append(f"{file}\t{text}\n")
        return _listed(folder / f"{name}.txt", rows)

    def pages(self, folder: Path, name: str, count: int, size: tuple[int, int]) -> Path:
        """Write `count` pages of `size` (H, W) in ICDAR's form, and PaddleOCR's list `folder`/`name`.txt."""
        _check_pixels(size[0] * size[1])
        if min(size) < 2 * self.look.most:
            raise AttributeValueError(f"pages: are {size[0]} x {size[1]}; the sides have {2 * self.look.most} or more")
        rows = []
        for k in range(_checked(count)):
            rng = np.random.default_rng((self.seed, k, 1))
            page = page_picture(self._chosen, self.look, self.ground, size, rng)
            file = f"{name}_images/{k:06d}.jpg"
            write_image(folder / file, page.image)
            corners = [np.round(quad_of(outline), 1).ravel().tolist() for outline in page.outlines]
            told = "".join(f"{','.join(map(_short, c))},{text}\n" for c, text in zip(corners, page.texts, strict=True))
            write_text(folder / f"{name}_gts" / f"gt_{k:06d}.txt", told)
            outlines = [np.round(outline.astype(np.float64), 1).tolist() for outline in page.outlines]
            pairs = zip(page.texts, outlines, strict=True)
            texts = [{"transcription": text, "points": points} for text, points in pairs]
            rows.append(f"{file}\t{json.dumps(texts, ensure_ascii=False)}\n")
        return _listed(folder / f"{name}.txt", rows)

    def _cover(self, chosen: Drawable, rng: np.random.Generator) -> np.ndarray:
        """Its ink; empty where a few fonts, by their damage, gave none."""
        fonts = chosen.fonts
        for _ in range(_TRIES):
            cover = self.fonts[fonts[rng.integers(len(fonts))]].drawn(chosen.text, self._size(rng))
            if cover.size:
                break
        return cover

    def _size(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.look.least, self.look.most + 1))

    def _chosen(self, rng: np.random.Generator, wanted: Font | None) -> tuple[str, Font]:
        chosen = self.texts[int(rng.integers(len(self.texts)))]
        fonts = chosen.fonts
        own = next((self.fonts[k] for k in fonts if self.fonts[k] is wanted), None)
        return chosen.text, own or self.fonts[fonts[rng.integers(len(fonts))]]


def quad_of(outline: np.ndarray) -> np.ndarray:
    """The rectangle of least area around an outline [P, 2], float32 [4, 2] from the upper left on; four stay four."""
    if len(outline) == 4:
        return outline
    corners = cv2.boxPoints(cv2.minAreaRect(outline))
    return np.roll(corners, -int(corners.sum(axis=1).argmin()), axis=0)


def _short(number: float) -> str:
    return f"{number:g}"


def _checked(count: int) -> int:
    if not 1 <= count <= _MOST_PICTURES:
        raise AttributeValueError(f"render: count is {count}; it lies between 1 and {_MOST_PICTURES}")
    return count


def _check_pixels(pixels: int) -> None:
    most = limits.current().pixels
    if pixels > most:
        raise DataError(f"render: a picture would have {pixels} pixels; limit pixels={most}")


def _listed(path: Path, rows: Sequence[str]) -> Path:
    write_text(path, "".join(rows))
    return path


def lines_in(paths: Sequence[str]) -> list[str]:
    """The lines of text files that are not empty, with single spaces, in NFC, each once.

    Raises DataError for one that is too long.
    """
    found: dict[str, None] = {}
    for path in paths:
        for number, line in lines_of_file(path):
            text = unicodedata.normalize("NFC", " ".join(line.split()))  # a letter and its accent are one glyph
            if len(text) > _MOST_CHARACTERS:
                raise DataError(f"{path}:{number}: has {len(text)} characters; a line has {_MOST_CHARACTERS} at most")
            if text:
                found[text] = None
    return list(found)


def random_texts(alphabet: Alphabet, length: tuple[int, int], count: int, seed: int) -> list[str]:
    """`count` texts of random characters, `length` (least, most) of them each, without spaces at the ends or twice."""
    least, most = length
    if not 1 <= least <= most <= _MOST_CHARACTERS:
        raise AttributeValueError(f"render: lengths are {least} to {most}; they lie between 1 and {_MOST_CHARACTERS}")
    rng = np.random.default_rng((seed, _TEXTS, 1))
    letters = np.array(alphabet.characters)
    drawn = ("".join(rng.choice(letters, int(rng.integers(least, most + 1)))) for _ in range(count))
    return [text for each in drawn if (text := " ".join(each.split()))]


def grounds_in(folder: str) -> Ground:
    """Parts of the pictures of a folder, cut out at random, softened so that writing stays legible."""
    source = open_source(folder)
    names = pictures_below(source)
    if not names:
        raise DataError(f"backgrounds: {folder} has no pictures")

    def ground(height: int, width: int, rng: np.random.Generator) -> np.ndarray:
        name = names[int(rng.integers(len(names)))]
        image = decode_image(source.read(name), name)
        factor = max(1.0, height / image.shape[0], width / image.shape[1])
        if factor > 1:
            size = max(width, round(image.shape[1] * factor)), max(height, round(image.shape[0] * factor))
            image = np.asarray(cv2.resize(image, size))
        top = int(rng.integers(image.shape[0] - height + 1))
        left = int(rng.integers(image.shape[1] - width + 1))
        part = image[top : top + height, left : left + width].astype(np.float32)
        mean = part.mean(axis=(0, 1))
        return np.clip(mean + (part - mean) * rng.uniform(0.2, 0.6), 0, 255).astype(np.uint8)

    return ground


Say = Callable[[str], None]


def checked_texts(texts: Sequence[str], fonts: Sequence[Font], say: Say, strict: bool = True) -> list[Drawable]:
    """The texts that can be drawn, see `drawable`; what cannot is said. ConfigError where nothing can."""
    found, lines = drawable(texts, fonts, strict)
    for line in lines:
        say(line)
    if not found:
        raise ConfigError("render: there is no text that a font can draw; name other texts or --fonts")
    return found
