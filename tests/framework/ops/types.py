"""Which types each operator takes, asked of its shape rule with the samples' shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framework import _core
from framework.errors import PaddockError
from framework.ops import registry
from framework.tensors import DTYPES
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS, Sample


def accepted_types(name: str) -> dict[str, list[str]]:
    """Input -> types in which the operator takes it in some sample, alone or with all inputs of its type alike."""
    info = registry.OPS[name]
    found: dict[str, set[str]] = {arg["name"]: set() for arg in info.inputs}
    for _, i, dtypes in accepted_calls(name):
        found[info.inputs[min(i, len(info.inputs) - 1)]["name"]].add(dtypes[i] or "")
    return {arg: [d for d in DTYPES if d in dtypes] for arg, dtypes in found.items()}


def accepted_calls(name: str) -> Iterator[tuple[Sample, int, list[str | None]]]:
    """Samples with types that the shape rule takes: the sample, which input was changed, and all inputs' types."""
    info = registry.OPS[name]
    for sample in SPECS[name].samples:
        given = [None if x is None else np.asarray(x) for x in sample.inputs]
        shapes = [None if x is None else x.shape for x in given]
        for i, x in enumerate(given):
            for dtype in DTYPES if x is not None else ():
                for alike in (False, True):
                    dtypes = [
                        None if y is None else dtype if k == i or (alike and y.dtype == x.dtype) else y.dtype.name
                        for k, y in enumerate(given)
                    ]
                    try:
                        _core.infer(info.native, shapes, dtypes, info.attr_values(sample.attrs))
                    except PaddockError:
                        continue
                    yield sample, i, dtypes
