"""Similarities of points are those that were put in; a face comes upright wherever and however it stood."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.vision.alignment import REFERENCE, aligned, similarity


def turned(points, degrees, scale, shift):
    angle = np.radians(degrees)
    linear = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return points @ linear.T + shift, np.column_stack([linear, shift])


@pytest.mark.parametrize("degrees", [0, 30, 170, -95])
def test_a_similarity_is_found_again(degrees):
    points = np.random.default_rng(0).uniform(0, 100, (5, 2))
    target, wanted = turned(points, degrees, 0.4, np.array([7.0, -3.0]))
    np.testing.assert_allclose(similarity(points, target), wanted, atol=1e-9)


def test_no_turn_and_scale_is_nearer_and_none_is_a_mirror():
    rng = np.random.default_rng(1)
    source, target = rng.uniform(0, 50, (5, 2)), rng.uniform(0, 50, (5, 2)) * [-1, 1]

    def error(step):
        return ((source @ step[:, :2].T + step[:, 2] - target) ** 2).sum()

    best = similarity(source, target)
    assert np.linalg.det(best[:, :2]) > 0
    for _ in range(50):
        _, other = turned(source, rng.uniform(-180, 180), rng.uniform(0, 2), best[:, 2])
        other[:, 2] += target.mean(axis=0) - (source @ other[:, :2].T + other[:, 2]).mean(axis=0)
        assert error(best) <= error(other) + 1e-9
    rolled = np.array([np.cos(0.02), np.sin(0.02)])
    near = best.copy()
    near[:, :2] = best[:, :2] @ np.array([[rolled[0], -rolled[1]], [rolled[1], rolled[0]]])
    assert error(best) < error(near)


def test_a_turned_face_comes_upright():
    places, _ = turned(REFERENCE, 40, 1.5, np.array([90.0, 20.0]))
    image = np.zeros((300, 300, 3), np.uint8)
    for number, (x, y) in enumerate(places):
        image[round(y) - 4 : round(y) + 5, round(x) - 4 : round(x) + 5] = 50 + 40 * number
    found = aligned(image, places + 0.5)
    assert found.shape == (112, 112, 3)
    seen = [int(found[round(y), round(x), 0]) for x, y in REFERENCE]
    assert seen == [50, 90, 130, 170, 210]
    assert aligned(image, places + 0.5, side=224).shape == (224, 224, 3)


def test_points_at_one_place_are_an_error():
    with pytest.raises(DataError, match=r"two different points; the first is \[3.0, 4.0\]"):
        similarity(np.full((5, 2), [3.0, 4.0]), REFERENCE)
