"""Which letters a font draws as themselves: signs in place of letters, capitals in place of small ones, twins.

A line drawn with the wrong glyph is a wrong label, and nothing later finds it. Shapes are compared with those of
DejaVu, which matplotlib brings: upright, cut to their ink, softened, so that outlines, weights and slants count little.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import cv2
import numpy as np

Drawn = Callable[[str, int], np.ndarray]  # a text and its em in pixels -> uint8 [H, W], as tight as its ink

_EM, _SIDE, _SOFT = 48, 16, 1.5  # pixels: of the em that is drawn, of a shape, of the blur
_SLANT = 0.02  # least slant that is taken out
SMALL, CAPITAL = "abdeghnqrt", "ABDEGHNQRT"  # whose two cases are unlike
LETTERS = string.ascii_letters + string.digits
_SAME = 0.66  # mean likeness of small letters and capitals from which on a font has one case; text fonts have up to 0.4
_KNOWN = 0.2  # share of a font's letters that are most like themselves, below which they are signs
# Names of a Symbol font's glyphs.
_GREEK = frozenset(["alpha", "beta", "delta", "epsilon", "gamma", "eta", "rho", "tau", "theta"])


class Legible(NamedTuple):
    """What a font's letters are.

    Attributes:
        signs: they look like no letters.
        wrong: those that look like others: of a font of one case those of the other, and twins such as l and I.
        case: "capitals" or "small letters" of a font of one case, else empty.
    """

    signs: bool
    wrong: frozenset[str]
    case: str


def legible(
    drawn: Drawn,
    outline: Callable[[str], bytes | None],
    name: Callable[[str], str],
    characters: frozenset[str],
    models: Callable[[], np.ndarray],
) -> Legible:
    """What the Latin letters and digits of a font are; of a font without them nothing is said.

    Args:
        drawn: draws with the font.
        outline: of a character, the same for those that are drawn the same; None of a damaged one.
        name: of a character's glyph: fonts such as Symbol have alpha where others have a.
        characters: that the font has.
        models: the faces to compare with, see `models_of`; asked for only if the font has Latin letters.
    """
    wrong: set[str] = set()
    case = ""
    if characters.issuperset(SMALL + CAPITAL):
        small, capital = _shapes(drawn, SMALL), _shapes(drawn, CAPITAL)
        if float((small * capital).sum(axis=1).mean()) > _SAME:
            upper, lower = (_like(small, models(), letters) for letters in (CAPITAL, SMALL))
            case = "capitals" if upper > lower else "small letters"
            wrong |= set(string.ascii_lowercase if upper > lower else string.ascii_uppercase)
        known = [*_known(small, SMALL, models()), *_known(capital, CAPITAL, models())]
        if np.mean(known) < _KNOWN or sum(name(letter) in _GREEK for letter in SMALL) > len(SMALL) // 2:
            return Legible(True, characters & frozenset(LETTERS), case)
    groups = defaultdict(list)
    for character in LETTERS:
        if character in characters and character not in wrong:
            groups[outline(character)].append(character)
    damaged = groups.pop(None, [])
    wrong |= {character for group in groups.values() if len(group) > 1 for character in group}.union(damaged)
    return Legible(False, frozenset(wrong), case)


def _shapes(drawn: Drawn, letters: str) -> np.ndarray:
    """float32 [K, S * S], letters without their mean and of length 1."""
    shapes = np.stack([_shape(drawn(letter, _EM)) for letter in letters]).reshape(len(letters), -1)
    shapes -= shapes.mean(axis=1, keepdims=True)
    return shapes / (np.linalg.norm(shapes, axis=1, keepdims=True) + 1e-6)


def _shape(ink: np.ndarray) -> np.ndarray:
    """Ink uint8 [H, W] upright, cut out, softened, float32 [S, S]."""
    if not ink.any():
        return np.zeros((_SIDE, _SIDE), np.float32)
    ink = ink.astype(np.float32)
    moments = cv2.moments(ink)
    slant = moments["mu11"] / moments["mu02"] if moments["mu02"] > 1 else 0.0
    if abs(slant) > _SLANT:
        height, width = ink.shape
        room = int(abs(slant) * height) + 1
        move = np.array([[1, -slant, slant * height / 2 + room / 2], [0, 1, 0]], np.float32)
        ink = np.asarray(cv2.warpAffine(ink, move, (width + 2 * room, height)))
        columns = np.flatnonzero(ink.max(axis=0) > 20)
        ink = ink[:, columns[0] : columns[-1] + 1] if len(columns) else ink
    return np.asarray(cv2.resize(cv2.GaussianBlur(ink, (0, 0), _SOFT), (_SIDE, _SIDE), interpolation=cv2.INTER_AREA))


def models_of(faces: Sequence[Drawn]) -> np.ndarray:
    """The shapes of `LETTERS` in faces to compare with, [R, K, S * S]."""
    return np.stack([_shapes(drawn, LETTERS) for drawn in faces])


def _like(shapes: np.ndarray, models: np.ndarray, letters: str) -> float:
    """The mean likeness of shapes to these letters of the face that is most like them."""
    own = models[:, [LETTERS.index(letter) for letter in letters]]
    return float((own * shapes).sum(axis=2).mean(axis=1).max())


def _known(shapes: np.ndarray, letters: str, models: np.ndarray) -> list[bool]:
    """Whether each shape is most like its own letter, of either case."""
    nearest = np.einsum("kd,rld->krl", shapes, models).max(axis=1).argmax(axis=1)
    return [LETTERS[at].lower() == letter.lower() for at, letter in zip(nearest, letters, strict=True)]
