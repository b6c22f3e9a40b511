"""What calibration remembers, and the ranges that each method makes of it."""

import numpy as np
import pytest

from framework.quantization import Steps
from framework.quantization.observers import BINS, FARTHEST, METHODS, Observer, bounds_of, range_of


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


def batches():
    """Of which each has another reach, with zeros and values on the edges of bins."""
    rng = np.random.default_rng(0)
    return [np.append(rng.standard_normal(500) * scale, [0, 0, scale]) for scale in (0.25, 3, 1, 20, 0.001)]


def bounds(method, *given):
    observer = seen(*given)
    return range_of(observer, method), *bounds_of(observer, method)


@pytest.mark.parametrize("method", METHODS)
def test_a_range_does_not_depend_on_the_order_of_batches_nor_on_how_often_each_is_seen(method):
    given = batches()
    first = bounds(method, *given)
    assert bounds(method, *given[::-1]) == bounds(method, *given, *given) == first
    assert bounds(method, *[x[::-1] for x in given]) == first


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"average"}))
def test_a_range_does_not_depend_on_how_values_lie_in_batches(method):
    given = batches()
    assert bounds(method, np.concatenate(given)) == bounds(method, *given)


@pytest.mark.parametrize("method", METHODS)
def test_zeros_are_held_by_any_range_and_change_none(method):
    x = np.random.default_rng(0).standard_normal(300)
    assert bounds(method, np.append(x, np.zeros(10_000_000 // len(x) * 3))) == bounds(method, x)


def drawn(count):
    rng = np.random.default_rng(count)
    normal, uniform = rng.standard_normal(count), rng.random(count)
    return {
        "normal": normal,
        "of a ReLU": np.maximum(normal, 0),
        "Laplace": rng.laplace(size=count),
        "log-normal": rng.lognormal(size=count),
        "uniform": uniform,
        "one value": np.full(count, -3.7),
        "two values": np.where(uniform < 0.5, 0.3, 7),
        "rare large ones": np.where(uniform < 0.01, 100, normal),
        "few that are not 0": np.where(uniform < 0.02, 5 * uniform, 0),
        "one spike": np.append(normal, 100),
        "two heaps": np.where(uniform < 0.5, 10, 0) + 0.1 * normal,
        "whole numbers": rng.integers(-3, 4, count),
    }


@pytest.mark.parametrize("count", [1, 2, 5, 100, 1000, 30_000])
@pytest.mark.parametrize("name", drawn(1))
def test_mse_and_kl_are_never_far_worse_than_the_whole_range(name, count):
    """Of few or sparse values kl saw nothing that it lost, and cut all large ones."""
    x = drawn(count)[name].astype(np.float32).astype(np.float64)
    observer = seen(x)

    def errors(method):
        limit, steps = range_of(observer, method), Steps.of(*bounds_of(observer, method))
        if limit == 0:
            return 0.0, 0.0
        even = np.clip(np.rint(x / (limit / 127)), -127, 127) * (limit / 127)
        other = (np.clip(np.rint(x / steps.scale) + steps.zero, 0, 255) - steps.zero) * steps.scale
        return float(np.mean((x - even) ** 2)), float(np.mean((x - other) ** 2))

    least = 1e-5 * float(np.mean(x**2))  # a hundredth of a step: where the whole range is exact by chance
    for method, most in (("mse", 1.1), ("kl", FARTHEST)):
        for error, whole in zip(errors(method), errors("abs_max"), strict=True):
            assert error <= 1.05 * most * (whole + least), method
