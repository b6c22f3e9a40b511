"""Each algorithm and pass against float64 on what networks feed it: rectified Gaussian images and He weights.

Winograd promises a maximum error of 1e-5 of the largest output; the direct algorithm is held to the worst case of its
sums. The sizes take every way through the Winograd kernels: few tiles, many, ragged edges, sums in several parts.
"""

import numpy as np
import pytest

import framework
from framework import _core
from tests.framework.native.conv_reference import PASSES, Case, compute, reference, worst_case

CASES = {
    "64 channels": Case(2, 30, 27, 64, 64, 3, 3),
    "dilated by 2 and 3": Case(2, 33, 31, 96, 64, 3, 3, padding=(2, 2, 3, 3), dilation=(2, 3)),
    "dilated by 4 of 512": Case(1, 33, 33, 512, 128, 3, 3, padding=(4, 4, 4, 4), dilation=(4, 4)),
    "dilated by more than there is": Case(2, 3, 40, 16, 24, 3, 3, padding=(6, 6, 1, 1), dilation=(6, 1)),
    "7 x 7 of 512": Case(2, 7, 7, 512, 512, 3, 3),
    "four tiles of 512": Case(1, 7, 7, 512, 512, 3, 3),
    "13 x 13 of 512": Case(1, 13, 13, 512, 160, 3, 3),
    "10 x 11 of 520": Case(1, 10, 11, 520, 72, 3, 3),
    "many tiles, two parts of the sum": Case(1, 61, 58, 144, 48, 3, 3),
    "more tiles than a chunk of the weight gradient": Case(1, 70, 73, 96, 96, 3, 3),
    "more tiles and weights than stay in the cache": Case(1, 66, 65, 256, 352, 3, 3),
}


@pytest.fixture
def isa():
    kept = _core.active_isa()
    yield _core.use_isa
    _core.use_isa(kept)


def images_and_weights(case: Case) -> list[np.ndarray]:
    """x, w, dy as float32."""
    x, w, dy = case.arrays(0)
    return [a.astype(np.float32) for a in (np.maximum(x, 0), w * np.sqrt(2 / (9 * case.C)), dy)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_winograd_keeps_its_promise(case, isa):
    arrays = images_and_weights(case)
    exact = reference(case, *(a.astype(np.float64) for a in arrays))
    for name in _core.supported_isas():
        isa(name)
        for which, got, want in zip(PASSES, compute(case, *arrays, "winograd"), exact, strict=True):
            assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max(), f"{name} {which}"


@pytest.mark.parametrize("name", ["64 channels", "7 x 7 of 512"])
def test_direct_stays_within_the_worst_case_of_its_sums(name):
    case = CASES[name]
    arrays = images_and_weights(case)
    exact = reference(case, *(a.astype(np.float64) for a in arrays))
    sizes = reference(case, *(np.abs(a).astype(np.float64) for a in arrays))
    for which, got, want, size in zip(PASSES, compute(case, *arrays, "direct"), exact, sizes, strict=True):
        assert (np.abs(got - want) <= worst_case(case, which, size, np.float32)).all(), which


@pytest.mark.parametrize("rows", range(1, 10))
@pytest.mark.parametrize("columns", [1, 6, 8, 11])
def test_edges_of_every_width_equal_float64(rows, columns):
    """Tiles cut off after 1, 2 or 3 pixels take transforms of their own, also where a neighbour is whole."""
    case = Case(2, rows, columns, 24, 20, 3, 3)
    arrays = images_and_weights(case)
    exact = reference(case, *(a.astype(np.float64) for a in arrays))
    for which, got, want in zip(PASSES, compute(case, *arrays, "winograd"), exact, strict=True):
        assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max(), which


@pytest.mark.parametrize(("rows", "columns"), [(7, 8), (8, 7), (8, 8), (7, 7)])
def test_four_tiles_whole_or_cut_off_equal_float64(rows, columns):
    """Sums in several parts, and target channels that fill their last vector in part."""
    for channels, targets in [(90, 40), (5, 3)]:
        case = Case(1, rows, columns, channels, targets, 3, 3)
        arrays = images_and_weights(case)
        exact = reference(case, *(a.astype(np.float64) for a in arrays))
        for which, got, want in zip(PASSES, compute(case, *arrays, "winograd"), exact, strict=True):
            assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max(), which


def test_weights_kept_between_runs_change_nothing():
    """A program keeps the weights of its convolutions in the order in which Winograd's transform reads them."""
    for name in ("7 x 7 of 512", "four tiles of 512", "64 channels"):
        case = CASES[name]
        x, w, _ = (framework.tensor(a) for a in images_and_weights(case))
        network = framework.program(lambda x, w=w: framework.ops.conv2d(x, w, padding=1, algorithm="winograd"))
        first, again = network(x).numpy(), network(x).numpy()
        eager = framework.ops.conv2d(x, w, padding=1, algorithm="winograd").numpy()
        assert np.array_equal(first, eager) and np.array_equal(again, eager)
