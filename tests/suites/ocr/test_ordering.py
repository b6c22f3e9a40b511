"""Batches of lines of like length: every line once an epoch, little of a batch empty, the same again by seed."""

import dataclasses

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.ocr.datasets import IcdarText
from suites.ocr.models.crnn import Crnn
from suites.ocr.models.dbnet import DBNet
from suites.ocr.ordering import LikeLengths
from suites.ocr.problems.base import How
from suites.ocr.problems.finding import FindingProblem
from tests.suites.ocr.test_datasets import icdar
from tests.suites.ocr.test_training import line_task

LENGTHS = np.random.default_rng(0).integers(1, 60, 1000)


def epoch(order, number):
    return [order.batch(number, k) for k in range(len(order))]


def test_every_sample_comes_once_an_epoch_but_what_fills_no_batch():
    batches = epoch(LikeLengths(LENGTHS, 32, 8, seed=1), 0)
    assert len(batches) == 31 and {len(batch) for batch in batches} == {32}
    assert len(set(np.concatenate(batches).tolist())) == 31 * 32


def test_lengths_within_a_batch_are_alike_and_batches_come_in_no_order():
    def empty(batches):
        return np.mean([1 - LENGTHS[batch].mean() / LENGTHS[batch].max() for batch in batches])

    batches = epoch(LikeLengths(LENGTHS, 32, 31, seed=1), 0)
    assert empty(batches) < 0.1 < 0.4 < empty(epoch(LikeLengths(LENGTHS, 32, 1, seed=1), 0))
    longest = [LENGTHS[batch].max() for batch in batches]
    assert longest != sorted(longest)


def test_epochs_differ_and_a_seed_gives_the_same_again():
    one, two = LikeLengths(LENGTHS, 32, 4, seed=1), LikeLengths(LENGTHS, 32, 4, seed=1)
    np.testing.assert_array_equal(epoch(one, 3), epoch(two, 3))
    assert not np.array_equal(epoch(one, 3), epoch(one, 4))


def test_a_set_smaller_than_a_batch_is_one_batch():
    assert sorted(epoch(LikeLengths(np.array([3, 1, 2]), 32, 4, seed=0), 0)[0].tolist()) == [0, 1, 2]


def test_a_pool_below_zero_is_refused():
    with pytest.raises(AttributeValueError, match=r"data\.train\.pool is -1; it must be 0 or more"):
        LikeLengths(LENGTHS, 32, -1, seed=0)


def test_lines_are_pooled_where_a_config_asks_and_pages_are_not(tmp_path):
    task = line_task(tmp_path, Crnn("digits", channels=(8, 8, 8, 8, 8, 8, 8), hidden=8, all_norms=True))
    data = dataclasses.replace(task.train_data, batch_size=2, pool=2)
    loader = task._problem.train_loader(data, data.dataset, seed=0, workers=0)
    assert sorted(number for batch in loader for number in batch["numbers"]) == [0, 1, 2, 3]
    pages = IcdarText(icdar(tmp_path / "pages"), "train")
    with pytest.raises(ConfigError, match=r"data\.train\.pool: is of lines"):
        FindingProblem(DBNet(), How()).train_loader(data, pages, seed=0, workers=0)
