"""Signs: the 64-bit keys of features, as NumPy computes them; the reference of the native reader's.

`sign = slot << 52 | hash52`, held as int64 (the bit pattern). hash52 is the low 52 bits of XXH64 of the raw bytes with
seed 0. 0 stands for a missing value; a real one that hashes to 0 becomes 1.

XXH64 follows its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), over all texts of one length at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError

MAX_SLOT = 4095
_BITS = 52
_MASK = np.uint64((1 << _BITS) - 1)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STARTS = (0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579)  # P1 + P2, P2, 0, -P1 modulo 2^64
_STRIPE = 32  # bytes of the four lanes


def xxh64(texts: Sequence[bytes]) -> np.ndarray:
    """XXH64 with seed 0 of each text, uint64 [N]."""
    out = np.empty(len(texts), np.uint64)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    for length in np.unique(lengths):
        where = np.flatnonzero(lengths == length)
        joined = b"".join(texts[i] for i in where.tolist())
        out[where] = xxh64_rows(np.frombuffer(joined, np.uint8).reshape(len(where), int(length)))
    return out


def xxh64_rows(rows: np.ndarray) -> np.ndarray:
    """XXH64 with seed 0 of each row. rows: uint8 [N, bytes]; result: uint64 [N]."""
    count, length = rows.shape
    stripes = length // _STRIPE
    total = _of_stripes(rows, stripes) if stripes else np.full(count, _P5)
    return _avalanche(_of_rest(total + np.uint64(length), rows, stripes * _STRIPE))


def signs_of(texts: Sequence[bytes], slot: int) -> np.ndarray:
    """The signs of raw values in a slot, int64 [N]. An empty text is hashed like any other; see `missing_sign`.

    Raises:
        AttributeValueError: the slot is not 1 to 4095.
    """
    return with_slot(xxh64(texts), slot)


def sign_of_number(signs: np.ndarray, slot: int) -> np.ndarray:
    """The signs of numeric feature signs, as of a `slot:sign` log: their 8 little-endian bytes are hashed.

    Args:
        signs: uint64 or int64 [N]; every bit pattern is an ordinary one.
        slot: 1 to 4095.
    """
    return with_slot(xxh64_rows(_bytes_of(signs[:, None])), slot)


def crossed(members: np.ndarray, slot: int) -> np.ndarray:
    """The signs of crosses, int64 [N]: the members' signs, 8 little-endian bytes each in order, are hashed.

    Args:
        members: int64 [N, M], the signs of the M members.
        slot: of the cross, 1 to 4095.
    """
    return with_slot(xxh64_rows(_bytes_of(members)), slot)


def missing_sign(slot: int) -> int:
    """The sign of a missing value in a slot."""
    return int(np.uint64(_checked(slot) << _BITS).astype(np.int64))


def slot_of(signs: np.ndarray) -> np.ndarray:
    """The slot of each sign, int64 [...]."""
    return (signs.view(np.uint64) >> np.uint64(_BITS)).astype(np.int64)


def hash52(texts: Sequence[bytes]) -> np.ndarray:
    """The low 52 bits alone, int64 [N]; 0 becomes 1."""
    found = xxh64(texts) & _MASK
    return np.where(found == 0, np.uint64(1), found).astype(np.int64)


def with_slot(hashes: np.ndarray, slot: int) -> np.ndarray:
    """Signs of hashes uint64 [N] in a slot, int64 [N]."""
    low = hashes & _MASK
    low = np.where(low == 0, np.uint64(1), low)
    return (low | np.uint64(_checked(slot) << _BITS)).view(np.int64)


def _checked(slot: int) -> int:
    if not 1 <= slot <= MAX_SLOT:
        raise AttributeValueError(f"signs: slot is {slot}; it must be 1 to {MAX_SLOT}")
    return slot


def _bytes_of(numbers: np.ndarray) -> np.ndarray:
    """uint8 [N, 8 M]: the little-endian bytes of [N, M] 64-bit numbers."""
    little = np.ascontiguousarray(numbers).view(np.uint64).astype("<u8", copy=False)
    return little.view(np.uint8).reshape(len(numbers), -1)


def _of_stripes(rows: np.ndarray, stripes: int) -> np.ndarray:
    """Four lanes over the stripes of 32 bytes, merged."""
    lanes = [np.full(len(rows), start, np.uint64) for start in _STARTS]
    for stripe in range(stripes):
        lanes = [_round(lane, _words(rows, stripe * _STRIPE + 8 * i, 8)) for i, lane in enumerate(lanes)]
    total = np.zeros(len(rows), np.uint64)
    for lane, by in zip(lanes, (1, 7, 12, 18), strict=True):
        total = total + _rotated(lane, by)
    for lane in lanes:
        total = (total ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return total


def _of_rest(total: np.ndarray, rows: np.ndarray, at: int) -> np.ndarray:
    """What is left behind the stripes: words of 8 bytes, one of 4, single bytes."""
    length = rows.shape[1]
    while at + 8 <= length:
        total = _rotated(total ^ _round(np.zeros_like(total), _words(rows, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        total = _rotated(total ^ (_words(rows, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    for byte in range(at, length):
        total = _rotated(total ^ (rows[:, byte].astype(np.uint64) * _P5), 11) * _P1
    return total


def _words(rows: np.ndarray, at: int, width: int) -> np.ndarray:
    """The little-endian words of `width` bytes at a place of each row, uint64 [N]."""
    return np.ascontiguousarray(rows[:, at : at + width]).view(f"<u{width}")[:, 0].astype(np.uint64)


def _round(lane: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotated(lane + word * _P2, 31) * _P1


def _rotated(x: np.ndarray, by: int) -> np.ndarray:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def _avalanche(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(33))) * _P2
    x = (x ^ (x >> np.uint64(29))) * _P3
    return x ^ (x >> np.uint64(32))
