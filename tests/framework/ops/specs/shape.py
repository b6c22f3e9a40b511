"""framework/native/ops/shape.cc"""

import math

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _reshape(x, shape):
    """A -1 is what is left of the axes that are not copied, in an empty batch too."""
    copied = {i for i, d in enumerate(shape) if d == 0}
    left = math.prod(n for i, n in enumerate(x.shape) if i not in copied) // math.prod(d for d in shape if d > 0)
    return x.reshape([{0: x.shape[i] if i in copied else 0, -1: left}.get(d, d) for i, d in enumerate(shape)])


def _flatten(x, start=1, end=-1):
    start, end = start % x.ndim, end % x.ndim
    return x.reshape((*x.shape[:start], -1, *x.shape[end + 1 :]))


spec(
    "reshape",
    reference=_reshape,
    exact=True,
    samples=[
        Sample([normal(2, 3, 4)], {"shape": (0, -1)}),
        Sample([normal(6)], {"shape": (2, 1, 3)}),
        Sample([normal(0, 3)], {"shape": (0, 3, 1)}),
        Sample([integers(0, 9, 4, 2)], {"shape": (-1,)}),
        Sample([normal(0, 3, 4)], {"shape": (0, 2, -1)}),
        Sample([normal(0, 3)], {"shape": (-1, 3)}),
    ],
    errors=[
        Bad([normal(0, 3)], ShapeError, r"0 elements \(shape \[0, 3\]\)", {"shape": (0, 2, -1)}),
        Bad([normal(6)], AttributeValueError, "shape cannot hold", {"shape": (2**70,)}),
        Bad([normal(6)], AttributeValueError, "is too large", {"shape": (2**32, 2**32, -1)}),
        Bad([normal(6)], ShapeError, r"6 elements \(shape \[6\]\)", {"shape": (4, -1)}),
        Bad([normal(6)], AttributeValueError, "more than one -1", {"shape": (-1, -1)}),
        Bad([normal(6)], AttributeValueError, "no such axis", {"shape": (6, 0)}),
        Bad([normal(6)], AttributeValueError, "shape takes an int or ints, not 'six'", {"shape": "six"}),
    ],
)
spec(
    "reshape_like",
    reference=lambda x, like: x.reshape(like.shape),
    exact=True,
    samples=[
        Sample([normal(2, 3), normal(6)]),
        Sample([normal(4), normal(2, 2, 1)]),
        Sample([normal(1), integers(0, 2, 1, 1)]),
    ],
    errors=[Bad([normal(2, 3), normal(5)], ShapeError, r"x of shape \[2, 3\] and like of shape \[5\]")],
)
spec(
    "flatten",
    reference=_flatten,
    exact=True,
    samples=[
        Sample([normal(2, 3, 4)]),
        Sample([normal(2, 3, 4)], {"start": 0}),
        Sample([normal(2, 3, 4, 2)], {"start": 1, "end": -2}),
    ],
    errors=[Bad([normal(2, 3)], AttributeValueError, "start 1 lies after end 0", {"start": 1, "end": 0})],
)


def _unflatten(x, like, axis, start=0, end=1):
    axis, start, end = axis % x.ndim, start % like.ndim, end % like.ndim
    return x.reshape(x.shape[:axis] + like.shape[start : end + 1] + x.shape[axis + 1 :])


spec(
    "unflatten_like",
    reference=_unflatten,
    exact=True,
    samples=[
        Sample([normal(6, 4, 5), normal(2, 3, 7)], {"axis": 0}),
        Sample([normal(2, 12, 5), normal(2, 3, 4, 5)], {"axis": -2, "start": 1, "end": -2}),
        Sample([normal(2, 3), integers(0, 2, 3, 1)], {"axis": 1}),
        Sample([normal(0, 3), normal(0, 2)], {"axis": 0}),
        Sample([normal(4), normal(4)], {"axis": 0, "end": 0}),
    ],
    errors=[
        Bad(
            [normal(5, 2), normal(2, 3)],
            ShapeError,
            r"extent 5 on axis 0 .* axes 0 to 1 of like .* make 6",
            {"axis": 0},
        ),
        Bad(
            [normal(6), normal(2, 3)],
            AttributeValueError,
            "start 1 lies after end 0",
            {"axis": 0, "start": 1, "end": 0},
        ),
    ],
)
spec(
    "expand_dims",
    reference=lambda x, axis: np.expand_dims(x, axis),
    exact=True,
    samples=[Sample([normal(2, 3)], {"axis": a}) for a in (0, 1, -1)],
    errors=[Bad([normal(2, 3)], AttributeValueError, r"axis is 4 but must lie in \[-3, 2\]", {"axis": 4})],
)
spec(
    "squeeze",
    reference=lambda x, axis: np.squeeze(x, axis),
    exact=True,
    samples=[
        Sample([normal(1, 3)], {"axis": 0}),
        Sample([normal(2, 1, 3)], {"axis": -2}),
        Sample([normal(1)], {"axis": 0}),
    ],
    errors=[Bad([normal(2, 3)], ShapeError, "extent 3 on axis 1", {"axis": -1})],
)
spec(
    "full",
    reference=lambda shape, value, dtype="float32": np.full(shape, value, dtype),
    exact=True,
    gradient=False,
    samples=[
        Sample([], {"shape": (2, 3), "value": 1.5}),
        Sample([], {"shape": (), "value": 3, "dtype": "int64"}),
        Sample([], {"shape": (0, 2), "value": 0}),
    ],
    errors=[
        Bad([], AttributeValueError, "negative extent", {"shape": (-1,), "value": 0}),
        Bad([], DTypeError, "'float12' is not a type", {"shape": (1,), "value": 0, "dtype": "float12"}),
    ],
)
spec(
    "full_like",
    reference=lambda like, value: np.full_like(like, value),
    exact=True,
    gradient=False,
    samples=[
        Sample([normal(2, 3)], {"value": 2.0}),
        Sample([integers(0, 3, 4)], {"value": -1}),
        Sample([normal()], {"value": 0.5}),
    ],
    errors=[Bad([normal(2)], AttributeValueError, "attribute 'value' is missing")],
)
spec(
    "extent",
    reference=lambda x, axis: np.array(x.shape[axis]),
    exact=True,
    gradient=False,
    samples=[
        Sample([normal(2, 3)], {"axis": 1}),
        Sample([integers(0, 3, 4, 5)], {"axis": -2}),
        Sample([normal(0, 7)], {"axis": 0}),
    ],
    errors=[
        Bad([normal(2)], AttributeValueError, "axis", {"axis": 1}),
        Bad([normal()], AttributeValueError, "axis", {"axis": 0}),
    ],
)
spec(
    "positions",
    reference=lambda x, axis=0: np.arange(x.shape[axis]),
    exact=True,
    gradient=False,
    samples=[
        Sample([normal(2, 3)], {"axis": 1}),
        Sample([integers(0, 3, 4, 5)], {"axis": -2}),
        Sample([normal(0, 7)]),
    ],
    errors=[
        Bad([normal(2)], AttributeValueError, "axis", {"axis": 1}),
        Bad([normal()], AttributeValueError, "axis", {"axis": 0}),
    ],
)
spec(
    "copy",
    reference=lambda x: x,
    exact=True,
    samples=[Sample([normal(3, 5)]), Sample([integers(0, 5, 70000)]), Sample([normal(0)])],
    errors=[Bad([normal(2)], AttributeValueError, "takes no attribute 'deep'", {"deep": 1})],
)
