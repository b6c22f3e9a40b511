"""Pictures of two styles, unpaired. Letters: S side in pixels."""

from __future__ import annotations

from typing import Any, Literal

import cv2
import numpy as np

from suites.engine.registry import register, register_role

STYLES = {"chalk": ((32, 40, 32), (235, 235, 225)), "ink": ((250, 240, 200), (30, 40, 160))}  # RGB: paper, pen


class Style:
    """Base of data sets of pictures in one style; `picture(i)` is uint8 RGB [S, S, 3]."""

    def __len__(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def picture(self, index: int) -> np.ndarray:
        """Picture `index`."""
        raise NotImplementedError

    def name_of(self, index: int) -> str:
        """What messages call it."""
        return f"{type(self).__name__}{index:04d}.png"


register_role("style", Style, doc="Pictures in one style.", suite="cyclegan")


@register("style", suite="cyclegan")
class DigitStyle(Style):
    """Handwritten digits of scikit-learn (Alpaydin and Kaynak 1998), drawn with one pen on one paper.

    Each style has every second picture, so that no digit is in both.

    Args:
        style: "chalk", white on a board, or "ink", blue on yellowish paper.
        count: how many, from the start.
        size: S.
        first: how many are left out before.
    """

    def __init__(self, style: Literal["chalk", "ink"], count: int = 400, size: int = 16, first: int = 0) -> None:
        from sklearn.datasets import load_digits

        places = slice(first * 2 + list(STYLES).index(style), None, 2)
        self._strength = (load_digits().images[places][:count] / 16).astype(np.float32)
        self._paper, self._pen = (np.array(colour, np.float32) for colour in STYLES[style])
        self._style, self._size = style, size

    def __len__(self) -> int:
        """How many there are."""
        return len(self._strength)

    def picture(self, index: int) -> np.ndarray:
        """uint8 RGB [S, S, 3]."""
        strength = cv2.resize(self._strength[index], (self._size, self._size), interpolation=cv2.INTER_CUBIC)
        strength = strength.clip(0, 1)[..., None]
        return (self._paper * (1 - strength) + self._pen * strength).round().astype(np.uint8)

    def name_of(self, index: int) -> str:
        """Style and place."""
        return f"{self._style}{index:04d}.png"


class Pairs:
    """Samples of both styles: picture `index` of the first and any of the second."""

    def __init__(self, a: Style, b: Style) -> None:
        self._a, self._b = a, b

    def __len__(self) -> int:
        return len(self._a)

    def sample(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """`a`, `b`: float32 [S, S, 3] in [-1, 1]; `name` of both."""
        other = int(rng.integers(len(self._b)))
        pictures = {"a": to_array(self._a.picture(index)), "b": to_array(self._b.picture(other))}
        flipped = {name: p[:, ::-1].copy() if rng.random() < 0.5 else p for name, p in pictures.items()}
        return {**flipped, "name": f"{self._a.name_of(index)} {self._b.name_of(other)}"}

    def name_of(self, index: int) -> str:
        """The picture of the first style."""
        return self._a.name_of(index)


class Singles:
    """Pictures of one style, in order, as `images` float32 [S, S, 3]."""

    def __init__(self, pictures: Style) -> None:
        self._pictures = pictures

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"images": to_array(self._pictures.picture(index)), "name": self._pictures.name_of(index)}

    def name_of(self, index: int) -> str:
        """What messages call it."""
        return self._pictures.name_of(index)


def to_array(picture: np.ndarray) -> np.ndarray:
    """uint8 to float32 in [-1, 1]."""
    return picture.astype(np.float32) / 127.5 - 1


def to_picture(array: np.ndarray) -> np.ndarray:
    """Float32 in [-1, 1] to uint8."""
    return ((np.asarray(array) + 1) * 127.5).round().clip(0, 255).astype(np.uint8)
