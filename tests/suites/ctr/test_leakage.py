"""Training rows that are later than evaluation rows, or of the same groups, are told."""

import itertools

import numpy as np
import pytest

from suites.ctr.datasets.clicks import Clicks
from suites.ctr.inspection.leakage import leaks

_numbers = itertools.count(1)  # so that rows of two sets are different unless they are given


def clicks(time=None, group=None, rows=None):
    def of(values):
        return None if values is None else np.array(values, np.int64)

    count = len(next((each for each in (time, group, rows) if each is not None), ["x"]))
    signs = np.array(rows or [next(_numbers) for _ in range(count)], np.int64)
    return Clicks(signs[:, None], {}, np.zeros((count, 0), np.float32), time=of(time), group=of(group))


@pytest.mark.parametrize(
    ("train", "held", "said"),
    [
        ({"time": [1, 2, 3, 9]}, {"time": [4, 5]}, ["25% of the training rows are later than the first evaluation"]),
        ({"time": [1, 2, 3, 4]}, {"time": [4, 5]}, []),
        ({"group": [1, 1, 2]}, {"group": [2, 3, 3]}, ["1 of 2 groups of the evaluation rows are in the training rows"]),
        ({"group": [1, 2]}, {"group": [3]}, []),
        ({"time": [5], "group": [1]}, {"time": [4], "group": [1]}, ["100% of the training rows", "1 of 1 groups"]),
        ({"time": [5]}, {"group": [1]}, []),
        ({}, {}, []),
        ({"rows": [1, 2, 2, 3]}, {"rows": [2, 4, 3]}, ["2 samples of the evaluation rows are copies of samples of"]),
    ],
)
def test_what_training_knows_of_an_evaluation_is_told(train, held, said):
    found = leaks(clicks(**train), clicks(**held))
    assert len(found) == len(said) and all(text.startswith(start) for text, start in zip(found, said, strict=True))
