"""Sources without a length keep their place; several data sets keep their shares."""

import itertools
from collections import Counter

import numpy as np
import pytest

from framework.data import DataLoader, Mixed, StreamLoader, World
from framework.errors import AttributeValueError, CheckpointError, DataError


class Count:
    """0, 1, 2 ... without an end, or up to `end` again and again."""

    def __init__(self, end=None):
        self.at, self.end = 0, end

    def __iter__(self):
        while self.end is None or self.at < self.end:
            self.at += 1
            yield {"x": np.float64(self.at - 1)}
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def jitter(sample, rng):
    return {"x": sample["x"] + rng.random() / 2}


def loader(end=None, **options):
    return StreamLoader(Count(end), 3, seed=1, transforms=[jitter], **options)


def take(loader, count):
    return [batch["x"] for batch in itertools.islice(loader.stream(), count)]


@pytest.mark.parametrize("end", [None, 4])
def test_a_stream_continues_where_its_position_was_saved(end):
    whole = take(loader(end), 6)
    first = loader(end)
    before = take(first, 2)
    again = loader(end)
    again.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(np.concatenate([*before, *take(again, 4)]), np.concatenate(whole))
    assert first.length is None and [int(x) for x in whole[1]] == ([3, 4, 5] if end is None else [3, 0, 1])


def test_a_position_of_other_batches_is_refused():
    with pytest.raises(CheckpointError, match="has batch_size 3 but this loader has 2"):
        StreamLoader(Count(), 2, seed=1).load_state_dict(loader().state_dict())


def test_a_source_without_samples_is_an_error_and_no_endless_loop():
    with pytest.raises(DataError, match="gives no sample"):
        take(loader(0), 1)


def test_processes_share_a_stream():
    parts = [loader(), loader()]
    for rank, part in enumerate(parts):
        part.split(World(rank, 2))
    assert [[int(x) for x in take(part, 1)[0]] for part in parts] == [[0, 2, 4], [1, 3, 5]]


def sets():
    return [[{"of": "small"}] * 3, [{"of": "large"}] * 100]


@pytest.mark.parametrize("weights, expected", [(None, (3, 100)), ((1, 3), (10, 30))])
def test_data_sets_have_their_shares_in_every_epoch(weights, expected):
    mixed = Mixed(sets(), weights, size=None if weights is None else 40)
    loader = DataLoader(mixed, 4, shuffle=True, seed=0, collate=list)
    for _ in range(2):
        seen = Counter(sample["of"] for batch in loader for sample in batch)
        assert (seen["small"], seen["large"]) == expected


def test_epochs_see_other_samples_and_runs_the_same():
    def epochs():
        mixed = Mixed([list(range(100)), list(range(100, 110))], [1, 1], size=20)
        loader = DataLoader(mixed, 5, shuffle=True, seed=0, collate=list)
        return [sorted(x for batch in loader for x in batch) for _ in range(2)]

    first, again = epochs(), epochs()
    assert first == again and first[0] != first[1]


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(AttributeValueError, match="a weight above 0"):
        Mixed(sets(), [1, 0])
