"""Look: how a drawn line varies. Ink is bent and seen aslant; then it is laid on a ground, blurred, and noise added.

Letters: H W size of ink or a picture, P points of an outline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from framework.errors import AttributeValueError

Ground = Callable[[int, int, np.random.Generator], np.ndarray]  # height, width -> uint8 RGB [H, W, 3]
_ALONG = 7  # points of an outline along a side that is bent
_LUMINANCE = np.array([0.299, 0.587, 0.114])


class Ink(NamedTuple):
    """How much of each pixel is covered, uint8 [H, W], and the outline of what is written, float32 [P, 2]."""

    cover: np.ndarray
    outline: np.ndarray


@dataclass(frozen=True)
class Look:
    """How much lines vary; each amount is the most of an even draw, and applied as often as `often` says.

    Args:
        least, most: range of the em in pixels.
        curve: rise of the middle over the ends, as a share of the height.
        slant: move of a corner, as a share of the height.
        turn: degrees that a line or page is turned by.
        margin: pixels around a line's ink, as a share of the height.
        blur: standard deviation, as a share of the height.
        noise: standard deviation, of 255.
        contrast: least distance of the colours' luminance, of 255.
        often: probability of each change.
    """

    least: int = 20
    most: int = 48
    curve: float = 0.3
    slant: float = 0.15
    turn: float = 3.0
    margin: float = 0.3
    blur: float = 0.04
    noise: float = 0.06
    contrast: float = 70.0
    often: float = 0.5

    def __post_init__(self) -> None:
        if not 8 <= self.least <= self.most <= 512:
            raise AttributeValueError(f"look: sizes are {self.least} to {self.most}; they lie between 8 and 512 pixels")
        small = min(self.curve, self.slant, self.turn, self.margin, self.blur, self.noise)
        if small < 0 or self.curve > 2 or self.slant > 0.4 or self.margin > 2 or self.blur > 1 or self.noise > 1:
            raise AttributeValueError(
                f"look: curve {self.curve}, slant {self.slant}, turn {self.turn}, margin {self.margin}, blur "
                f"{self.blur} and noise {self.noise} must be 0 or more, and at most 2, 0.4, -, 2, 1 and 1"
            )
        if not 0 <= self.contrast <= 120 or not 0 <= self.often <= 1:
            raise AttributeValueError(
                f"look: contrast is {self.contrast} and often {self.often}; they lie between 0 and 120, 0 and 1"
            )

    def amount(self, most: float, rng: np.random.Generator) -> float:
        """A draw between -most and most, or 0."""
        drawn = float(rng.uniform(-most, most))
        return drawn if rng.random() < self.often else 0.0


def bent(cover: np.ndarray, rise: float) -> Ink:
    """Ink [H, W] whose middle is raised by `rise` pixels over its ends (lowered where it is below 0)."""
    height, width = cover.shape
    room = int(np.ceil(abs(rise)))
    if not room:
        return Ink(cover, np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32))
    columns = np.arange(width, dtype=np.float32)
    shift = (rise * np.sin(np.pi * (columns + 0.5) / width) - max(rise, 0.0)).astype(np.float32)
    rows = np.arange(height + room, dtype=np.float32)[:, None] + shift
    moved = cv2.remap(cover, np.broadcast_to(columns, rows.shape).copy(), rows, cv2.INTER_LINEAR)
    along = np.linspace(0, width, _ALONG)
    down = max(rise, 0.0) - rise * np.sin(np.pi * along / width)
    upper, lower = np.stack([along, down], axis=1), np.stack([along, down + height], axis=1)
    return Ink(np.asarray(moved), np.concatenate([upper, lower[::-1]]).astype(np.float32))


def aslant(ink: Ink, look: Look, rng: np.random.Generator) -> Ink:
    """Ink turned, and with its corners moved, on as much room as it takes."""
    height, width = ink.cover.shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)
    angle = np.deg2rad(look.amount(look.turn, rng))
    turned = corners @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    moves = rng.uniform(-1, 1, (4, 2)) * look.slant * height
    moved = turned + (moves if rng.random() < look.often else 0)
    if np.array_equal(moved, corners):
        return ink
    moved -= moved.min(axis=0)
    size = np.ceil(moved.max(axis=0)).astype(int)
    matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), moved.astype(np.float32))
    cover = cv2.warpPerspective(ink.cover, matrix, (int(size[0]), int(size[1])), flags=cv2.INTER_LINEAR)
    return Ink(np.asarray(cover), moved_points(ink.outline, matrix))


def moved_points(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points [P, 2] seen through a homography [3, 3], float32."""
    return cv2.perspectiveTransform(points[None].astype(np.float64), matrix)[0].astype(np.float32)


def padded(ink: Ink, top: int, bottom: int, left: int, right: int) -> Ink:
    """Ink with so many empty pixels around it."""
    return Ink(np.pad(ink.cover, ((top, bottom), (left, right))), ink.outline + np.array([left, top], np.float32))


def laid_on(ground: np.ndarray, ink: np.ndarray, contrast: float, rng: np.random.Generator) -> np.ndarray:
    """A ground uint8 [H, W, 3] with ink [H, W] of a colour that stands out from it."""
    level = float((ground.reshape(-1, 3) @ _LUMINANCE).mean())
    for _ in range(_TRIES):
        colour = rng.integers(0, 256, 3)
        if abs(float(colour @ _LUMINANCE) - level) >= contrast:
            break
    else:
        colour = np.full(3, 0 if level > 127 else 255)
    cover = ink[..., None].astype(np.float32) / 255
    return np.round(ground * (1 - cover) + colour.astype(np.float32) * cover).astype(np.uint8)


_TRIES = 32


def worn(image: np.ndarray, look: Look, height: float, rng: np.random.Generator) -> np.ndarray:
    """A picture uint8 [H, W, 3] blurred and with noise; `height` is its lines' in pixels."""
    sigma = abs(look.amount(look.blur, rng)) * height
    if sigma > 0.2:
        image = np.asarray(cv2.GaussianBlur(image, (0, 0), sigma))
    level = abs(look.amount(look.noise, rng)) * 255
    if level > 0.5:
        image = np.clip(np.round(image + rng.normal(0, level, image.shape)), 0, 255).astype(np.uint8)
    return image


def plain_ground(height: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """One colour that grows lighter or darker in one direction, with spots: paper, a wall."""
    light = rng.random() < 0.7
    base = rng.integers(150, 256, 3) if light else rng.integers(0, 110, 3)
    slope = rng.uniform(-20, 20, 2)
    across = np.linspace(-1, 1, width)[None] * slope[0] + np.linspace(-1, 1, height)[:, None] * slope[1]
    cells = rng.uniform(-1, 1, (max(height // 16, 2), max(width // 16, 2))) * rng.uniform(0, 15)
    spots = cv2.resize(cells, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.clip(base + (across + spots)[..., None], 0, 255).astype(np.uint8)


def line_picture(cover: np.ndarray, look: Look, ground: Ground, rng: np.random.Generator) -> np.ndarray:
    """A picture uint8 RGB [H, W, 3] of one line of ink [h, w]."""
    ink = aslant(bent(cover, look.amount(look.curve, rng) * len(cover)), look, rng)
    top, bottom, left, right = (1 + rng.uniform(0, look.margin, 4) * len(cover)).astype(int)
    ink = padded(ink, top, bottom, left, right)
    height, width = ink.cover.shape
    return worn(laid_on(ground(height, width, rng), ink.cover, look.contrast, rng), look, len(cover), rng)
