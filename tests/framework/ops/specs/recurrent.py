"""framework/native/ops/recurrent.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _parts(direction):
    return {"forward": [False], "reverse": [True], "both": [False, True]}[direction]


def _lstm_cell(x, w, bias, h, c):
    i, f, g, o = np.split(x + w @ h, 4)
    gates = np.concatenate([_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)])
    i, f, g, o = np.split(gates, 4)
    c = f * c + i * g
    return o * np.tanh(c), c, gates


def _gru_cell(x, w, bias, h, _):
    (r, z, n), (u, v, inner) = np.split(x, 3), np.split(w @ h + bias, 3)
    r, z = _sigmoid(r + u), _sigmoid(z + v)
    n = np.tanh(n + r * inner)
    return (1 - z) * n + z * h, h, np.concatenate([r, z, n, inner])


def _run(cell, x_gates, weight_h, offsets, bias, h0, c0, direction):
    """One row after the other: y, h, c, gates, cells."""
    parts, hidden, rows, sequences = weight_h.shape[0], weight_h.shape[2], len(x_gates), len(offsets) - 1
    x = x_gates.reshape(rows, parts, x_gates.shape[1] // parts)
    y, cells, gates = (
        np.zeros((rows, parts, hidden)),
        np.zeros((rows, parts, hidden)),
        np.zeros((rows, parts, 4 * hidden)),
    )
    last = np.zeros((2, parts, sequences, hidden))
    for p, backwards in enumerate(_parts(direction)):
        for b in range(sequences):
            h = np.zeros(hidden) if h0 is None else h0[p, b]
            c = np.zeros(hidden) if c0 is None else c0[p, b]
            order = range(offsets[b], offsets[b + 1])
            for row in reversed(order) if backwards else order:
                h, c, gates[row, p] = cell(x[row, p], weight_h[p], None if bias is None else bias[p], h, c)
                y[row, p], cells[row, p] = h, c
            last[:, p, b] = h, c
    flat = [t.reshape(rows, t.shape[1] * t.shape[2]) for t in (y, gates, cells)]
    return flat[0], last[0], last[1], flat[1], flat[2]


def _lstm(x_gates, weight_h, offsets, h0=None, c0=None, direction="forward"):
    return _run(_lstm_cell, x_gates, weight_h, offsets, None, h0, c0, direction)


def _gru(x_gates, weight_h, offsets, bias_h=None, h0=None, direction="forward"):
    bias = np.zeros(weight_h.shape[:2]) if bias_h is None else bias_h
    y, h, _, gates, _ = _run(_gru_cell, x_gates, weight_h, offsets, bias, h0, None, direction)
    return y, h, gates


def _order(offsets, b, backwards):
    rows = list(range(offsets[b], offsets[b + 1]))
    return rows[::-1] if backwards else rows


def _lstm_grad(
    y, gates, cells, weight_h, offsets, h0=None, c0=None, dy=None, dh=None, dc=None, dgates=None, dcells=None,
    direction="forward",
):  # fmt: skip
    """Back through time, a row at a time."""
    parts, hidden = weight_h.shape[0], weight_h.shape[2]
    rows, sequences = len(y), len(offsets) - 1
    states = np.zeros((parts, sequences, hidden))
    h0, c0, dh, dc = (states if t is None else t for t in (h0, c0, dh, dc))
    y, cells, dy, dcells = (
        np.zeros((rows, parts, hidden)) if t is None else t.reshape(rows, parts, hidden) for t in (y, cells, dy, dcells)
    )
    gates, dgates = (
        np.zeros((rows, parts, 4 * hidden)) if t is None else t.reshape(rows, parts, 4 * hidden)
        for t in (gates, dgates)
    )
    dx, dw = np.zeros_like(gates), np.zeros_like(weight_h)
    dh0, dc0 = dh.copy(), dc.copy()
    for p, backwards in enumerate(_parts(direction)):
        for b in range(sequences):
            order = _order(offsets, b, backwards)
            for k in reversed(range(len(order))):
                row, before = order[k], order[k - 1]
                h, c = (y[before, p], cells[before, p]) if k else (h0[p, b], c0[p, b])
                i, f, g, o = np.split(gates[row, p], 4)
                squashed, d = np.tanh(cells[row, p]), dh0[p, b] + dy[row, p]
                d_cell = dc0[p, b] + dcells[row, p] + d * o * (1 - squashed**2)
                into = np.concatenate([d_cell * g, d_cell * c, d_cell * i, d * squashed]) + dgates[row, p]
                slopes = np.concatenate([i * (1 - i), f * (1 - f), 1 - g**2, o * (1 - o)])
                dx[row, p] = into * slopes
                dw[p] += np.outer(dx[row, p], h)
                dh0[p, b], dc0[p, b] = weight_h[p].T @ dx[row, p], d_cell * f
    return dx.reshape(rows, parts * 4 * hidden), dw, dh0, dc0


def _gru_grad(y, gates, weight_h, offsets, h0=None, dy=None, dh=None, dgates=None, direction="forward"):
    """Back through time, a row at a time."""
    parts, hidden = weight_h.shape[0], weight_h.shape[2]
    rows, sequences = len(y), len(offsets) - 1
    states = np.zeros((parts, sequences, hidden))
    h0, dh = (states if t is None else t for t in (h0, dh))
    y, dy = (np.zeros((rows, parts, hidden)) if t is None else t.reshape(rows, parts, hidden) for t in (y, dy))
    gates, dgates = (
        np.zeros((rows, parts, 4 * hidden)) if t is None else t.reshape(rows, parts, 4 * hidden)
        for t in (gates, dgates)
    )
    dx, dw, dbias = np.zeros((rows, parts, 3 * hidden)), np.zeros_like(weight_h), np.zeros((parts, 3 * hidden))
    dh0 = dh.copy()
    for p, backwards in enumerate(_parts(direction)):
        for b in range(sequences):
            order = _order(offsets, b, backwards)
            for k in reversed(range(len(order))):
                row = order[k]
                h = y[order[k - 1], p] if k else h0[p, b]
                (r, z, n, inner), (er, ez, en, ew) = np.split(gates[row, p], 4), np.split(dgates[row, p], 4)
                d = dh0[p, b] + dy[row, p]
                dn = (d * (1 - z) + en) * (1 - n**2)
                dz = (d * (h - n) + ez) * z * (1 - z)
                dr = (dn * inner + er) * r * (1 - r)
                into = np.concatenate([dr, dz, dn * r + ew])
                dx[row, p] = np.concatenate([dr, dz, dn])
                dw[p] += np.outer(into, h)
                dbias[p] += into
                dh0[p, b] = weight_h[p].T @ into + d * z
    return dx.reshape(rows, parts * 3 * hidden), dw, dbias, dh0


def _offsets(*lengths):
    return np.cumsum([0, *lengths])


MIXED = (3, 0, 5, 1)  # an empty sequence, one of a single row
MANY = tuple(1 + (7 * k) % 11 for k in range(37))  # several bands of sequences


def _forward_sample(gates, lengths, hidden, direction, extra):
    parts, sequences = 2 if direction == "both" else 1, len(lengths)
    scale = 1 / np.sqrt(hidden)
    x = normal(sum(lengths), parts * gates * hidden)
    weight = normal(parts, gates * hidden, hidden, seed=1, scale=scale)
    return Sample([x, weight, _offsets(*lengths), *extra(parts, sequences, hidden)], {"direction": direction})


def _states(count, seed=5):
    return lambda parts, sequences, hidden: [normal(parts, sequences, hidden, seed=seed + k) for k in range(count)]


def _gru_extra(parts, sequences, hidden):
    return [normal(parts, 3 * hidden, seed=4), normal(parts, sequences, hidden, seed=5)]


def _backward_sample(forward, sample, saved, *, through_all=False):
    """The gradient's inputs after `sample`, with gradients by all outputs, or by y alone."""
    outs = forward(*sample.inputs, **sample.attrs)
    ups = [normal(*o.shape, seed=9 + k) if through_all or k == 0 else None for k, o in enumerate(outs)]
    _, weight, offsets, *rest = sample.inputs
    states = rest if forward is _lstm else rest[1:]
    states = [*states, *[None] * ((2 if forward is _lstm else 1) - len(states))]
    return Sample([*[outs[k] for k in saved], weight, offsets, *states, *ups], sample.attrs)


LSTM_SAMPLES = [
    _forward_sample(4, MIXED, 3, "forward", _states(2)),
    _forward_sample(4, MIXED, 5, "reverse", lambda *_: [None, None]),
    _forward_sample(4, (4, 2), 17, "both", _states(2)),
    _forward_sample(4, MANY, 20, "both", lambda *_: []),
    _forward_sample(4, MANY, 8, "forward", _states(1)),
    _forward_sample(4, (), 4, "forward", lambda *_: []),
]
GRU_SAMPLES = [
    _forward_sample(3, MIXED, 3, "forward", _gru_extra),
    _forward_sample(3, MIXED, 5, "reverse", lambda *_: [None, None]),
    _forward_sample(3, (4, 2), 17, "both", _gru_extra),
    _forward_sample(3, MANY, 20, "both", lambda p, _, h: [normal(p, 3 * h, seed=4)]),
    _forward_sample(3, MANY, 8, "forward", _gru_extra),
    _forward_sample(3, (), 4, "forward", lambda *_: []),
]


def _errors(gates, *saved):
    """Bad shapes; `saved` stands before the weights of a gradient."""
    before = list(saved) or [normal(4, gates * 3)]
    weight, offsets = normal(1, gates * 3, 3), np.array([0, 2, 4])
    wrong = normal(1, gates * 3, 2)
    return [
        Bad([*before, wrong, offsets], ShapeError, r"weight_h has shape \[1, \d+, 2\] but must have \[1, \d H, H\]"),
        Bad([*before, weight, offsets], ShapeError, r"must have \[2, \d H, H\]", {"direction": "both"}),
        Bad([*before, weight, offsets], AttributeValueError, "direction is 'up'; takes", {"direction": "up"}),
        Bad([*before, weight, np.array([0, 3, 2, 4])], AttributeValueError, r"offsets\[2\] is 2 after 3"),
        Bad([*before, weight, np.array([0, 3])], AttributeValueError, "offsets ends at 3 but there are 4 rows"),
        Bad([*before, weight, np.array([0.0, 4.0])], DTypeError, "offsets is float32"),
    ]  # fmt: skip


# Along a sequence every step adds the roundings of a product of H terms and some ten for the gates; the state forgets
# them at about the rate at which they come. 64 covers sums over H and the largest gradient's sum over T here.
spec("lstm", reference=_lstm, roundings=64, samples=LSTM_SAMPLES, errors=_errors(4))
spec("gru", reference=_gru, roundings=64, samples=GRU_SAMPLES, errors=_errors(3))
spec(
    "lstm_grad",
    reference=_lstm_grad,
    roundings=256,
    gradient=False,
    samples=[
        *[_backward_sample(_lstm, s, (0, 3, 4), through_all=True) for s in LSTM_SAMPLES[:3]],
        *[_backward_sample(_lstm, s, (0, 3, 4)) for s in LSTM_SAMPLES[3:]],
    ],
    errors=_errors(4, normal(4, 3), normal(4, 12), normal(4, 3)),
)
spec(
    "gru_grad",
    reference=_gru_grad,
    roundings=256,
    gradient=False,
    samples=[
        *[_backward_sample(_gru, s, (0, 2), through_all=True) for s in GRU_SAMPLES[:3]],
        *[_backward_sample(_gru, s, (0, 2)) for s in GRU_SAMPLES[3:]],
    ],
    errors=_errors(3, normal(4, 3), normal(4, 12)),
)
