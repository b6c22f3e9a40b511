"""Ragged batches for tests, and the same padded to one length."""

import numpy as np

from framework import Tensor, tensor


def ragged(texts) -> tuple[Tensor, Tensor]:
    """Texts of word numbers one behind the other, int64 [T], and where each begins and ends, [B + 1]."""
    rows = np.concatenate([np.asarray(text, np.int64) for text in texts])
    return tensor(rows), tensor(np.cumsum([0, *map(len, texts)]))


class Batch:
    """Random token ids of sequences of the given lengths.

    Attributes:
        ids: int64 [T].
        offsets: int64 [B + 1].
        segment_ids: int64 [T], 0 then 1.
        padded: ids [B, L].
        padded_segments: int64 [B, L].
        mask: bool [B, L].
    """

    def __init__(self, lengths: list[int], words: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        offsets = np.cumsum([0, *lengths])
        ids = rng.integers(0, words, offsets[-1])
        segments = np.concatenate([np.arange(n) >= n // 2 for n in lengths]).astype(np.int64)
        self.lengths = lengths
        self.ids, self.offsets, self.segment_ids = tensor(ids), tensor(offsets), tensor(segments)
        self.padded, self.padded_segments = self.pad(ids), self.pad(segments)
        self.mask = self.pad(np.ones(len(ids), bool))

    def pad(self, rows: np.ndarray) -> Tensor:
        """[T, ...] -> [B, L, ...] with zeros behind each sequence."""
        out = np.zeros((len(self.lengths), max(self.lengths), *rows.shape[1:]), rows.dtype)
        start = 0
        for b, n in enumerate(self.lengths):
            out[b, :n] = rows[start : start + n]
            start += n
        return tensor(out)
