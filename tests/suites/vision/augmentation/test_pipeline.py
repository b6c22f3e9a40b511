"""A transform that mixes samples is given others that can be read."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.vision.augmentation.pipeline import Augmented, MixingTransform


class Numbers:
    """Sample i is i; all but one cannot be read."""

    def __init__(self, readable):
        self.readable = readable

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index not in self.readable:
            raise DataError(f"number {index}: cut off")
        return index

    def name_of(self, index):
        return f"number {index}"


class Pair(MixingTransform):
    def mix(self, sample, rng, draw):
        return sample, draw()


def test_a_partner_that_cannot_be_read_is_drawn_again_by_the_same_generator():
    data = Augmented(Numbers({0, 3}), [Pair()])
    found = [data.sample(0, np.random.default_rng(seed)) for seed in range(20)]
    assert {partner for _, partner in found} == {0, 3}
    assert found == [data.sample(0, np.random.default_rng(seed)) for seed in range(20)]


def test_where_no_partner_can_be_read_the_last_one_is_the_error():
    data = Augmented(Numbers({0}), [Pair()])
    data.dataset.readable = set()
    data._load = lambda index, rng: 0 if rng.bit_generator.state["state"]["state"] == start else data.dataset[index]
    rng = np.random.default_rng(0)
    start = rng.bit_generator.state["state"]["state"]
    with pytest.raises(DataError, match=r"number \d: cut off"):
        data.sample(0, rng)
