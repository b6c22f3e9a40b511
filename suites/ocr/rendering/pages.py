"""Drawn pages: paragraphs of lines in columns, on one ground, seen aslant as a whole.

Letters: H W size of a page, M lines, P points of an outline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np

from suites.ocr.rendering.fonts import Font
from suites.ocr.rendering.look import Ground, Look, bent, laid_on, moved_points, worn

Choose = Callable[[np.random.Generator, Font | None], tuple[str, Font]]  # a text, and a font, the given one if it can
_ROOM = 8  # pixels between the border of a page and its lines
_TRIES = 4  # texts that are tried for a place


class DrawnPage(NamedTuple):
    """A picture uint8 RGB [H, W, 3] with its M outlines, float32 [P, 2], and what they say."""

    image: np.ndarray
    outlines: list[np.ndarray]
    texts: list[str]


def page_picture(
    choose: Choose, look: Look, ground: Ground, size: tuple[int, int], rng: np.random.Generator
) -> DrawnPage:
    """A page of `size` (H, W) with as many lines as fit or fewer."""
    height, width = size
    image = ground(height, width, rng)
    outlines: list[np.ndarray] = []
    texts: list[str] = []
    columns = int(rng.integers(1, 3)) if width >= 16 * look.most else 1
    share = (width - _ROOM) // columns
    for column in range(columns):
        left = _ROOM + column * share
        image = _filled(image, left, left + share - 2 * _ROOM, choose, look, rng, outlines, texts)
    matrix = _seen(size, look, rng)
    image = np.asarray(cv2.warpPerspective(image, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE))
    outlines = [moved_points(outline, matrix).clip(0, (width, height)).astype(np.float32) for outline in outlines]
    return DrawnPage(worn(image, look, look.least, rng), outlines, texts)


def _filled(
    image: np.ndarray, left: int, right: int, choose: Choose, look: Look, rng: np.random.Generator,
    outlines: list[np.ndarray], texts: list[str],
) -> np.ndarray:  # fmt: skip
    """The picture with a column of paragraphs; what they say is added to the lists."""
    down = _ROOM + int(rng.integers(0, 2 * look.most))
    while down < image.shape[0] - look.least - _ROOM:
        _, font = choose(rng, None)
        em = int(rng.integers(look.least, look.most + 1))
        for _ in range(int(rng.integers(1, 6))):
            placed = _line(choose, font, em, right - left, look, rng)
            if placed is None:
                break
            cover, outline, text = placed
            rows, across = cover.shape
            if down + rows > image.shape[0] - _ROOM:
                return image
            at = left + int(rng.integers(0, max((right - left - across) // 4, 0) + 1))
            place = np.s_[down : down + rows, at : at + across]
            image[place] = laid_on(image[place], cover, look.contrast, rng)
            outlines.append(outline + np.array([at, down], np.float32))
            texts.append(text)
            down += rows + max(int(rng.uniform(0.25, 0.9) * em), 4)
        down += int(rng.uniform(0.3, 2.0) * em)
    return image


def _line(
    choose: Choose, font: Font, em: int, room: int, look: Look, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Ink, outline and text of a line that is at most `room` pixels wide; None where none of a few is."""
    for _ in range(_TRIES):
        text, own = choose(rng, font)
        cover = own.drawn(text, em)
        if 0 < cover.shape[1] <= room:
            ink = bent(cover, look.amount(look.curve / 2, rng) * len(cover))
            return ink.cover, ink.outline, text
    return None


def _seen(size: tuple[int, int], look: Look, rng: np.random.Generator) -> np.ndarray:
    """The homography [3, 3] of a page that is turned and lies aslant, around its middle; made smaller to stay whole."""
    height, width = size
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    angle = np.deg2rad(look.amount(look.turn, rng))
    middle = np.array([width, height]) / 2
    moved = (corners - middle) @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    moves = rng.uniform(-1, 1, (4, 2)) * look.slant * look.most
    moved += moves if rng.random() < look.often else 0
    moved *= min(1.0, float((middle / np.abs(moved).max(axis=0)).min()))
    return cv2.getPerspectiveTransform(corners.astype(np.float32), (moved + middle).astype(np.float32))
