"""framework/native/ops/movement.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _slices(rank, starts, ends, axes=(), steps=()):
    index = [slice(None)] * rank
    for i, axis in enumerate(axes or range(len(starts))):
        step = steps[i] if steps else 1
        # Beyond the front, a negative step's end is "none" for NumPy.
        far = step < 0 and ends[i] < -(2**32)
        index[axis] = slice(starts[i], None if far else ends[i], step)
    return tuple(index)


def _put_slice(dy, like, **attrs):
    dx = np.zeros(like.shape, dy.dtype)
    dx[_slices(like.ndim, **attrs)] = dy
    return dx


def _pad(x, pads, mode="constant", value=0.0):
    widths = list(zip(pads[::2], pads[1::2], strict=True))
    return np.pad(x, widths, mode=mode, **({"constant_values": value} if mode == "constant" else {}))


def _spread(dy, like, copies):
    """Gradient of a movement: `copies` says for each element of dy the number of the element it is a copy of, or -1."""
    dx = np.zeros(like.size)
    keep = copies >= 0
    np.add.at(dx, copies[keep], dy[keep])
    return dx.reshape(like.shape)


def _numbers(like):
    return np.arange(like.size).reshape(like.shape)


spec(
    "transpose",
    reference=lambda x, perm=(): x.transpose(perm or None),
    exact=True,
    samples=[
        Sample([normal(3, 5)]),
        Sample([normal(2, 3, 4, 5)], {"perm": (0, 2, 3, 1)}),
        Sample([normal(2, 3, 4, 5)], {"perm": (0, 3, 1, 2)}),
        Sample([normal(2, 3, 4, 5)], {"perm": (0, 2, 1, 3)}),
        Sample([normal(2, 3, 4, 5)], {"perm": (3, -2, 1, 0)}),
        Sample([normal(1, 70, 33)], {"perm": (2, 0, 1)}),
        Sample([integers(-9, 9, 20, 40).astype(np.int8)]),
        Sample([integers(0, 2, 3, 1, 2) > 0], {"perm": (1, 2, 0)}),
        Sample([normal(4, 1, 3)], {"perm": (1, 0, 2)}),
        Sample([normal(0, 3)]),
        Sample([normal()]),
    ],
    errors=[
        Bad([normal(2, 3)], AttributeValueError, r"perm \[0, 0\] must name each of the 2 axes", {"perm": (0, 0)}),
        Bad([normal(2, 3)], AttributeValueError, r"perm \[0\] must name", {"perm": (0,)}),
    ],
)
spec(
    "concat",
    reference=lambda *xs, axis: np.concatenate(xs, axis),
    exact=True,
    samples=[
        Sample([normal(2, 3), normal(4, 3), normal(0, 3)], {"axis": 0}),
        Sample([normal(2, 3), normal(2, 1)], {"axis": -1}),
        Sample([normal(2, 3, 2), normal(2, 5, 2), normal(2, 1, 2)], {"axis": 1}),
        Sample([integers(0, 99, 4, 3).astype(np.uint8), integers(0, 99, 4, 2).astype(np.uint8)], {"axis": 1}),
        Sample([normal(3)], {"axis": 0}),
    ],
    errors=[
        Bad(
            [normal(2, 3), normal(4, 4)],
            ShapeError,
            r"xs\[1\] of shape \[4, 4\] and xs\[0\] of shape \[2, 3\] may differ on axis 0 only",
            {"axis": 0},
        ),
        Bad([], ShapeError, "nothing to join", {"axis": 0}),
        Bad([normal(2), integers(0, 3, 2)], DTypeError, r"xs\[1\] is int64 but xs\[0\] is float32", {"axis": 0}),
        Bad([normal(), normal()], ShapeError, "use stack", {"axis": 0}),
    ],
)
spec(
    "split",
    reference=lambda x, axis, sizes: tuple(
        np.split(x, np.cumsum([x.shape[axis] - sum(sizes) - 1 if s == -1 else s for s in sizes])[:-1], axis)
    ),
    exact=True,
    samples=[
        Sample([normal(2, 6)], {"axis": 1, "sizes": (1, 3, 2)}),
        Sample([normal(5, 2, 2)], {"axis": 0, "sizes": (2, 0, -1)}),
        Sample([integers(0, 9, 3, 4, 2)], {"axis": -2, "sizes": (1, 1, 2)}),
    ],
    errors=[
        Bad([normal(2, 6)], ShapeError, "sizes sum to 5 but x has extent 6 on axis 1", {"axis": 1, "sizes": (2, 3)}),
        Bad([normal(2, 6)], ShapeError, "sizes sum to 7", {"axis": 1, "sizes": (-1, 7)}),
        Bad([normal(2, 6)], AttributeValueError, "may hold extents and one -1", {"axis": 1, "sizes": (-1, -1)}),
    ],
)
spec(
    "split_like",
    reference=lambda x, *likes, axis: tuple(np.split(x, np.cumsum([y.shape[axis] for y in likes])[:-1], axis)),
    exact=True,
    samples=[
        Sample([normal(2, 6), normal(2, 1), normal(2, 5)], {"axis": 1}),
        Sample([normal(4, 2), normal(3, 2), normal(1, 2)], {"axis": 0}),
        Sample([normal(3, 2, 2), normal(3, 2, 2)], {"axis": -2}),
    ],
    errors=[
        Bad([normal(2, 6), normal(2, 2)], ShapeError, "likes sum to 2 on axis 1 but x has extent 6", {"axis": 1}),
        Bad([normal(2, 6), normal(6)], ShapeError, r"likes\[0\] has 1 axes", {"axis": 1}),
    ],
)

FAR = 2**62
SLICES = [
    ((6,), {"starts": (1,), "ends": (-1,)}),
    ((4, 5, 3), {"starts": (1, -2), "ends": (FAR, FAR), "axes": (0, 1)}),
    ((4, 5, 3), {"starts": (0,), "ends": (2,), "axes": (-1,)}),
    ((7, 2), {"starts": (FAR,), "ends": (-FAR,), "steps": (-1,)}),
    ((7, 8), {"starts": (5, 1), "ends": (0, 7), "steps": (-2, 3)}),
    ((5, 3), {"starts": (3,), "ends": (1,)}),
    ((2, 40), {"starts": (3,), "ends": (38,), "axes": (1,)}),
    ((3, 4), {"starts": (), "ends": ()}),
]
BAD_SLICES = [
    ("step 0 on axis 0", {"starts": (0,), "ends": (1,), "steps": (0,)}),
    ("must have as many", {"starts": (0,), "ends": (1, 2)}),
    (r"axis 2 does not exist in shape \[2, 3\]", {"starts": (0,), "ends": (1,), "axes": (2,)}),
    ("names axis 1 twice", {"starts": (0, 0), "ends": (1, 1), "axes": (1, -1)}),
]
spec(
    "slice",
    reference=lambda x, **attrs: x[_slices(x.ndim, **attrs)],
    exact=True,
    samples=[
        *(Sample([normal(*shape)], attrs) for shape, attrs in SLICES),
        Sample([integers(0, 99, 9).astype(np.uint8)], {"starts": (1,), "ends": (8,), "steps": (2,)}),
    ],
    errors=[Bad([normal(2, 3)], AttributeValueError, match, attrs) for match, attrs in BAD_SLICES],
)
spec(
    "slice_grad",
    reference=_put_slice,
    exact=True,
    samples=[
        Sample([normal(*np.zeros(shape)[_slices(len(shape), **attrs)].shape, seed=1), normal(*shape)], attrs)
        for shape, attrs in SLICES
    ],
    errors=[
        Bad([normal(3), normal(6)], ShapeError, r"dy has shape \[3\] but must have \[4\]", SLICES[0][1]),
        *(Bad([normal(2, 3), normal(2, 3)], AttributeValueError, match, attrs) for match, attrs in BAD_SLICES),
    ],
)

PADS = [
    ((2, 3), {"pads": (1, 0, 2, 1)}),
    ((3, 4), {"pads": (2, 2, 3, 1), "mode": "reflect"}),
    ((2, 3, 2), {"pads": (1, 3, 0, 0, 0, 2), "mode": "edge"}),
    ((1, 5, 5, 3), {"pads": (0, 0, 1, 1, 2, 0, 0, 0)}),
    ((0, 2), {"pads": (1, 1, 0, 1)}),
    ((2, 2), {"pads": (0, 0, 0, 0), "mode": "edge"}),
]
BAD_PADS = [
    (AttributeValueError, r"pads has 2 numbers but shape \[2, 3\] needs 4", {"pads": (1, 1)}),
    (AttributeValueError, "pads holds -1 for axis 1; use slice", {"pads": (0, 0, -1, 0)}),
    (ShapeError, "reflect needs more than 2 elements on axis 0", {"pads": (2, 0, 0, 0), "mode": "reflect"}),
    (AttributeValueError, "mode is 'wrap'; takes 'constant', 'reflect', 'edge'", {"pads": (0,) * 4, "mode": "wrap"}),
]
spec(
    "pad",
    reference=_pad,
    exact=True,
    samples=[
        *(Sample([normal(*shape)], attrs) for shape, attrs in PADS),
        Sample([normal(2, 3)], {"pads": (1, 0, 2, 1), "value": -1.5}),
        Sample([integers(0, 99, 2, 3)], {"pads": (1, 0, 2, 1), "value": 7}),
        Sample([integers(0, 2, 2, 3) > 0], {"pads": (1, 0, 2, 1), "value": 1}),
    ],
    errors=[
        *(Bad([normal(2, 3)], error, match, attrs) for error, match, attrs in BAD_PADS),
        Bad([normal(0)], ShapeError, "no edge to repeat", {"pads": (1, 0), "mode": "edge"}),
    ],
)


def _pad_grad(dy, like, pads, mode="constant"):
    return _spread(dy, like, _pad(_numbers(like), pads, mode, -1))


spec(
    "pad_grad",
    reference=_pad_grad,
    samples=[
        Sample([normal(*_pad(np.zeros(shape), **attrs).shape, seed=1), normal(*shape)], attrs) for shape, attrs in PADS
    ],
    errors=[
        Bad([normal(3), normal(4)], ShapeError, r"dy has shape \[3\] but must have \[5\]", {"pads": (1, 0)}),
        *(Bad([normal(2, 3), normal(2, 3)], error, match, attrs) for error, match, attrs in BAD_PADS),
    ],
)
spec(
    "flip",
    reference=lambda x, axes=(): np.flip(x, axes or None),
    exact=True,
    samples=[
        Sample([normal(2, 3)]),
        Sample([normal(2, 3, 4)], {"axes": (1,)}),
        Sample([normal(3, 4)], {"axes": (-1,)}),
        Sample([integers(0, 9, 5).astype(np.uint8)], {"axes": 0}),
        Sample([normal(0, 2)]),
    ],
    errors=[Bad([normal(2, 3)], AttributeValueError, "axes names axis -1 twice", {"axes": (1, -1)})],
)
TILES = [((2, 3), (2, 1)), ((3,), (4,)), ((2, 1, 3), (1, 3, 2)), ((2, 2), (1, 1)), ((2, 3), (0, 2))]
spec(
    "tile",
    reference=lambda x, repeats: np.tile(x, repeats),
    exact=True,
    samples=[Sample([normal(*shape)], {"repeats": repeats}) for shape, repeats in TILES],
    errors=[
        Bad([normal(2, 3)], AttributeValueError, r"repeats has 1 numbers but shape \[2, 3\]", {"repeats": (2,)}),
        Bad([normal(2)], AttributeValueError, "repeats holds -1 for axis 0", {"repeats": (-1,)}),
    ],
)
spec(
    "tile_grad",
    reference=lambda dy, like, repeats: _spread(dy, like, np.tile(_numbers(like), repeats)),
    samples=[
        Sample([normal(*np.multiply(shape, repeats), seed=1), normal(*shape)], {"repeats": repeats})
        for shape, repeats in TILES
    ],
    errors=[Bad([normal(3), normal(2)], ShapeError, r"dy has shape \[3\] but must have \[4\]", {"repeats": (2,)})],
)
spec(
    "arange",
    reference=lambda start, stop, step=1.0, dtype="int64": np.arange(start, stop, step, dtype=dtype),
    gradient=False,
    samples=[
        Sample([], {"start": 0, "stop": 5}),
        Sample([], {"start": 5, "stop": -4, "step": -2, "dtype": "int32"}),
        Sample([], {"start": 0.5, "stop": 2, "step": 0.25, "dtype": "float32"}),
        Sample([], {"start": 0, "stop": 70000, "dtype": "float64"}),
        Sample([], {"start": 3, "stop": 3}),
    ],
    errors=[
        Bad([], AttributeValueError, "makes no finite sequence", {"start": 0, "stop": 1, "step": 0}),
        Bad([], AttributeValueError, "makes no finite sequence", {"start": 0, "stop": float("inf")}),
        Bad([], AttributeValueError, "must be whole numbers for int64", {"start": 0.5, "stop": 3}),
        Bad([], DTypeError, "dtype is bool but must be", {"start": 0, "stop": 3, "dtype": "bool"}),
    ],
)


def _rolled(x, shifts, axes=()):
    shifts, axes = np.atleast_1d(shifts), np.atleast_1d(np.array(axes, np.int64))
    return np.roll(x, tuple(shifts), tuple(axes)) if axes.size else np.roll(x, int(shifts[0]))


spec(
    "roll",
    reference=_rolled,
    exact=True,
    samples=[
        Sample([normal(4, 5)], {"shifts": (2,), "axes": (1,)}),
        Sample([normal(3, 4, 5)], {"shifts": (-1, 7), "axes": (0, -1)}),
        Sample([normal(3, 4)], {"shifts": (5,)}),
        Sample([normal()], {"shifts": (3,)}),
        Sample([np.zeros((0, 3))], {"shifts": (2,), "axes": (0,)}),
        Sample([integers(0, 9, 2, 6).astype(np.uint8)], {"shifts": (0,), "axes": (1,)}),
    ],
    errors=[
        Bad([normal(3, 4)], AttributeValueError, "shifts has 2 numbers but 1 are needed: one, where no axes",
            {"shifts": (1, 2)}),
        Bad([normal(3, 4)], AttributeValueError, "shifts has 1 numbers but 2 are needed: one an axis",
            {"shifts": (1,), "axes": (0, 1)}),
        Bad([normal(3, 4)], AttributeValueError, r"axes is 2 but must lie in \[-2, 1\]",
            {"shifts": (1,), "axes": (2,)}),
        Bad([normal(3, 4)], AttributeValueError, "axes names axis -2 twice", {"shifts": (1, 1), "axes": (0, -2)}),
    ],
)  # fmt: skip
for _name, _triangle in (("triu", np.triu), ("tril", np.tril)):
    spec(
        _name,
        reference=_triangle,
        exact=True,
        samples=[
            Sample([normal(4, 5)]),
            Sample([normal(2, 5, 3)], {"k": 1}),
            Sample([normal(3, 6)], {"k": -2}),
            Sample([normal(2, 3)], {"k": 2**62}),
            Sample([normal(2, 3)], {"k": -(2**62)}),
            Sample([np.zeros((2, 0, 3))]),
            Sample([integers(0, 9, 5, 5) > 3]),
        ],
        errors=[Bad([normal(3)], ShapeError, "x has 1 axes .* needs at least 2")],
    )
