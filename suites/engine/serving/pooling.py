"""One vector of each sequence from the vectors of its tokens, for sequences that lie one behind the other."""

from __future__ import annotations

import numpy as np

from framework.errors import AttributeValueError, ShapeError

POOLINGS = ("mean", "cls", "max", "mean_max", "last")


def pool(values: np.ndarray, offsets: np.ndarray, pooling: str) -> np.ndarray:
    """Pool ragged token vectors; a sequence without tokens gives zeros.

    Args:
        values: float [T, D], the tokens of all sequences.
        offsets: int [B+1], where each sequence starts, and the end: T.
        pooling: one of `POOLINGS`: the mean or the largest value of each of the D features, both side by side, the
            first token ([CLS]) or the last.

    Returns:
        float32 [B, D], for "mean_max" [B, 2 D].
    """
    if pooling not in POOLINGS:
        raise AttributeValueError(f"pool: '{pooling}' is no pooling; there are {', '.join(POOLINGS)}")
    starts, ends = offsets[:-1].astype(np.intp), offsets[1:].astype(np.intp)
    if values.ndim != 2 or (starts.size and (starts[0] != 0 or ends[-1] != len(values) or (ends < starts).any())):
        raise ShapeError(f"pool: values are {list(values.shape)}; offsets must rise from 0 to {len(values)}")
    if pooling == "mean_max":
        return np.concatenate([pool(values, offsets, "mean"), pool(values, offsets, "max")], axis=1)
    pooled = np.zeros((len(starts), values.shape[1]), np.float32)
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    if not starts.size:
        return pooled
    if pooling == "mean":
        pooled[filled] = np.add.reduceat(values, starts, axis=0) / (ends - starts)[:, None]
    elif pooling == "max":
        pooled[filled] = np.maximum.reduceat(values, starts, axis=0)
    else:
        pooled[filled] = values[starts if pooling == "cls" else ends - 1]
    return pooled


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Vectors [N, D] at length 1; a zero vector stays zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1).astype(vectors.dtype)
