"""Token vectors to one vector a sequence."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, ShapeError
from suites.engine.serving.pooling import POOLINGS, normalized, pool

VALUES = np.arange(24, dtype=np.float32).reshape(6, 4) * np.array([1, -1, 1, -1], np.float32)
OFFSETS = np.array([0, 2, 2, 6])  # the second sequence has no token
PARTS = [VALUES[0:2], VALUES[2:6]]


@pytest.mark.parametrize(
    ("pooling", "of"),
    [
        ("mean", lambda part: part.mean(0)),
        ("max", lambda part: part.max(0)),
        ("cls", lambda part: part[0]),
        ("last", lambda part: part[-1]),
        ("mean_max", lambda part: np.concatenate([part.mean(0), part.max(0)])),
    ],
)
def test_pooling_is_what_its_name_says_and_zero_without_tokens(pooling, of):
    found = pool(VALUES, OFFSETS, pooling)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[[0, 2]], [of(part) for part in PARTS], rtol=1e-6)
    assert not found[1].any()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_no_sequences_give_no_vectors(pooling):
    assert len(pool(np.zeros((0, 4), np.float32), np.array([0]), pooling)) == 0


def test_wrong_names_and_offsets_are_refused():
    with pytest.raises(AttributeValueError, match="'sum' is no pooling; there are mean, cls"):
        pool(VALUES, OFFSETS, "sum")
    for offsets in ([0, 3], [1, 6], [0, 7, 6]):
        with pytest.raises(ShapeError, match="rise from 0 to 6"):
            pool(VALUES, np.array(offsets), "mean")


def test_normalized_vectors_have_length_1():
    found = normalized(np.array([[3, 4], [0, 0]], np.float32))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0]], rtol=1e-6)
