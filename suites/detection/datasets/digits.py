"""DigitScenes: the demo's data, real handwritten digits on real photographs, composed when asked for.

Digits: scikit-learn's copy of the UCI optical digits (1797 of 8x8 pixels, 13 writers, in writers' order;
E. Alpaydin and C. Kaynak, 1998). Photographs: the two that scikit-learn ships, china.jpg and flower.jpg.
"""

from __future__ import annotations

import importlib.resources
import logging
from typing import Literal

import cv2
import numpy as np

from framework.errors import AttributeValueError
from suites.detection.datasets.base import DetectionDataset
from suites.detection.sample import GroundTruth, Sample
from suites.engine.registry import register
from suites.vision.pictures.images import decode_image
from suites.vision.structures import Boxes, Instances

Split = Literal["train", "val", "test"]
_log = logging.getLogger(__name__)

_PHOTOS = ("china.jpg", "flower.jpg")
# Share of the digits, in file order, at which each split starts and ends: writers differ between splits.
_DIGITS: dict[str, tuple[float, float]] = {"train": (0.0, 0.7), "val": (0.7, 0.8), "test": (0.8, 1.0)}
# Share of each photograph's width that a split's backgrounds come from: val and test never show train's.
_STRIPS: dict[str, tuple[float, float]] = {"train": (0.0, 0.65), "val": (0.65, 1.0), "test": (0.65, 1.0)}
_SPLIT_KEYS = {"train": 1, "val": 2, "test": 3}
_GLYPH = 40  # pixels: side of the smooth enlarged digit, 32 plus an empty margin of 4
_MARGIN = 4
_INK = 96  # of 255: pixels at least this opaque count for a digit's box
_MIN_CONTRAST = 80.0  # grey levels between a digit and what lies behind it
_MAX_IOU = 0.02
_TRIES = 20


@register("dataset")
class DigitScenes(DetectionDataset):
    """Photographs with 1 to `max_digits` handwritten digits on them; classes "0" to "9".

    Scene i of (seed, split, size) is always the same picture. The splits share no digit image, no writer but
    at the two borders, and train shares no part of a photograph with val and test.

    Args:
        split: "train", "val" or "test".
        length: Number of scenes.
        size: Side of the square picture, in pixels.
        min_digits, max_digits: How many digits a scene holds; fewer where no free place is found.
        min_side, max_side: Side of the enlarged 8x8 digit before turning, in pixels; boxes are a bit smaller.
        max_turn: Largest rotation, in degrees, either way.
        seed: Chooses the scenes.
    """

    def __init__(
        self,
        split: Split = "train",
        length: int = 1000,
        *,
        size: int = 160,
        min_digits: int = 1,
        max_digits: int = 6,
        min_side: float = 32.0,
        max_side: float = 72.0,
        max_turn: float = 15.0,
        seed: int = 0,
    ) -> None:
        if split not in _SPLIT_KEYS:
            raise AttributeValueError(f"DigitScenes: split is {split!r}; it must be train, val or test")
        if length < 1 or not 1 <= min_digits <= max_digits:
            raise AttributeValueError(
                f"DigitScenes: length is {length}, digits {min_digits} to {max_digits}; length and min_digits "
                "must be at least 1 and max_digits no less than min_digits"
            )
        if not 8 <= min_side <= max_side <= size / 1.5:
            raise AttributeValueError(
                f"DigitScenes: sides are {min_side} to {max_side} in a picture of {size}; needed is "
                "8 <= min_side <= max_side <= size / 1.5"
            )
        self.class_names = tuple("0123456789")
        self._split, self._length, self._size, self._seed = split, length, size, seed
        self._digits = (min_digits, max_digits)
        self._sides = (min_side, max_side)
        self._max_turn = max_turn
        self._glyphs, self._glyph_labels = _load_glyphs(split)
        self._photos = _load_strips(split)
        _log.info(
            "DigitScenes %s: %d scenes of %dx%d, %d handwritten digits on %d photographs",
            *(split, length, size, size, len(self._glyphs), len(self._photos)),
        )

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        rng = self._rng(index)
        placed = self._place(rng)
        image = self._background(rng)
        for _, box, alpha in placed:
            _paint(image, box, alpha, rng)
        return Sample(image=image, instances=_instances(placed), image_id=index)

    def name_of(self, index: int) -> str:
        """What identifies the scene."""
        return f"DigitScenes {self._split} scene {index} of seed {self._seed}"

    def ground_truth(self) -> GroundTruth:
        """All boxes of all scenes; places the digits but paints nothing."""
        scenes = [self._place(self._rng(index)) for index in range(self._length)]
        instances = [_instances(placed) for placed in scenes]
        joined = Instances.joined(instances)
        return GroundTruth(
            class_names=self.class_names,
            image_ids=np.arange(self._length),
            sizes=np.full((self._length, 2), self._size, np.int32),
            offsets=np.cumsum([0, *map(len, instances)]),
            boxes=joined.boxes.array.astype(np.float64),
            classes=joined.classes,
            areas=joined.boxes.areas.astype(np.float64),
            difficult=joined.difficult,
            crowd=joined.crowd,
            category_ids=np.arange(10),
        )

    def _rng(self, index: int) -> np.random.Generator:
        if not 0 <= index < self._length:
            raise IndexError(f"DigitScenes: scene {index} of {self._length}")
        return np.random.default_rng([self._seed, _SPLIT_KEYS[self._split], index])

    def _place(self, rng: np.random.Generator) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Chooses digits and free places; each is (label, int box of its ink [4], alpha uint8 [h, w])."""
        placed: list[tuple[int, np.ndarray, np.ndarray]] = []
        for _ in range(int(rng.integers(self._digits[0], self._digits[1] + 1))):
            at = int(rng.integers(len(self._glyphs)))
            side = float(np.exp(rng.uniform(*np.log(self._sides))))
            alpha = _turned(self._glyphs[at], side, float(rng.uniform(-self._max_turn, self._max_turn)))
            height, width = alpha.shape
            for _ in range(_TRIES):
                x, y = rng.integers(0, (self._size - width + 1, self._size - height + 1)).tolist()
                box = np.array([x, y, x + width, y + height])
                if all(_iou(box, other) <= _MAX_IOU for _, other, _ in placed):
                    placed.append((int(self._glyph_labels[at]), box, alpha))
                    break
        return placed

    def _background(self, rng: np.random.Generator) -> np.ndarray:
        """A random square of a random photograph, perhaps mirrored, of random brightness: uint8 [S, S, 3]."""
        photo = self._photos[int(rng.integers(len(self._photos)))]
        height, width = photo.shape[:2]
        side = int(rng.integers(min(height, width) // 2, min(height, width) + 1))
        x, y = rng.integers(0, (width - side + 1, height - side + 1)).tolist()
        image = cv2.resize(photo[y : y + side, x : x + side], (self._size, self._size))
        if rng.random() < 0.5:
            image = cv2.flip(image, 1)
        return cv2.convertScaleAbs(image, alpha=float(rng.uniform(0.6, 1.2)))


def _load_glyphs(split: str) -> tuple[np.ndarray, np.ndarray]:
    """The split's digits as opacities, uint8 [D, 40, 40], and their labels, int64 [D]."""
    from sklearn.datasets import load_digits  # a second to import: only who asks for digits waits

    digits = load_digits()
    first, last = (round(share * len(digits.images)) for share in _DIGITS[split])
    small = np.clip(digits.images[first:last] * (255 / 16), 0, 255).astype(np.uint8)
    side = _GLYPH - 2 * _MARGIN
    glyphs = np.zeros((len(small), _GLYPH, _GLYPH), np.uint8)
    for glyph, pixels in zip(glyphs, small, strict=True):
        large = cv2.resize(pixels, (side, side), interpolation=cv2.INTER_CUBIC)
        glyph[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN] = large
    return _cleared(glyphs), digits.target[first:last].astype(np.int64)


def _cleared(glyphs: np.ndarray) -> np.ndarray:
    """Clears the faint halo of enlarged pixels; a steeper ramp would fill the loops of 6, 8 and 9."""
    table = np.clip((np.arange(256) - 60) * (255 / 140), 0, 255).astype(np.uint8)
    return table[glyphs]


def _load_strips(split: str) -> list[np.ndarray]:
    """The split's part of each photograph: uint8 [427, W, 3]."""
    strips = []
    for name in _PHOTOS:
        file = importlib.resources.files("sklearn.datasets.images").joinpath(name)
        photo = decode_image(file.read_bytes(), str(file))
        first, last = (round(share * photo.shape[1]) for share in _STRIPS[split])
        strips.append(np.ascontiguousarray(photo[:, first:last]))
    return strips


def _turned(glyph: np.ndarray, side: float, degrees: float) -> np.ndarray:
    """The digit enlarged to `side`, turned, and cut to its ink: opacity uint8 [h, w]."""
    scale = side / (_GLYPH - 2 * _MARGIN)
    canvas = int(np.ceil(_GLYPH * scale * 1.3))
    centre = (_GLYPH - 1) / 2
    matrix = np.asarray(cv2.getRotationMatrix2D((centre, centre), degrees, scale), np.float64)
    matrix[:, 2] += (canvas - 1) / 2 - centre
    alpha = cv2.warpAffine(glyph, matrix, (canvas, canvas), flags=cv2.INTER_LINEAR)
    x, y, width, height = cv2.boundingRect((alpha >= _INK).astype(np.uint8))
    return alpha[y : y + height, x : x + width]


def _paint(image: np.ndarray, box: np.ndarray, alpha: np.ndarray, rng: np.random.Generator) -> None:
    """Paints a digit in a random colour that differs in brightness from what lies behind it, in place."""
    x1, y1, x2, y2 = box.tolist()
    behind = image[y1:y2, x1:x2]
    grey = float(cv2.mean(cv2.cvtColor(behind, cv2.COLOR_RGB2GRAY))[0])
    colour = _contrasting(grey, rng)
    weight = alpha[:, :, None].astype(np.float32) * np.float32(1 / 255)
    behind[:] = np.rint(behind + (colour - behind) * weight)


def _contrasting(grey: float, rng: np.random.Generator) -> np.ndarray:
    """A random colour, float32 [3], whose brightness is at least `_MIN_CONTRAST` from `grey`."""
    room = np.array([max(grey - _MIN_CONTRAST, 0.0), max(255.0 - _MIN_CONTRAST - grey, 0.0)])
    darker = rng.random() * room.sum() < room[0]
    target = rng.uniform(0, room[0]) if darker else rng.uniform(255 - room[1], 255)
    tint = rng.uniform(0, 255, 3)
    tint -= float(tint @ (0.299, 0.587, 0.114))
    # The strongest tint, at most as drawn, that leaves all channels in 0..255 and so the brightness as chosen.
    limits = np.where(tint > 0, 255 - target, target) / np.maximum(np.abs(tint), 1e-6)
    return (target + tint * min(1.0, float(limits.min()))).astype(np.float32)


def _instances(placed: list[tuple[int, np.ndarray, np.ndarray]]) -> Instances:
    boxes = Boxes(np.array([box for _, box, _ in placed], np.float32).reshape(-1, 4))
    return Instances(boxes, np.array([label for label, _, _ in placed], np.int64))


def _iou(a: np.ndarray, b: np.ndarray) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    inner = float(width * height)
    return inner / float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner)
