"""The generator against the Random123 library's known answers, and the statistics of what is drawn from it."""

import numpy as np
import pytest

import framework
from framework import _core, ops
from tests.framework.ops.specs.random import philox_words

# Random123 (Salmon et al. 2011), kat_vectors, "philox 4x32 10": counter, key, result.
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def key(seed=0, call=0):
    return framework.tensor(np.array([seed, call], dtype=np.int64))


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, expected):
    assert _core.philox4x32(key, counter) == expected


def test_the_reference_of_the_other_tests_gives_the_published_answer():
    assert philox_words((0, 0), 1)[0].tolist() == KNOWN_ANSWERS[0][2]


def test_normal_numbers_have_the_moments_of_a_normal_distribution():
    n = 200_000
    x = ops.random_normal(key(1), shape=(n,), dtype="float64").numpy()
    # Standard errors of the mean, variance, skewness and kurtosis of n normal numbers; 5 of them.
    for moment, expected, error in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**moment).mean() - expected) < 5 * np.sqrt(error / n)


def test_uniform_numbers_stay_below_high_and_fill_the_range_evenly():
    n = 200_000
    x = ops.random_uniform(key(2), shape=(n,), low=1.0, high=2.0).numpy()
    assert x.min() >= 1 and x.max() < 2
    counts = np.histogram(x, bins=20, range=(1, 2))[0]
    expected = n / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # chi-square with 19 degrees of freedom, p = 0.001


def test_different_calls_and_seeds_give_unrelated_numbers():
    draws = [ops.random_normal(k, shape=(50_000,)).numpy() for k in (key(), key(0, 1), key(1), key(2**40))]
    correlations = np.corrcoef(draws)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(50_000)


def test_dropout_keeps_the_stated_share_and_the_mean():
    n, p = 100_000, 0.3
    y = ops.dropout(framework.tensor(np.ones(n, np.float32)), key(3), p=p).numpy()
    assert abs((y == 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / n)
    assert np.unique(y).tolist() == [0.0, np.float32(1 / (1 - p))]
