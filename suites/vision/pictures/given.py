"""Pictures and clips that a person has in Python, as the arrays that networks are shown.

Arrays of NumPy and of libraries that NumPy reads, such as PyTorch's on a CPU, and pictures of Pillow. What cannot be
told is refused: pixels that are no bytes may reach from 0 to 1, to 255 or to anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from framework.errors import DataError

_CHANNELS = (1, 3, 4)
_ORIENTATION = 274  # Exif's tag


def _as_it_is(array: np.ndarray) -> np.ndarray:
    return array


_TURNS: dict[Any, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a),
}


def as_image(given: Any) -> np.ndarray:
    """A picture as uint8 RGB [H, W, 3], as `decode_image` makes it of a file.

    Args:
        given: an array [H, W], [H, W, 1], [H, W, 3] or [H, W, 4] of uint8, or of uint16 whose full range counts; or a
            picture of Pillow. Grey becomes three equal channels, alpha is dropped.

    Raises:
        DataError: anything else.
    """
    array = _of_pillow(given) if _is_pillow(given) else _array(given, "a picture")
    if array.ndim == 4:
        raise DataError(f"a picture has 2 or 3 axes; this array is {list(array.shape)}: give a list of its pictures")
    if array.ndim == 3 and array.shape[2] not in _CHANNELS and array.shape[0] in _CHANNELS:
        raise DataError(
            f"a picture is [height, width, 3]; this array is {list(array.shape)}: put its channels last, by "
            "np.moveaxis(image, 0, -1)"
        )
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in _CHANNELS):
        raise DataError(f"a picture is [height, width, 3] or grey [height, width]; this array is {list(array.shape)}")
    return _pixels(array[..., None] if array.ndim == 2 else array, "picture")


def as_clip(given: Any) -> np.ndarray:
    """A clip as uint8 RGB [T, H, W, 3]; takes arrays of one axis more than `as_image`.

    Raises:
        DataError: anything else.
    """
    array = _array(given, "a clip")
    if array.ndim != 4 or array.shape[3] not in _CHANNELS:
        raise DataError(
            f"a clip is [frames, height, width, 3]; this array is {list(array.shape)}: put frames together by np.stack"
        )
    if not len(array):
        raise DataError("a clip has one frame or more")
    frames = _pixels(array.reshape(-1, *array.shape[2:]), "clip")
    return frames.reshape(*array.shape[:3], 3)


def _is_pillow(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "PIL" and hasattr(given, "convert")


def _of_pillow(given: Any) -> np.ndarray:
    """Its pixels, turned as viewers show it."""
    if given.mode in ("F", "I"):
        raise DataError(f"the picture's pixels are of Pillow's mode {given.mode}, whose range is not known; convert it")
    try:
        array = np.asarray(given if given.mode.startswith("I;16") else given.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:  # of a file that Pillow reads only now
        raise DataError(f"Pillow cannot read the picture: {error}") from None
    return _TURNS.get(given.getexif().get(_ORIENTATION, 1), _as_it_is)(array)


def _array(given: Any, what: str) -> np.ndarray:
    if hasattr(given, "detach"):  # a tensor of PyTorch, which may have a gradient
        given = given.detach()
    if not isinstance(given, np.ndarray) and not hasattr(given, "__array__") and hasattr(given, "numpy"):
        given = given.numpy()
    if not isinstance(given, np.ndarray) and not hasattr(given, "__array__"):
        raise DataError(f"takes {what} as an array or as the path of a file, got {type(given).__name__}")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # such as a tensor on a GPU
        raise DataError(f"{what} of type {type(given).__name__} is no array that NumPy reads: {error}") from None
    if array.dtype == object:
        raise DataError(f"{what} is an array of numbers; this one holds {type(given).__name__} of objects")
    return array


def _pixels(array: np.ndarray, what: str) -> np.ndarray:
    """uint8 [H, W, 3] of [H, W, C]."""
    if not array.size:
        raise DataError(f"a {what} has pixels; this array is {list(array.shape)}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:  # in any byte order
        whole = np.ascontiguousarray(array, np.uint16)
        array = cv2.convertScaleAbs(whole, alpha=255.0 / 65535.0).reshape(array.shape)
    if array.dtype != np.uint8:
        raise DataError(f"a {what}'s pixels are uint8; these are {_told(array)}")
    return np.ascontiguousarray(array.repeat(3, axis=2) if array.shape[2] == 1 else array[..., :3])


def _told(array: np.ndarray) -> str:
    """The type, the range, and what makes bytes of it."""
    if array.dtype.kind == "b":
        return f"{array.dtype}: give image.astype(np.uint8) * 255"
    if array.dtype.kind not in "fiu":
        return str(array.dtype)
    least, most = float(array.min()), float(array.max())
    told = f"{array.dtype} from {least:g} to {most:g}"
    if not 0 <= least <= most <= 255:
        return f"{told}: bring them to 0 to 255, then image.round().astype(np.uint8)"
    scaled = "(image * 255)" if array.dtype.kind == "f" and most <= 1 else "image"
    return f"{told}: give {scaled}.round().astype(np.uint8)"
