"""What a label file's pixels say: class ids, colours, two values, or shares; each reader is picklable.

All give uint8 [H, W], 0 to K - 1, or `IGNORE`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from framework.errors import AttributeValueError
from suites.segmentation.labels import LabelMapError, check_labels, decode_labels
from suites.segmentation.sample import IGNORE
from suites.vision.pictures.images import decode_image

Colour = tuple[int, int, int]
_HALF = 128  # of 255


class LabelReader(ABC):
    """Bytes of a label file to a label map."""

    @abstractmethod
    def __call__(self, data: bytes, name: str) -> np.ndarray:
        """The label map of a file (`name` is for messages); LabelMapError where it cannot be one."""


class Ids(LabelReader):
    """The numbers in the file are class ids.

    Args:
        num_classes: K.
        ignore_labels: numbers that are neither learnt nor counted.
        ids: the class of each number; None: the numbers are the classes.
        reduce_zero: 0 is void and the classes begin at 1, as in ADE20K.
    """

    def __init__(
        self,
        num_classes: int,
        ignore_labels: Iterable[int] = (),
        ids: Mapping[int, int] | None = None,
        *,
        reduce_zero: bool = False,
    ) -> None:
        if ids is not None and reduce_zero:
            raise AttributeValueError("labels: reduce_zero goes with the numbers as they are, not with other ids")
        self._num_classes, self._reduces = num_classes, reduce_zero
        table = np.full(256, IGNORE, np.uint8) if ids is not None or reduce_zero else np.arange(256, dtype=np.uint8)
        if ids is not None:
            table[list(ids)] = list(ids.values())
        elif reduce_zero:
            table[1:] = np.arange(255)
        table[[*ignore_labels, IGNORE]] = IGNORE
        self._table = table

    def __call__(self, data: bytes, name: str) -> np.ndarray:
        """See the class."""
        labels = self._table[decode_labels(data, name)]
        check_labels(labels, self._num_classes, IGNORE, name, least=int(self._reduces))
        return labels


class Soft(LabelReader):
    """Class 1 is what most annotators marked: numbers of 128 and more of a grey map of 0 to 255, such as their mean."""

    def __call__(self, data: bytes, name: str) -> np.ndarray:
        """See the class."""
        return (decode_labels(data, name) >= _HALF).astype(np.uint8)


class Colours(LabelReader):
    """The colours in the file are the classes'.

    Args:
        palette: RGB of each class.
        void: RGB of what is neither learnt nor counted.
    """

    def __init__(self, palette: Sequence[Colour], void: Sequence[Colour] = ((0, 0, 0),)) -> None:
        own = [tuple(colour) for colour in palette]
        if len(set(own)) < len(own):
            raise AttributeValueError("palette: two classes have one colour, so label maps in colours cannot be read")
        others = [tuple(colour) for colour in void if tuple(colour) not in own]
        codes = _codes(np.array([*own, *others]))
        order = np.argsort(codes)
        self._codes = codes[order]
        self._labels = np.array([*range(len(own)), *[IGNORE] * len(others)], np.uint8)[order]

    def __call__(self, data: bytes, name: str) -> np.ndarray:
        """See the class."""
        codes = _codes(decode_image(data, name))
        at = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        wrong = self._codes[at] != codes
        if wrong.any():
            code = int(codes[wrong][0])
            raise LabelMapError(
                f"label map {name}: {int(wrong.sum())} pixels have colours of no class, the first is "
                f"[{code >> 16}, {code >> 8 & 255}, {code & 255}]; correct the palette (JPEG files change "
                "colours, use PNG)",
                "classes",
            )
        return self._labels[at]


class Binary(LabelReader):
    """What is not 0 is class 1: masks of 0 and 1, or of 0 and 255."""

    def __call__(self, data: bytes, name: str) -> np.ndarray:
        """See the class; LabelMapError for more than two values, which a lossy format leaves."""
        numbers = decode_labels(data, name)
        values = np.unique(numbers)
        if len(values) > 2 or (len(values) == 2 and values[0] != 0):
            raise LabelMapError(
                f"label map {name}: a binary mask holds 0 and one other number, not {values[:5].tolist()}; save masks "
                "as PNG, without smooth edges",
                "classes",
            )
        return (numbers > 0).astype(np.uint8)


def _codes(colours: np.ndarray) -> np.ndarray:
    """One number, int64 [...], for each RGB [..., 3]."""
    wide = colours.astype(np.int64)
    codes: np.ndarray = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    return codes
