"""Operators that move elements without computing with them."""

from __future__ import annotations

import jax.numpy as jnp

from framework.xla.lower import Array, Call, linear_transpose, rule, wide

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge"}


@rule("transpose")
def _transpose(call: Call, x: Array, *, perm: tuple[int, ...]) -> Array:
    return jnp.transpose(x, perm or None)


@rule("concat")
def _concat(call: Call, *xs: Array, axis: int) -> Array:
    return jnp.concatenate(xs, axis)


def _parts(call: Call, x: Array, axis: int) -> list[Array]:
    ends, at = [], 0
    for shape, _ in call.types[:-1]:
        at += shape[axis]
        ends.append(at)
    return jnp.split(x, ends, axis)


@rule("split")
def _split(call: Call, x: Array, *, axis: int, sizes: tuple[int, ...]) -> list[Array]:
    return _parts(call, x, axis)


@rule("split_like")
def _split_like(call: Call, x: Array, *likes: Array, axis: int) -> list[Array]:
    return _parts(call, x, axis)


def _slices(
    ndim: int, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[slice, ...]:
    """Python's slices; an end that lies before the first element, as ONNX writes it, takes all up to there."""
    out = [slice(None)] * ndim
    for i, axis in enumerate(axes or range(len(starts))):
        out[axis] = slice(starts[i], ends[i], steps[i] if steps else 1)
    return tuple(out)


@rule("slice")
def _slice(
    call: Call,
    x: Array,
    *,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
) -> Array:
    return x[_slices(x.ndim, starts, ends, axes, steps)]


@rule("slice_grad")
def _slice_grad(
    call: Call,
    dy: Array,
    like: Array,
    *,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
) -> Array:
    return jnp.zeros(like.shape, dy.dtype).at[_slices(like.ndim, starts, ends, axes, steps)].set(dy)


def _widths(pads: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(pads[i], pads[i + 1]) for i in range(0, len(pads), 2)]


@rule("pad")
def _pad(call: Call, x: Array, *, pads: tuple[int, ...], mode: str, value: float) -> Array:
    if mode == "constant":
        return jnp.pad(x, _widths(pads), constant_values=jnp.asarray(value, x.dtype))
    return jnp.pad(x, _widths(pads), mode=_MODES[mode])


@rule("pad_grad")
def _pad_grad(call: Call, dy: Array, like: Array, *, pads: tuple[int, ...], mode: str) -> Array:
    return linear_transpose(lambda x: jnp.pad(x, _widths(pads), mode=_MODES[mode]), like, dy)


@rule("flip")
def _flip(call: Call, x: Array, *, axes: tuple[int, ...]) -> Array:
    return jnp.flip(x, axes or None)


@rule("roll")
def _roll(call: Call, x: Array, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    return jnp.roll(x, shifts, axes) if axes else jnp.roll(x, shifts[0])


@rule("triu")
def _triu(call: Call, x: Array, *, k: int) -> Array:
    return jnp.triu(x, k)


@rule("tril")
def _tril(call: Call, x: Array, *, k: int) -> Array:
    return jnp.tril(x, k)


@rule("tile")
def _tile(call: Call, x: Array, *, repeats: tuple[int, ...]) -> Array:
    return jnp.tile(x, repeats)


@rule("tile_grad")
def _tile_grad(call: Call, dy: Array, like: Array, *, repeats: tuple[int, ...]) -> Array:
    split = [n for r, extent in zip(repeats, like.shape, strict=True) for n in (r, extent)]
    return jnp.sum(wide(dy).reshape(split), axis=tuple(range(0, 2 * like.ndim, 2)))


@rule("temporal_shift")
def _temporal_shift(call: Call, x: Array, *, channels: int, reverse: bool) -> Array:
    from_next, from_last = x[..., :channels], x[..., channels : 2 * channels]
    if reverse:
        from_next, from_last = _later(from_next), _earlier(from_last)
    else:
        from_next, from_last = _earlier(from_next), _later(from_last)
    return jnp.concatenate([from_next, from_last, x[..., 2 * channels :]], -1)


def _earlier(x: Array) -> Array:
    """Frame t of the result is frame t + 1."""
    return jnp.concatenate([x[:, 1:], jnp.zeros_like(x[:, :1])], 1)


def _later(x: Array) -> Array:
    return jnp.concatenate([jnp.zeros_like(x[:, :1]), x[:, :-1]], 1)


def _windows(x: Array, frames: int, size: int, stride: int, padding: int, dilation: int) -> Array:
    """[N, T, ..., C] -> [N, frames, ..., size * C]."""
    padded = jnp.pad(x, [(0, 0), (padding, padding)] + [(0, 0)] * (x.ndim - 2))
    taps = [padded[:, q * dilation : q * dilation + (frames - 1) * stride + 1 : stride] for q in range(size)]
    return jnp.concatenate(taps, -1)


@rule("unfold_frames")
def _unfold_frames(call: Call, x: Array, *, size: int, stride: int, padding: int, dilation: int) -> Array:
    return _windows(x, call.shape[1], size, stride, padding, dilation)


@rule("fold_frames")
def _fold_frames(call: Call, dy: Array, like: Array, *, size: int, stride: int, padding: int, dilation: int) -> Array:
    return linear_transpose(lambda x: _windows(x, dy.shape[1], size, stride, padding, dilation), like, dy)
