"""Pictures by definitions of our own: near exact arithmetic and OpenCV, with one set of bits for all processors."""

import cv2
import numpy as np
import pytest

import framework
from framework import _core
from framework.errors import AttributeValueError, ShapeError
from framework.pictures import decode_heatmaps, resize_cubic, warp_affine

SIZES = [(1, 1), (1, 9), (7, 1), (2, 3), (5, 7), (33, 40), (64, 64), (97, 301), (300, 128)]


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def keys(d):
    """Keys' kernel (1981) with a = -0.75."""
    a, d = -0.75, np.abs(d)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, (((d - 5) * d + 8) * d - 4) * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weights(before, after):
    """[after, before] of exact cubic interpolation; beyond the edge lies the edge."""
    found = np.zeros((after, before))
    for i in range(after):
        place = (i + 0.5) * before / after - 0.5
        for at in range(int(np.floor(place)) - 1, int(np.floor(place)) + 3):
            found[i, min(max(at, 0), before - 1)] += keys(place - at)
    return found


def exactly_resized(image, size):
    down, across = weights(image.shape[0], size[0]), weights(image.shape[1], size[1])
    channels = down @ np.moveaxis(image, 2, 0).astype(np.float64) @ across.T
    return np.clip(np.moveaxis(channels, 0, 2), 0, 255)


@pytest.mark.parametrize("before", SIZES)
@pytest.mark.parametrize("after", SIZES)
def test_cubic_is_within_1_of_exact_arithmetic(before, after):
    image = picture(*before)
    found = resize_cubic(image, after)
    assert found.shape == (*after, 3) and found.dtype == np.uint8
    # Half a step of the result, and far less of weights (2^-15 of 4 each way) and of what stands between (2^-7).
    assert np.abs(found - exactly_resized(image, after)).max() < 0.6


@pytest.mark.parametrize("after", [(37, 91), (200, 150), (16, 24), (480, 640)])
def test_cubic_is_within_1_of_opencvs(after):
    for seed, before in enumerate([(60, 80), (128, 96), (33, 201), (240, 320)]):
        expected = cv2.resize(picture(*before, seed), after[::-1], interpolation=cv2.INTER_CUBIC)
        found = resize_cubic(picture(*before, seed), after)
        assert np.abs(found.astype(int) - expected).max() <= 1


def test_one_colour_stays_what_it_is():
    for value in (0, 1, 127, 254, 255):
        image = np.full((13, 9, 3), value, np.uint8)
        assert (resize_cubic(image, (40, 31)) == value).all()
        inner = warp_affine(image, np.array([[2.0, 0.3, -1.0], [-0.3, 2.0, 4.0]]), (20, 15))[6:12, 5:9]
        assert (inner == value).all()


def exactly_warped(image, step, size):
    back = np.linalg.inv(np.vstack([step, [0, 0, 1]]))
    found, padded = np.zeros((*size, 3)), np.pad(image.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    for row in range(size[0]):
        for column in range(size[1]):
            x, y = (back @ [column + 0.5, row + 0.5, 1])[:2] + 0.5  # of the padded picture, centres at whole numbers
            left, top = int(np.floor(x)), int(np.floor(y))
            for v in (top, top + 1):
                for u in (left, left + 1):
                    if 0 <= v < padded.shape[0] and 0 <= u < padded.shape[1]:
                        found[row, column] += padded[v, u] * (1 - abs(x - u)) * (1 - abs(y - v))
    return found


STEPS = {
    "as it is": [[1, 0, 0], [0, 1, 0]],
    "larger": [[2.7, 0, -20.3], [0, 2.7, 11]],
    "smaller": [[0.31, 0, 3], [0, 0.31, 2.5]],
    "turned": [[0.9, -0.5, 12.25], [0.5, 0.9, -7]],
    "mirrored": [[-1.1, 0, 40], [0, 1, 0.5]],
    "elsewhere": [[1, 0, 1e9], [0, 1, -1e12]],
}


@pytest.mark.parametrize("name", STEPS)
def test_a_crop_is_within_1_of_exact_arithmetic_and_black_outside(name):
    image, step = picture(41, 37), np.array(STEPS[name], np.float64)
    found = warp_affine(image, step, (48, 36))
    # Half a step, and places that are up to 2^-11 of a pixel off, each way.
    assert np.abs(found - exactly_warped(image, step, (48, 36))).max() < 0.5 + 255 * 2 * 2**-11 + 0.01
    if name == "as it is":
        assert np.array_equal(found[:41, :36], image[:, :36]) and not found[41:].any()
    if name == "elsewhere":
        assert not found.any()


def test_all_instruction_sets_and_numbers_of_threads_have_the_same_bits():
    image, step = picture(211, 333), np.array(STEPS["turned"])
    isa, threads, found = _core.active_isa(), framework.num_threads(), set()
    try:
        for name in _core.supported_isas():
            _core.use_isa(name)
            for count in (1, 3):
                framework.set_num_threads(count)
                for size in ((400, 301), (100, 99), (1, 2), (3, 1)):
                    found.add((size, resize_cubic(image, size).tobytes(), warp_affine(image, step, size).tobytes()))
    finally:
        _core.use_isa(isa)
        framework.set_num_threads(threads)
    assert len(found) == 4


def test_bad_arguments_are_clear_errors():
    image = picture(4, 5)
    for size in ((0, 3), (3, -1), (3, (1 << 24) + 1)):
        with pytest.raises(ShapeError, match=r"resize_cubic: from 4x5 to .*sides are 1 to 16777216 pixels"):
            resize_cubic(image, size)
    with pytest.raises(ShapeError, match="from 0x5"):
        resize_cubic(image[:0], (3, 3))
    for step in ([[1, 2, 0], [2, 4, 0]], [[np.nan, 0, 0], [0, 1, 0]], [[1, 0, np.inf], [0, 1, 0]]):
        with pytest.raises(AttributeValueError, match="nothing leads back from it"):
            warp_affine(image, np.array(step, np.float64), (3, 3))
    for wrong in (image[..., 0], image.astype(np.float32), np.dstack([image, image])):
        with pytest.raises(TypeError):
            resize_cubic(wrong, (3, 3))


def test_rows_may_lie_apart():
    image = picture(40, 50)[3:30, 7:44]
    assert np.array_equal(resize_cubic(image, (9, 8)), resize_cubic(image.copy(), (9, 8)))


def plainly_decoded(heatmap, stride, sigma):
    """Of one map [H, W], by smoothing all of it in float64 and solving Newton's system."""
    height, width = heatmap.shape
    y, x = divmod(int(heatmap.argmax()), width)
    radius = round(2.5 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / (0.3 * radius + 0.5)) ** 2)
    kernel /= kernel.sum()
    smooth = np.pad(heatmap.astype(np.float64), radius)
    for axis in (0, 1):
        smooth = np.apply_along_axis(lambda line: np.convolve(line, kernel, "valid"), axis, smooth)
    logs = np.log(np.maximum(smooth, 1e-10))
    place = np.array([x, y], np.float64)
    if 2 <= x < width - 2 and 2 <= y < height - 2:
        first = [np.gradient(logs, axis=1), np.gradient(logs, axis=0)]  # central differences, twice
        gradient = np.array([each[y, x] for each in first])
        curves = np.array([[np.gradient(each, axis=axis)[y, x] for axis in (1, 0)] for each in first])
        if np.linalg.det(curves) > 1e-10:
            place += np.clip(-np.linalg.solve(curves, gradient), -1, 1)
    return (place + 0.5) * stride


@pytest.mark.parametrize("sigma", [0.1, 0.7, 2.0, 3.3])
def test_points_of_heatmaps_are_those_of_the_definition(sigma):
    rng = np.random.default_rng(3)
    maps = rng.normal(0, 0.01, (3, 21, 16, 9)).astype(np.float32)
    rows, columns = np.mgrid[:21, :16]
    for n in range(3):
        for k in range(9):
            y, x = rng.uniform(0, [20, 15])
            maps[n, ..., k] += np.exp(-((rows - y) ** 2 + (columns - x) ** 2) / 8)
    points, scores = decode_heatmaps(maps, 4.0, sigma)
    assert points.shape == (3, 9, 2) and np.array_equal(scores, maps.max(axis=(1, 2)))
    for n in range(3):
        for k in range(9):
            # Differences of logarithms in float64 lose 1e-10 at most; 64 pixels in float32 have steps of 4e-6.
            np.testing.assert_allclose(points[n, k], plainly_decoded(maps[n, ..., k], 4.0, sigma), atol=1e-5)


def test_cells_at_borders_of_flat_maps_and_around_what_is_no_number_stay_in_their_middle():
    maps = np.zeros((1, 6, 7, 4), np.float32)
    maps[0, 1, 3, 0], maps[0, 3, 6, 1] = 1, 2
    maps[0, 2, 3, 3], maps[0, 3, 3, 3], maps[0, 3, 4, 3] = 5, np.nan, np.nan
    points, scores = decode_heatmaps(maps, 2, 1.0)
    assert points.tolist() == [[[7, 3], [13, 7], [1, 1], [7, 7]]]
    np.testing.assert_array_equal(scores, [[1, 2, 0, np.nan]])
    huge = np.full((1, 5, 5, 1), np.inf, np.float32)
    assert decode_heatmaps(huge, 1, 1.0)[0].tolist() == [[[0.5, 0.5]]]
    assert [each.shape for each in decode_heatmaps(maps[:0], 2, 1.0)] == [(0, 4, 2), (0, 4)]
    assert [each.shape for each in decode_heatmaps(maps[..., :0], 2, 1.0)] == [(1, 0, 2), (1, 0)]


def test_bad_heatmaps_are_clear_errors():
    maps = np.zeros((1, 6, 7, 3), np.float32)
    for stride, sigma in ((0, 1), (-2, 1), (np.nan, 1), (np.inf, 1), (1e300, 1), (4, 0), (4, np.nan), (4, 1e9)):
        with pytest.raises(AttributeValueError, match=r"decode_heatmaps: stride is .* and sigma .*; both are above 0"):
            decode_heatmaps(maps, stride, sigma)
    with pytest.raises(ShapeError, match=r"maps are 0x7 \(height x width\); they need a cell"):
        decode_heatmaps(maps[:, :0], 4, 1)
    for wrong in (maps[0], maps.astype(np.float64)):
        with pytest.raises(TypeError):
            decode_heatmaps(wrong, 4, 1)
