"""Ragged batches lie end to end; batches bounded by tokens keep the bound and hold every sample once."""

import numpy as np
import pytest

from framework.data import DataLoader, RaggedCollate, TokenBatches
from framework.errors import AttributeValueError, DataError


def test_sequences_lie_end_to_end():
    samples = [{"ids": np.arange(n), "marks": np.zeros((n, 2)), "label": n, "name": str(n)} for n in (3, 1, 2)]
    batch = RaggedCollate(["ids", "marks"])(samples)
    assert batch["ids"].tolist() == [0, 1, 2, 0, 0, 1] and batch["marks"].shape == (6, 2)
    assert batch["offsets"].tolist() == [0, 3, 4, 6] and batch["offsets"].dtype == np.int64
    assert batch["label"].tolist() == [3, 1, 2] and batch["name"] == ["3", "1", "2"]


def test_ragged_keys_of_different_length_are_refused():
    with pytest.raises(DataError, match=r"sample 0 of the batch has lengths \{'ids': 3, 'tags': 2\}"):
        RaggedCollate(["ids", "tags"])([{"ids": np.zeros(3), "tags": np.zeros(2)}])


@pytest.mark.parametrize("pool", [0, 4])
@pytest.mark.parametrize("lengths", [np.full(7, 10), np.arange(1, 200) % 37 + 1, np.ones(5, int), np.array([9])])
def test_batches_keep_the_bound_and_hold_every_sample_once(lengths, pool):
    tokens = 3 * int(lengths.max())
    batches = TokenBatches(lengths, tokens, seed=1, pool=pool)
    for epoch in (0, 1):
        found = [batches.batch(epoch, b) for b in range(len(batches))]
        assert sorted(np.concatenate(found).tolist()) == list(range(len(lengths)))
        assert all(len(b) >= 1 and lengths[b].sum() <= tokens for b in found)


def test_orders_differ_between_epochs_and_repeat():
    lengths = np.random.default_rng(0).integers(1, 50, 300)
    one, two = (TokenBatches(lengths, 400, seed=3) for _ in range(2))
    assert all(np.array_equal(one.batch(2, b), two.batch(2, b)) for b in range(len(one)))
    assert not np.array_equal(one.batch(0, 0), one.batch(1, 0))
    assert np.concatenate([TokenBatches(lengths, 400).batch(0, b) for b in range(len(one))]).tolist() == list(
        range(300)
    )


def test_pooled_batches_hold_similar_lengths():
    lengths = np.random.default_rng(0).integers(1, 50, 2000)

    def spread(pool):
        batches = TokenBatches(lengths, 400, seed=3, pool=pool)
        return np.mean([np.ptp(lengths[batches.batch(0, b)]) for b in range(len(batches))])

    assert spread(20) < spread(0) / 5


def test_a_loader_continues_in_the_middle_of_an_epoch():
    samples = [{"ids": np.full(n % 9 + 1, n), "name": n} for n in range(100)]
    lengths = np.array([len(s["ids"]) for s in samples])

    def loader():
        return DataLoader(samples, 8, batch_sampler=TokenBatches(lengths, 40, seed=5), collate=RaggedCollate(["ids"]))

    first = loader()
    stream = first.stream()
    for _ in range(len(first) + 3):
        next(stream)
    again = loader()
    again.load_state_dict(first.state_dict())
    assert next(stream)["ids"].tolist() == next(again.stream())["ids"].tolist()


def test_bounds_that_cannot_hold_are_refused():
    with pytest.raises(
        AttributeValueError, match="batches of 20 tokens are too small for samples of up to 10; allow 30"
    ):
        TokenBatches(np.array([10, 3]), 20)
    with pytest.raises(AttributeValueError, match="pool is -1"):
        TokenBatches(np.array([1]), 20, pool=-1)
    with pytest.raises(DataError, match="0 samples"):
        TokenBatches(np.array([], int), 20)
