"""Extreme attributes: an operator refuses them or works; it never crashes or takes memory for an empty result."""

import math

import numpy as np
import pytest

from framework import _core
from framework.errors import PaddockError
from framework.ops import registry
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS

WHOLE = (0, -1, 7, 2**31, 2**32 + 1, -(2**31), 2**61, 2**63 - 1, -(2**63), 6148914691236517205)
REAL = (0.0, -1.0, 1e308, -1e308, float("inf"), float("nan"), 1e-320)
LARGEST = 1 << 16  # elements of results that are computed
SMALL = 1000  # elements of the inputs of the samples that are taken


def values(kind, now):
    """Extreme values of an attribute that is `now`: all of it, or one of its numbers."""
    if kind == "int":
        return list(WHOLE)
    if kind == "float":
        return list(REAL)
    if kind not in ("ints", "floats"):
        return []
    numbers, extremes = tuple(np.atleast_1d(now).tolist()) or (1,), WHOLE if kind == "ints" else REAL
    every = [(e,) * n for e in extremes for n in {1, 2, len(numbers)}]
    one = [(*numbers[:i], e, *numbers[i + 1 :]) for i in range(len(numbers)) for e in extremes]
    return [*every, *one, (), (1,) * 9]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in SPECS if registry.OPS[n].attrs])
def test_extreme_attributes_are_refused_or_work(name):
    info = registry.OPS[name]
    samples = [s for s in SPECS[name].samples if sum(x.size for x in s.inputs if x is not None) <= SMALL][:3]
    for sample in samples:
        tensors = sample.tensors("float32")
        shapes = [None if t is None else t.shape for t in tensors]
        dtypes = [None if t is None else t.dtype for t in tensors]
        given = info.attr_values(sample.attrs)
        for i, attr in enumerate(info.attrs):
            for value in values(attr["type"], given[i]):
                attrs = (*given[:i], value, *given[i + 1 :])
                try:
                    types = _core.infer(info.native, shapes, dtypes, attrs)
                    if sum(math.prod(shape) for shape, _ in types) <= LARGEST:
                        _core.call(info.native, tuple(None if t is None else t._data for t in tensors), attrs)
                except PaddockError:
                    pass
