"""Collate: a list of samples becomes one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import DataError


def collate(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Stack samples key by key: arrays and numbers become arrays [N, ...], anything else a list of N.

    Raises DataError where keys, shapes or data types differ between samples.
    """
    keys = list(samples[0])
    for position, sample in enumerate(samples):
        if set(sample) != set(keys):
            raise DataError(
                f"collate: sample {position} of the batch has keys {sorted(sample)} but sample 0 has "
                f"{sorted(keys)}; all samples of a batch need the same keys"
            )
    return {key: _column(key, [sample[key] for sample in samples]) for key in keys}


def _column(key: str, values: list[Any]) -> Any:
    if not isinstance(values[0], (np.ndarray, np.generic, int, float)):
        return values
    arrays = [np.asarray(value) for value in values]
    for position, array in enumerate(arrays):
        if array.shape != arrays[0].shape or array.dtype != arrays[0].dtype:
            raise DataError(
                f"collate: '{key}' is {array.dtype} {list(array.shape)} in sample {position} of the batch, "
                f"but {arrays[0].dtype} {list(arrays[0].shape)} in sample 0; resize or pad with a transform, "
                "or give the loader a collate of your own"
            )
    return np.stack(arrays)
