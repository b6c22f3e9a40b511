"""Signals: Fourier transforms as products with matrices of sines, windows, and the mel scale."""

from __future__ import annotations

import numpy as np

from framework import ops
from framework.limits import check
from framework.onnx.interpreter import Node, to_tensor
from framework.onnx.operators.casts import element_type
from framework.onnx.operators.common import axis_of, constant, extents, moved
from framework.onnx.registry import onnx_op
from framework.tensors import Tensor


@onnx_op("DFT", since=17, compute="float")
def dft_17(node: Node, x: Tensor, length: Tensor | None = None) -> Tensor:
    """The axis is an attribute."""
    return _dft(node, x, length, node.attr("axis", 1))


@onnx_op("DFT", since=20, compute="float")
def dft(node: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    """The axis is an input; x [..., 1 or 2] real or complex."""
    return _dft(node, x, length, -2 if axis is None else node.ints(axis, "axis")[0])


def _dft(node: Node, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
    axis = axis_of(axis, x.ndim)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    n = extents(x)[axis] if length is None else node.ints(length, "length")[0]
    if inverse and onesided:
        n = 2 * (extents(x)[axis] - 1) if length is None else n
        return _irfft(x, axis, n)
    x = _to_extent(x, axis, n)
    y = transformed(x, axis, inverse)
    return ops.slice(y, starts=[0], ends=[n // 2 + 1], axes=[axis]) if onesided else y


def _to_extent(x: Tensor, axis: int, n: int) -> Tensor:
    """Cut, or filled with zeros, to extent n."""
    have = extents(x)[axis]
    if n <= have:
        return ops.slice(x, starts=[0], ends=[n], axes=[axis])
    pads = [0] * (2 * x.ndim)
    pads[2 * axis + 1] = n - have
    return ops.pad(x, pads=pads)


def _parts(x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Real and imaginary part, without the last axis."""
    last = x.ndim - 1
    if extents(x)[last] == 1:
        return ops.squeeze(x, axis=last), None
    real, imaginary = ops.split(x, axis=last, sizes=[1, 1])
    return ops.squeeze(real, axis=last), ops.squeeze(imaginary, axis=last)


def transformed(x: Tensor, axis: int, inverse: bool) -> Tensor:
    """The discrete Fourier transform along an axis of x [..., 1 or 2]."""
    n = extents(x)[axis]
    check("elements", 4 * n * n, f"onnx: a Fourier transform of extent {n} takes too many elements")
    angle = 2 * np.pi * (np.outer(np.arange(n), np.arange(n)) % n) / n * (1 if inverse else -1)
    scale = 1 / n if inverse else 1.0
    cos, sin = (constant(f(angle) * scale, x.dtype) for f in (np.cos, np.sin))
    real, imaginary = (None if p is None else moved(p, axis, -1) for p in _parts(x))
    assert real is not None
    re, im = ops.matmul(real, cos), ops.matmul(real, sin)
    if imaginary is not None:
        re, im = re - ops.matmul(imaginary, sin), im + ops.matmul(imaginary, cos)
    return ops.stack([moved(re, -1, axis), moved(im, -1, axis)], axis=-1)


def _irfft(x: Tensor, axis: int, n: int) -> Tensor:
    """A real signal of extent n from the first half of its spectrum."""
    half = n // 2 + 1
    check("elements", 4 * n * half, f"onnx: a Fourier transform of extent {n} takes too many elements")
    x = _to_extent(x, axis, half)
    real, imaginary = (None if p is None else moved(p, axis, -1) for p in _parts(x))
    weight = np.full(half, 2.0)
    weight[0] = 1.0
    if n % 2 == 0:
        weight[-1] = 1.0
    angle = 2 * np.pi * (np.outer(np.arange(half), np.arange(n)) % n) / n
    assert real is not None
    y = ops.matmul(real, constant(np.cos(angle) * weight[:, None] / n, x.dtype))
    if imaginary is not None:
        y = y - ops.matmul(imaginary, constant(np.sin(angle) * weight[:, None] / n, x.dtype))
    return ops.expand_dims(moved(y, -1, axis), axis=-1)


@onnx_op("STFT", since=17, compute="float")
def stft(node: Node, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None) -> Tensor:
    """Spectra of overlapping frames: [B, frames, frequencies, 2]."""
    hop = node.ints(step, "frame step")[0]
    if length is not None:
        n = node.ints(length, "frame length")[0]
    else:
        assert window is not None
        n = extents(window)[0]
    frames = 1 + (extents(x)[1] - n) // hop
    node.limit([extents(x)[0], max(frames, 0), n])
    table = np.arange(frames)[:, None] * hop + np.arange(n)
    taken = ops.gather(x, constant(table, "int64"), axis=1)  # [B, frames, n, 1 or 2]
    if window is not None:
        taken = taken * ops.reshape(window, shape=[-1, 1])
    y = transformed(taken, 2, False)
    return ops.slice(y, starts=[0], ends=[n // 2 + 1], axes=[2]) if node.attr("onesided", 1) else y


_WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@onnx_op(*_WINDOWS, since=17)
def window_node(node: Node, size: Tensor) -> Tensor:
    """a + b cos(x) + c cos(2x)."""
    n = node.ints(size, "size")[0]
    node.limit([n])
    a, b, c = _WINDOWS[node.op]
    x = 2 * np.pi * np.arange(n) / (n if node.attr("periodic", 1) else max(n - 1, 1))
    dtype = element_type(node, node.attr("output_datatype", 1))
    return ops.cast(constant(a + b * np.cos(x) + c * np.cos(2 * x), "float64"), dtype=dtype)


@onnx_op("MelWeightMatrix", since=17)
def mel_weight_matrix(node: Node, bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Triangles on the mel scale, 2595 log10(1 + f / 700): [frequencies, bins]."""
    count, n, hz = (node.ints(v, "size")[0] for v in (bins, length, rate))
    frequencies = n // 2 + 1
    node.limit([frequencies, node.steps(count)])
    edges = np.array([float(node.host(v, "edge").reshape(())) for v in (low, high)])
    mel = 2595 * np.log10(1 + edges / 700)
    points = 700 * (10 ** (np.linspace(mel[0], mel[1], count + 2, endpoint=False) / 2595) - 1)
    places = ((n + 1) * points // hz).astype(np.int64)
    out = np.zeros((frequencies, count))
    for i, (a, b, c) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        if a == b:
            out[b, i] = 1.0
        else:
            rise = np.arange(a, min(b + 1, frequencies))
            out[rise, i] = (rise - a) / (b - a)
        fall = np.arange(b, min(c, frequencies))
        if c != b:
            out[fall, i] = (c - fall) / (c - b)
    dtype = element_type(node, node.attr("output_datatype", 1))
    return ops.cast(constant(out, "float64"), dtype=dtype)


@onnx_op("Det", compute="float")
def determinant(node: Node, x: Tensor) -> Tensor:
    """Of each matrix."""
    return to_tensor(np.asarray(np.linalg.det(node.host(x, "data"))))
