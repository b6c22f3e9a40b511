"""Keys of a batch for shards: each key once, ordered by bucket, so that a shard's share is one slice.

Letters: K keys of a batch, U different ones among them, B buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework import _core
from framework.errors import AttributeValueError
from framework.tensors import Tensor, from_numpy

BITS = 8
BUCKETS = 1 << BITS  # fixed for ever: a bucket moves between shards whole
_NO_CLICKS = np.zeros(0, np.float32)


@dataclass(frozen=True)
class Unique:
    """The different keys of a batch.

    Attributes:
        keys: int64 [U], by bucket.
        inverse: int64, the shape of the batch's keys: the place of each in `keys`.
        shows: float32 [U], how often each occurs.
        clicks: float32 [U], how often each was clicked.
        starts: int64 [B + 1], where each bucket begins in `keys`.
    """

    keys: np.ndarray
    inverse: np.ndarray
    shows: np.ndarray
    clicks: np.ndarray
    starts: np.ndarray


def unique(keys: np.ndarray, clicks: np.ndarray | None = None) -> Unique:
    """The different keys of `keys`, int64 of any shape.

    Args:
        keys: of a batch.
        clicks: float32, one for each key or for each of equal runs of keys, as in `Table.lookup`.

    Raises ShapeError where clicks do not fit the keys.
    """
    given = from_numpy(np.ascontiguousarray(keys)).array()
    clicked = from_numpy(_NO_CLICKS if clicks is None else np.ascontiguousarray(clicks, np.float32)).array()
    return Unique(*(Tensor(a).numpy() for a in _core.unique_keys(given, clicked, BITS)))


def bucket_of(keys: np.ndarray) -> np.ndarray:
    """The bucket of each key, int64, as `framework/native/table/hash.h` has it: part of the files' format."""
    h = keys.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = ((h ^ (h >> np.uint64(31))) >> np.uint64(64 - BITS)).astype(np.int64)
    return found


def shares(count: int) -> list[tuple[int, int]]:
    """The buckets [first, last) of each of `count` shards.

    Raises AttributeValueError for a number of shards that is not in [1, B].
    """
    if not 1 <= count <= BUCKETS:
        raise AttributeValueError(f"shards: there are {count}; a table has {BUCKETS} buckets, so 1 to {BUCKETS} shards")
    return [(BUCKETS * i // count, BUCKETS * (i + 1) // count) for i in range(count)]


def chunks(size: int) -> np.ndarray:
    """Where each bucket's chunk of `size` dense numbers begins, int64 [B + 1]."""
    return np.arange(BUCKETS + 1, dtype=np.int64) * size // BUCKETS


def sliced(starts: np.ndarray, share: tuple[int, int]) -> slice:
    """The slice of a shard's buckets in what `starts` [B + 1] describes."""
    return slice(int(starts[share[0]]), int(starts[share[1]]))


def covers(found: Sequence[tuple[int, int]]) -> bool:
    """Whether shares are all buckets, each once."""
    ends = sorted(found)
    return [first for first, _ in ends] == [0, *(last for _, last in ends[:-1])] and ends[-1][1] == BUCKETS
