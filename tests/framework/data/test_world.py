"""Several processes, one after the other in this one: their parts make the whole."""

import numpy as np
import pytest

from framework.data import DataLoader, World
from framework.data.sampler import SequentialSampler, ShuffledSampler
from framework.errors import AttributeValueError, CheckpointError

RANKS = [World(0, 2), World(1, 2)]


def loader(world, batch_size=2, size=12, **options):
    made = DataLoader(list(range(size)), batch_size, seed=3, collate=np.array, **options)
    made.split(world)
    return made


@pytest.mark.parametrize("size", [12, 13])
def test_evaluation_is_split_without_repeats(size):
    parts = [SequentialSampler(size, world=world) for world in RANKS]
    assert [len(part) for part in parts] == [len(part.order(0)) for part in parts]
    assert sorted(np.concatenate([part.order(0) for part in parts])) == list(range(size))


def test_training_gives_every_process_as_many_samples():
    parts = [ShuffledSampler(13, seed=3, world=world) for world in RANKS]
    orders = [part.order(5) for part in parts]
    assert [len(part) for part in parts] == [len(order) for order in orders] == [7, 7]
    assert set(np.concatenate(orders)) == set(range(13))


def test_batches_of_two_processes_hold_the_samples_of_one_large_batch():
    whole = loader(World(), batch_size=4, shuffle=True)
    parts = [loader(world, shuffle=True) for world in RANKS]
    for _ in range(2):  # epochs
        for large, *small in zip(whole, *parts, strict=True):
            assert sorted(large) == sorted(np.concatenate(small))


def test_the_same_rank_gives_the_same_batches_and_a_position_belongs_to_its_rank():
    a, b = (loader(RANKS[1], shuffle=True) for _ in range(2))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(CheckpointError, match="rank 1 but this loader has 0"):
        loader(RANKS[0], shuffle=True).load_state_dict(a.state_dict())


def test_a_place_that_does_not_exist_is_refused():
    with pytest.raises(AttributeValueError, match="rank is 2 and size 2"):
        World(2, 2)
