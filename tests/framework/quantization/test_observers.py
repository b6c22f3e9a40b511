"""What calibration remembers, and the ranges that each method makes of it."""

import numpy as np
import pytest

from framework.quantization.observers import BINS, METHODS, Observer, range_of


def seen(*batches):
    observer = Observer()
    for x in batches:
        observer.add(np.asarray(x, np.float32))
    return observer


def test_the_histogram_grows_and_loses_nothing():
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal(1000) * scale for scale in (0.01, 1, 30, 0.1)]
    observer = seen(*batches)
    values = np.abs(np.concatenate(batches)).astype(np.float32)
    assert observer.counts.sum() == values.size and observer.largest == values.max() <= observer.limit
    # A value may lie one bin beside its own: bins are merged in pairs, and the place is found in float32.
    found = np.cumsum(observer.counts)
    for edge in (BINS // 64, BINS // 8, BINS // 2):
        width = observer.limit / BINS
        assert np.sum(values < (edge - 1) * width) <= found[edge - 1] <= np.sum(values <= (edge + 1) * width)


def test_maxima_make_the_plain_ranges():
    observer = seen([1, -2], [-6, 0], [4, 1])
    assert METHODS["abs_max"](observer) == 6 and METHODS["average"](observer) == 4


def test_an_outlier_widens_only_the_plain_range():
    x = np.random.default_rng(0).standard_normal(100_000)
    observer = seen(np.append(x, 300.0))
    ranges = {name: method(observer) for name, method in METHODS.items()}
    assert ranges["abs_max"] == ranges["average"] == 300
    assert 3.5 < ranges["percentile"] < 4.5
    # The smallest candidate is 1/32 of the largest value; cutting it far weighs as much as rounding 100,000 others.
    assert 9 < ranges["kl"] < 30 and ranges["mse"] < 250


def test_mse_has_the_least_error_of_all_methods():
    x = np.random.default_rng(0).laplace(size=200_000).astype(np.float32)
    observer = seen(x)

    def error(limit):
        step = limit / 127
        return float(np.mean((x - np.clip(np.rint(x / step), -127, 127) * step) ** 2))

    errors = {name: error(method(observer)) for name, method in METHODS.items()}
    # Bins and candidates are a little coarse: 1 % is the largest change between two neighbouring candidates here.
    assert errors["mse"] <= 1.01 * min(errors.values()) and errors["mse"] < 0.9 * errors["abs_max"]


def test_numbers_of_eight_bits_keep_their_whole_range():
    """Nothing is gained by cutting values that 8 bits hold as they are."""
    x = np.random.default_rng(0).integers(-127, 128, 50_000)
    observer = seen(x)
    assert METHODS["mse"](observer) == pytest.approx(127, rel=0.02)
    assert METHODS["kl"](observer) == pytest.approx(127, rel=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_zeros_have_no_range(method):
    assert range_of(seen([0.0, 0.0]), method) == 0
