"""Resizing of images [N, H, W, C]."""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.tensors import Tensor
from framework.tflite.interpreter import Node, steps_of, to_tensor
from framework.tflite.operators.common import positive
from framework.tflite.operators.eight import eight_of
from framework.tflite.registry import tflite_op

_BITS = 10  # of a weight between two pixels of 8 bits


@tflite_op("RESIZE_BILINEAR", eight="own")
def resize_bilinear(node: Node, x: Tensor, size: Tensor) -> Tensor:
    """Linear interpolation; as TensorFlow Lite's reference has it, of int8 with 10 bits a weight, of uint8 in float32.

    8-bit numbers keep their steps, whatever the file states for the result.
    """
    wanted, align, middle = _target(node, x, size)
    in_eight = steps_of(node.x[0]) is not None
    if in_eight and x.dtype == "uint8":
        return _resized_uint8(x, wanted, align, middle)
    if not in_eight and align != middle:
        return ops.resize_bilinear(x, size=wanted, align_corners=align)
    y = ops.cast(x, dtype="int32") if in_eight else x
    for axis in (1, 2):
        places = places_of(x.shape[axis], wanted[axis - 1], align, middle, _BITS if in_eight else None)
        y = _between(y, axis, *places)
    # Sums have 8 + 2 * _BITS bits, which int32 and float64 hold.
    return eight_of(node, ops.cast(y, dtype="float64") * 0.5 ** (2 * _BITS)) if in_eight else y


def _resized_uint8(x: Tensor, wanted: list[int], align: bool, middle: bool) -> Tensor:
    """The weighted sum of four pixels, a half more, without its fraction: each step rounded as the reference does."""
    images, parts = [ops.cast(x, dtype="float32")], []
    for axis in (1, 2):
        extent, count = x.shape[axis], wanted[axis - 1]
        place = _places(extent, count, align, middle)
        low = np.maximum(np.floor(place), 0).astype(np.int64)
        high = np.minimum(np.ceil(place), extent - 1).astype(np.int64)
        share = (place - low.astype(np.float32)).reshape([-1] + [1] * (x.ndim - axis - 1))
        parts.append((to_tensor(np.float32(1) - share), to_tensor(share)))
        images = [ops.gather(image, to_tensor(at), axis=axis) for at in (low, high) for image in images]
    rows, columns = parts
    total: Tensor | None = None
    for number, image in enumerate(images):  # top left, bottom left, top right, bottom right
        term = image * rows[number % 2] * columns[number // 2]
        total = term if total is None else total + term
    assert total is not None
    return ops.cast(ops.floor(total + 0.5), dtype="uint8")


def _places(extent: int, wanted: int, align: bool, middle: bool) -> np.ndarray:
    """[wanted] float32: where new pixels lie among the old ones; see `places_of`."""
    at = np.arange(wanted, dtype=np.float32)
    less = 1 if align and wanted > 1 else 0
    scale = np.float32(extent - less) / np.float32(wanted - less)
    return (at + np.float32(0.5)) * scale - np.float32(0.5) if middle else at * scale


def _target(node: Node, x: Tensor, size: Tensor) -> tuple[list[int], bool, bool]:
    """Height and width of the result, and how its pixels lie."""
    wanted = positive(node, *node.ints(size, "size"))
    n, _, _, channels = x.shape
    node.limit([n, *wanted, channels])
    if len(wanted) != 2:
        raise node.fail(f"its size is {wanted}; height and width are taken")
    align, middle = bool(node.option("align_corners")), bool(node.option("half_pixel"))
    if align and middle:
        raise node.fail("states both aligned corners and half pixels, which exclude each other")
    return wanted, align, middle


def _between(x: Tensor, axis: int, lower: np.ndarray, upper: np.ndarray, share: np.ndarray) -> Tensor:
    """Two old pixels along an axis for each new one, `share` of the upper; of whole numbers in 2^_BITS steps."""
    low, high = (ops.gather(x, to_tensor(places), axis=axis) for places in (lower, upper))
    shape = [-1] + [1] * (x.ndim - axis - 1)
    if x.dtype == "int32":
        part = to_tensor(np.rint(share * (1 << _BITS)).astype(np.int32).reshape(shape))
        return low * (1 << _BITS) + (high - low) * part
    return low + (high - low) * to_tensor(share.astype(np.float32).reshape(shape))


def places_of(
    extent: int, wanted: int, align: bool, middle: bool, bits: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[wanted] each: the two old pixels along an axis between which a new one lies, and its share of the upper.

    Args:
        extent, wanted: pixels before and after.
        align: corners' centres coincide.
        middle: pixels are squares and borders coincide; with neither, pixel 0 stays where it is.
        bits: of a weight where positions are rounded to so many, as for 8-bit images; None for float32.
    """
    at = np.arange(wanted)
    if bits is None:
        scale = np.float32((extent - 1) / (wanted - 1) if align and wanted > 1 else extent / wanted)
        place = (at + np.float32(0.5)) * scale - np.float32(0.5) if middle else at * scale
        low = np.floor(place).astype(np.int64)
        share = place - low
    else:
        whole = 1 << bits
        if align and wanted > 1:
            step = (whole * (extent - 1) + (wanted - 1) // 2) // (wanted - 1)
        else:
            step = (whole * extent + wanted // 2) // wanted
        fixed = at * step + (step // 2 - whole // 2 if middle else 0)
        low = np.maximum(fixed >> bits, 0)
        share = np.maximum(fixed - low * whole, 0) / whole
    return np.clip(low, 0, extent - 1), np.clip(low + 1, 0, extent - 1), share


@tflite_op("RESIZE_NEAREST_NEIGHBOR", eight="moves")
def resize_nearest(node: Node, x: Tensor, size: Tensor) -> Tensor:
    """The nearest pixel."""
    wanted, align, middle = _target(node, x, size)
    for axis in (1, 2):
        x = ops.gather(x, to_tensor(_nearest_of(x.shape[axis], wanted[axis - 1], align, middle)), axis=axis)
    return x


def _nearest_of(extent: int, wanted: int, align: bool, middle: bool) -> np.ndarray:
    """[wanted] int64: which old pixel each new one is."""
    scale = np.float32((extent - 1) / (wanted - 1) if align and wanted > 1 else extent / wanted)
    place = (np.arange(wanted, dtype=np.float32) + np.float32(0.5 if middle else 0)) * scale
    found = np.floor(place + np.float32(0.5)) if align else np.floor(place)
    return np.clip(found.astype(np.int64), 0, extent - 1)
