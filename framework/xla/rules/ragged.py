"""Operators of ragged rows: what XLA needs static is the number of rows and a bound of the sequences' lengths."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from framework.xla.lower import Array, Call, rule, wide

_MOST_COMPARED = 2**24


def checked(call: Call, offsets: Array, rows: int, name: str = "offsets") -> Array:
    """Offsets as int64; the run fails where they do not rise from 0 to the number of rows."""
    at = offsets.astype(jnp.int64)
    call.refuse_where(at[:1] != 0, at[:1], f"{name} starts at {{}} but must start at 0")
    call.refuse_where(at[1:] < at[:-1], at[1:], f"{name} falls to {{}}; it must rise")
    call.refuse_where(at[-1:] != rows, at[-1:], f"{name} ends at {{}} but there are {rows} rows")
    return at


def segments(offsets: Array, rows: int) -> Array:
    """The sequence that each row belongs to, int64 [rows]; empty sequences have none."""
    # Where there are few, all are compared at once: a search is a loop, whose every turn a GPU starts anew.
    how = "compare_all" if rows * offsets.shape[0] <= _MOST_COMPARED else "scan"
    found = jnp.searchsorted(offsets, jnp.arange(rows, dtype=jnp.int64), side="right", method=how) - 1
    return jnp.clip(found, 0, max(offsets.shape[0] - 2, 0))


def _sums(x: Array, offsets: Array) -> Array:
    count = offsets.shape[0] - 1
    out = jnp.zeros((count, *x.shape[1:]), x.dtype)
    return out.at[segments(offsets, x.shape[0])].add(x) if x.shape[0] and count else out


def _per_sequence(lengths: Array, x: Array) -> Array:
    return lengths.reshape(-1, *[1] * (x.ndim - 1))


@rule("segment_sum")
def _segment_sum(call: Call, x: Array, offsets: Array) -> Array:
    return _sums(wide(x), checked(call, offsets, x.shape[0]))


@rule("segment_mean")
def _segment_mean(call: Call, x: Array, offsets: Array) -> Array:
    at = checked(call, offsets, x.shape[0])
    sums = _sums(wide(x), at)
    return sums / jnp.maximum(_per_sequence(at[1:] - at[:-1], sums), 1).astype(sums.dtype)


@rule("segment_max")
def _segment_max(call: Call, x: Array, offsets: Array) -> tuple[Array, Array]:
    at = checked(call, offsets, x.shape[0])
    call.refuse_where(at[1:] == at[:-1], jnp.arange(at.shape[0] - 1), "sequence {} is empty and has no maximum")
    count, rows = at.shape[0] - 1, x.shape[0]
    if not rows:
        return jnp.zeros(call.shape, x.dtype), jnp.zeros(call.shape, jnp.int64)
    of = segments(at, rows)
    high = jnp.where(jnp.isnan(x), jnp.inf, x) if jnp.issubdtype(x.dtype, jnp.floating) else x
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    top = jnp.full((count, *x.shape[1:]), lowest, high.dtype).at[of].max(high)
    strange = jnp.zeros((count, *x.shape[1:]), bool).at[of].max(x != x)
    best = jnp.where(strange[of], x != x, high == top[of])
    numbers = jnp.arange(rows).reshape(-1, *[1] * (x.ndim - 1))
    first = jnp.full((count, *x.shape[1:]), rows - 1, numbers.dtype).at[of].min(jnp.where(best, numbers, rows - 1))
    return jnp.take_along_axis(x, first, 0), first


@rule("segment_spread")
def _segment_spread(call: Call, x: Array, offsets: Array, like: Array) -> Array:
    of = segments(checked(call, offsets, like.shape[0]), like.shape[0])
    return x[of] if x.shape[0] else jnp.zeros(call.shape, x.dtype)


@rule("ragged_segments")
def _ragged_segments(call: Call, offsets: Array, like: Array) -> Array:
    return segments(checked(call, offsets, like.shape[0]), like.shape[0])


@rule("ragged_positions")
def _ragged_positions(call: Call, offsets: Array, like: Array) -> Array:
    rows = like.shape[0]
    at = checked(call, offsets, rows)
    return jnp.arange(rows) - at[segments(at, rows)]


def _neighbours(x: Array, offsets: Array, before: int, after: int) -> Array:
    rows = x.shape[0]
    of, numbers = segments(offsets, rows), jnp.arange(rows)
    parts = []
    for step in range(-before, after + 1):
        there = jnp.clip(numbers + step, 0, max(rows - 1, 0))
        inside = (numbers + step >= 0) & (numbers + step < rows) & (of[there] == of)
        parts.append(jnp.where(inside[:, None], x[there], 0))
    return jnp.concatenate(parts, 1)


@rule("ragged_window")
def _ragged_window(call: Call, x: Array, offsets: Array, *, before: int, after: int) -> Array:
    return _neighbours(x, checked(call, offsets, x.shape[0]), before, after)


@rule("ragged_window_grad")
def _ragged_window_grad(call: Call, dy: Array, offsets: Array, *, before: int, after: int) -> Array:
    at = checked(call, offsets, dy.shape[0])
    width = dy.shape[1] // (before + 1 + after)
    of, rows, numbers = segments(at, dy.shape[0]), dy.shape[0], jnp.arange(dy.shape[0])
    dx = jnp.zeros((rows, width), dy.dtype)
    for i, step in enumerate(range(-before, after + 1)):  # row t was read by row t - step
        there = jnp.clip(numbers - step, 0, max(rows - 1, 0))
        inside = (numbers - step >= 0) & (numbers - step < rows) & (of[there] == of)
        dx = dx + jnp.where(inside[:, None], dy[there, i * width : (i + 1) * width], 0)
    return dx


def longest(call: Call, offsets: Array, rows: int) -> int:
    """A bound of the sequences' lengths: what the executor saw of the data, else all rows."""
    return min(call.lowering.longest.get(id(offsets), rows), rows) if rows else 0


def to_padded(x: Array, offsets: Array, length: int) -> tuple[Array, Array]:
    """Rows as [B, length, ...], and which of them there are, bool [B, length]; `offsets` int64."""
    begins, ends = offsets[:-1], offsets[1:]
    at = begins[:, None] + jnp.arange(length)
    there = at < ends[:, None]
    if not x.shape[0]:
        return jnp.zeros((*at.shape, *x.shape[1:]), x.dtype), there
    rows = x[jnp.clip(at, 0, x.shape[0] - 1)]
    return jnp.where(there.reshape(*there.shape, *[1] * (x.ndim - 1)), rows, jnp.zeros_like(rows)), there


def from_padded(x: Array, offsets: Array, rows: int) -> Array:
    """What undoes `to_padded`: [rows, ...]."""
    of = segments(offsets, rows)
    if not x.shape[0] or not x.shape[1]:
        return jnp.zeros((rows, *x.shape[2:]), x.dtype)
    return x[of, jnp.clip(jnp.arange(rows) - offsets[of], 0, x.shape[1] - 1)]


@rule("segment_outer")
def _segment_outer(call: Call, x: Array, z: Array, offsets: Array) -> Array:
    at = checked(call, offsets, x.shape[0])
    bound = longest(call, offsets, x.shape[0])
    left, right = to_padded(wide(x), at, bound)[0], to_padded(wide(z), at, bound)[0]
    return call.lowering.contraction("btk,btd->bkd", left, right)


@rule("segment_product")
def _segment_product(call: Call, x: Array, m: Array, offsets: Array, *, transpose_m: bool) -> Array:
    at = checked(call, offsets, x.shape[0])
    rows = to_padded(wide(x), at, longest(call, offsets, x.shape[0]))[0]
    out = call.lowering.contraction("btk,bdk->btd" if transpose_m else "btk,bkd->btd", rows, wide(m))
    return from_padded(out, at, x.shape[0])


# -- recurrence
def _reversed_rows(x: Array, lengths: Array) -> Array:
    """Each padded sequence from its last row to its first; [B, L, ...]."""
    at = jnp.clip(lengths[:, None] - 1 - jnp.arange(x.shape[1]), 0, max(x.shape[1] - 1, 0))
    return jnp.take_along_axis(x, at.reshape(*at.shape, *[1] * (x.ndim - 2)), 1)


def _directions(direction: str) -> list[bool]:
    """For each of them whether it runs from the end."""
    return {"forward": [False], "reverse": [True], "both": [False, True]}[direction]


def _each_direction(run: Any, x: Array, offsets: Array, length: int, direction: str, width: int) -> list[Any]:
    """`run(number, rows [B, L, width], there)` on the columns of each direction, its rows in the order of time."""
    out = []
    lengths = offsets[1:] - offsets[:-1]
    for s, backwards in enumerate(_directions(direction)):
        rows, there = to_padded(x[:, s * width : (s + 1) * width], offsets, length)
        results, last = run(s, _reversed_rows(rows, lengths) if backwards else rows, there)
        back = [_reversed_rows(r, lengths) if backwards else r for r in results]
        out.append(([from_padded(r, offsets, x.shape[0]) for r in back], last))
    return out


def _start(given: Array | None, s: int, batch: int, hidden: int, dtype: Any) -> Array:
    return jnp.zeros((batch, hidden), dtype) if given is None else given[s]


def _scanned(step: Any, state: Any, rows: Array, there: Array) -> tuple[Any, Any]:
    """Runs `step` over time; a sequence that has ended keeps its state."""

    def one(now: Any, row: Any) -> Any:
        x, on = row
        following, given = step(now, x)
        kept = tuple(jnp.where(on[:, None], f, n) for f, n in zip(following, now, strict=True))
        return kept, given

    last, given = lax.scan(one, state, (jnp.swapaxes(rows, 0, 1), there.T))
    return [jnp.swapaxes(g, 0, 1) for g in given], last


@rule("lstm")
def _lstm(
    call: Call,
    x_gates: Array,
    weight_h: Array,
    offsets: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    at = checked(call, offsets, x_gates.shape[0])
    return _lstm_outputs(call, x_gates, weight_h, at, longest(call, offsets, x_gates.shape[0]), h0, c0, direction)


def _lstm_outputs(
    call: Call, x: Array, weight: Array, at: Array, bound: int, h0: Any, c0: Any, direction: str
) -> tuple[Array, ...]:
    hidden, batch = weight.shape[2], at.shape[0] - 1

    def run(s: int, rows: Array, there: Array) -> Any:
        def step(now: Any, row: Array) -> Any:
            h, c = now
            i, f, g, o = jnp.split(row + h @ weight[s].T, 4, -1)
            i, f, g, o = _sigmoid(i), _sigmoid(f), jnp.tanh(g), _sigmoid(o)
            cell = f * c + i * g
            y = o * jnp.tanh(cell)
            return (y, cell), (y, jnp.concatenate([i, f, g, o], -1), cell)

        state = (_start(h0, s, batch, hidden, x.dtype), _start(c0, s, batch, hidden, x.dtype))
        return _scanned(step, state, rows, there)

    parts = _each_direction(run, x, at, bound, direction, 4 * hidden)
    y, gates, cells = (jnp.concatenate([p[0][k] for p in parts], -1) for k in range(3))
    h, c = (jnp.stack([p[1][k] for p in parts]) for k in range(2))
    return y, h, c, gates, cells


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + jnp.exp(-x))


@rule("gru")
def _gru(
    call: Call,
    x_gates: Array,
    weight_h: Array,
    offsets: Array,
    bias_h: Array | None = None,
    h0: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    at = checked(call, offsets, x_gates.shape[0])
    hidden, batch = weight_h.shape[2], at.shape[0] - 1

    def run(s: int, rows: Array, there: Array) -> Any:
        def step(now: Any, row: Array) -> Any:
            (h,) = now
            from_h = h @ weight_h[s].T + (0 if bias_h is None else bias_h[s])
            (r, z, n), (u, v, w) = jnp.split(row, 3, -1), jnp.split(from_h, 3, -1)
            reset, keep = _sigmoid(r + u), _sigmoid(z + v)
            fresh = jnp.tanh(n + reset * w)
            y = (1 - keep) * fresh + keep * h
            return (y,), (y, jnp.concatenate([reset, keep, fresh, w], -1))

        return _scanned(step, (_start(h0, s, batch, hidden, x_gates.dtype),), rows, there)

    parts = _each_direction(run, x_gates, at, longest(call, offsets, x_gates.shape[0]), direction, 3 * hidden)
    y, gates = (jnp.concatenate([p[0][k] for p in parts], -1) for k in range(2))
    return y, jnp.stack([p[1][0] for p in parts]), gates


def _before(y: Array, offsets: Array, start: Array, backwards: bool) -> Array:
    """The state that each row came from: that of the row before it in time.  y: [T, H]; start: [B, H]."""
    rows = y.shape[0]
    of, numbers = segments(offsets, rows), jnp.arange(rows)
    first = numbers == (offsets[1:][of] - 1 if backwards else offsets[of])
    there = jnp.clip(numbers + (1 if backwards else -1), 0, max(rows - 1, 0))
    return jnp.where(first[:, None], start[of], y[there])


def _back_through_time(
    call: Call, step: Any, state: Any, rows: Array, offsets: Array, bound: int, backwards: bool
) -> tuple[Array, Any]:
    """Scans [T, K] rows against the order of time; `state` is the gradient of the last state."""
    lengths = offsets[1:] - offsets[:-1]
    padded, there = to_padded(rows, offsets, bound)
    if not backwards:
        padded = _reversed_rows(padded, lengths)
    (given,), last = _scanned(step, state, padded, there)
    if not backwards:
        given = _reversed_rows(given, lengths)
    return from_padded(given, offsets, rows.shape[0]), last


def _part(x: Array | None, s: int, width: int, rows: int, dtype: Any) -> Array:
    return jnp.zeros((rows, width), dtype) if x is None else x[:, s * width : (s + 1) * width]


@rule("lstm_grad")
def _lstm_grad(
    call: Call,
    y: Array,
    gates: Array,
    cells: Array,
    weight_h: Array,
    offsets: Array,
    h0: Array | None = None,
    c0: Array | None = None,
    dy: Array | None = None,
    dh: Array | None = None,
    dc: Array | None = None,
    dgates: Array | None = None,
    dcells: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    rows, hidden, dtype = y.shape[0], weight_h.shape[2], y.dtype
    at, bound = checked(call, offsets, rows), longest(call, offsets, rows)
    batch = at.shape[0] - 1
    out = []
    for s, backwards in enumerate(_directions(direction)):

        def part(x: Array | None, width: int, s: int = s) -> Array:
            return _part(x, s, width, rows, dtype)

        h_before = _before(part(y, hidden), at, _start(h0, s, batch, hidden, dtype), backwards)
        c_before = _before(part(cells, hidden), at, _start(c0, s, batch, hidden, dtype), backwards)
        pieces = [part(gates, 4 * hidden), part(cells, hidden), c_before, part(dy, hidden), part(dgates, 4 * hidden)]
        all_rows = jnp.concatenate([*pieces, part(dcells, hidden)], -1)

        def step(now: Any, row: Array, s: int = s) -> Any:
            dh_now, dc_now = now
            i, f, g, o, cell, before, dy_row, di, df, dg, do, dcell = jnp.split(row, 12, -1)
            dh_all, t = dh_now + dy_row, jnp.tanh(cell)
            dc_all = dc_now + dcell + dh_all * o * (1 - t * t)
            di, df, dg, do = di + dc_all * g, df + dc_all * before, dg + dc_all * i, do + dh_all * t
            dx = jnp.concatenate([di * i * (1 - i), df * f * (1 - f), dg * (1 - g * g), do * o * (1 - o)], -1)
            return (dx @ weight_h[s], dc_all * f), (dx,)

        state = (_start(dh, s, batch, hidden, dtype), _start(dc, s, batch, hidden, dtype))
        dx, (dh_first, dc_first) = _back_through_time(call, step, state, all_rows, at, bound, backwards)
        out.append((dx, dx.T @ h_before, dh_first, dc_first))
    return (
        jnp.concatenate([o[0] for o in out], -1),
        *(jnp.stack([o[k] for o in out]) for k in (1, 2, 3)),
    )


@rule("gru_grad")
def _gru_grad(
    call: Call,
    y: Array,
    gates: Array,
    weight_h: Array,
    offsets: Array,
    h0: Array | None = None,
    dy: Array | None = None,
    dh: Array | None = None,
    dgates: Array | None = None,
    *,
    direction: str,
) -> tuple[Array, ...]:
    rows, hidden, dtype = y.shape[0], weight_h.shape[2], y.dtype
    at, bound = checked(call, offsets, rows), longest(call, offsets, rows)
    batch = at.shape[0] - 1
    out = []
    for s, backwards in enumerate(_directions(direction)):
        h_before = _before(_part(y, s, hidden, rows, dtype), at, _start(h0, s, batch, hidden, dtype), backwards)
        pieces = [_part(gates, s, 4 * hidden, rows, dtype), h_before, _part(dy, s, hidden, rows, dtype)]
        all_rows = jnp.concatenate([*pieces, _part(dgates, s, 4 * hidden, rows, dtype)], -1)

        def step(now: Any, row: Array, s: int = s) -> Any:
            (dh_now,) = now
            r, z, n, w, before, dy_row, dr, dz, dn, dw = jnp.split(row, 10, -1)
            dh_all = dh_now + dy_row
            dn, dz = dn + dh_all * (1 - z), dz + dh_all * (before - n)
            dn_in = dn * (1 - n * n)
            dr, dw = dr + dn_in * w, dw + dn_in * r
            dr_in, dz_in = dr * r * (1 - r), dz * z * (1 - z)
            from_h = jnp.concatenate([dr_in, dz_in, dw], -1)
            given = jnp.concatenate([dr_in, dz_in, dn_in, dw], -1)
            return (from_h @ weight_h[s] + dh_all * z,), (given,)

        given, (dh_first,) = _back_through_time(
            call, step, (_start(dh, s, batch, hidden, dtype),), all_rows, at, bound, backwards
        )
        from_h = jnp.concatenate([given[:, : 2 * hidden], given[:, 3 * hidden :]], -1)
        out.append((given[:, : 3 * hidden], from_h.T @ h_before, jnp.sum(from_h, 0), dh_first))
    return (
        jnp.concatenate([o[0] for o in out], -1),
        *(jnp.stack([o[k] for o in out]) for k in (1, 2, 3)),
    )
