"""framework/native/ops/selection.cc"""

import numpy as np

from framework.errors import AttributeValueError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _nonzero(x, size, fill=0):
    found = np.argwhere(x)[:size]
    rest = np.full((size - len(found), x.ndim), fill)
    return np.concatenate([found, rest]).astype(np.int64)


def _unique(x, size, fill=()):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    missing = max(0, size - len(values))
    rest = fill[0] if len(fill) else values[0] if len(values) else 0
    values = np.concatenate([values[:size], np.full(missing, rest)]).astype(x.dtype)
    counts = np.concatenate([counts[:size], np.zeros(missing, np.int64)])
    return values, np.minimum(inverse.reshape(x.shape), size), counts


SPARSE = np.where(normal(4, 5) > 0.5, normal(4, 5, seed=1), 0.0)
SPARSE[0, 0] = np.nan
FEW = integers(-3, 4, 3, 7)
spec(
    "nonzero_sized",
    reference=_nonzero,
    exact=True,
    gradient=False,
    samples=[
        Sample([SPARSE], {"size": 30, "fill": -1}),
        Sample([SPARSE], {"size": 3}),
        Sample([normal(2, 3, 4) > 0], {"size": 24}),
        Sample([np.array(2.0)], {"size": 2}),
        Sample([np.zeros((0, 3))], {"size": 2, "fill": 7}),
    ],
    errors=[Bad([normal(3)], AttributeValueError, "size is -1 but must be 0 or more", {"size": -1})],
)
spec(
    "unique_sized",
    reference=_unique,
    exact=True,
    gradient=False,
    samples=[
        Sample([FEW], {"size": 7}),
        Sample([FEW.astype(np.int32)], {"size": 10, "fill": (99.0,)}),
        Sample([FEW], {"size": 3}),
        Sample([np.array([0.5, np.nan, -0.5, np.nan, 0.5, -np.inf])], {"size": 6}),
        Sample([normal(9) > 0], {"size": 2}),
        Sample([np.zeros(0)], {"size": 2}),
        Sample([integers(0, 9, 3000).astype(np.uint8)], {"size": 9}),
    ],
    errors=[
        Bad([normal(3)], AttributeValueError, "size is -1 but must be 0 or more", {"size": -1}),
        Bad([normal(3)], AttributeValueError, "fill takes one number, or none", {"size": 1, "fill": (1.0, 2.0)}),
    ],
)
