"""Objects between our processes: they arrive as they were, and a block is written again only when nobody reads it."""

import gc
import os
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from framework.data.exchange import Held, parcel, receive_each, receive_parcels, send_each, send_parcels
from framework.data.kept import ONCE, KeptBlocks

LARGE = 200_000


@pytest.fixture
def pipe():
    ends = Pipe(duplex=True)
    yield ends
    for end in ends:
        end.close()


def handed(pipe, kept, held, *values):
    """Values as parcels of their receiver."""
    send_each(pipe[0], values, kept)
    return receive_parcels(pipe[1], held)


def opened(pipe, parcels):
    send_parcels(pipe[0], parcels)
    return receive_each(pipe[1])


def picture(number, size=LARGE):
    return np.full(size, number, np.uint8)


def test_objects_of_all_sizes_arrive_as_they_were(pipe):
    kept, held = KeptBlocks(), Held()
    values = [picture(1), {"a": [1, "b"], "c": np.arange(7)}, picture(2, 3 * LARGE), None]
    found = opened(pipe, [*handed(pipe, kept, held, *values), parcel("own"), parcel(picture(3))])
    np.testing.assert_equal(found, [*values, "own", picture(3)])


def test_a_block_is_used_again_once_its_parcels_are_gone_and_not_before(pipe):
    kept, held = KeptBlocks(), Held()
    (first,) = handed(pipe, kept, held, picture(1))
    kept.put_back(held.done())
    (second,) = handed(pipe, kept, held, picture(2))
    assert [array[0] for array in opened(pipe, [first, second])] == [1, 2]
    del first
    gc.collect()
    numbers = held.done()
    assert len(numbers) == 1 and held.done() == []
    kept.put_back(numbers)
    _, at = kept.place(LARGE)
    assert at.fresh is None and at.block == numbers[0] and at.retired == []
    assert opened(pipe, [second])[0][0] == 2


def test_what_does_not_fit_into_what_is_kept_goes_into_a_block_of_its_own_and_no_descriptor_stays(pipe):
    kept, held = KeptBlocks(most=2 * LARGE), Held()
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    gc.freeze()  # what other tests left is not looked through 50 times
    for number in range(50):
        parcels = [handed(pipe, kept, held, picture(number, size))[0] for size in (LARGE, LARGE, 3 * LARGE)]
        assert {array[0] for array in opened(pipe, parcels)} == {number}
        del parcels
        gc.collect()
        kept.put_back(held.done())
    gc.unfreeze()
    assert sum(map(len, kept._blocks.values())) <= 2 * LARGE
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert kept.place(9 * LARGE)[1].block == ONCE
    os.close(kept._unsent)
