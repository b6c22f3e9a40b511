"""Signs: the 64-bit keys of features.

`sign = slot << 52 | hash52`, held as int64 (the bit pattern). hash52 is the low 52 bits of XXH64 (github.com/Cyan4973/
xxHash, doc/xxhash_spec.md) of the raw bytes with seed 0. 0 stands for a missing value; a real one that hashes to 0
becomes 1. The native reader computes those of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework import _core
from framework.errors import AttributeValueError

MAX_SLOT = 4095
_BITS = 52
_MASK = (1 << _BITS) - 1


def signs_of(texts: Sequence[bytes], slot: int) -> np.ndarray:
    """The signs of raw values in a slot, int64 [N]. An empty text is hashed like any other; see `missing_sign`.

    Raises:
        AttributeValueError: the slot is not 1 to 4095.
    """
    high = _checked(slot) << _BITS
    return np.array([high | (_core.hash64(text) & _MASK or 1) for text in texts], np.uint64).view(np.int64)


def missing_sign(slot: int) -> int:
    """The sign of a missing value in a slot."""
    return int(np.uint64(_checked(slot) << _BITS).astype(np.int64))


def _checked(slot: int) -> int:
    if not 1 <= slot <= MAX_SLOT:
        raise AttributeValueError(f"signs: slot is {slot}; it must be 1 to {MAX_SLOT}")
    return slot
