"""Heatmaps: points that are drawn are read back below a cell's size, where they were in the file."""

import numpy as np

from framework.pictures import decode_heatmaps
from suites.keypoints.decoding import Reader, drawn

RNG = np.random.default_rng(0)


def test_points_that_are_drawn_are_read_back_to_a_fraction_of_a_cell():
    points = RNG.uniform(20, 76, (5, 2)).astype(np.float32)
    maps = drawn(points, (24, 24), 4, 2.0)
    assert maps.shape == (24, 24, 5) and maps.max() <= 1
    found, scores = decode_heatmaps(maps[None], 4, 2.0)
    np.testing.assert_allclose(found[0], points, atol=0.05)  # a step is exact for a Gaussian; smoothing is cut off
    assert (scores > 0.9).all()


def test_a_point_at_the_border_is_its_cells_middle():
    maps = drawn(np.array([[2.0, 2.0]], np.float32), (16, 16), 4, 2.0)
    np.testing.assert_allclose(decode_heatmaps(maps[None], 4, 2.0)[0][0], [[2.0, 2.0]])


def test_a_flat_map_gives_a_point_with_its_score():
    found, scores = decode_heatmaps(np.zeros((1, 8, 8, 2), np.float32), 4, 2.0)
    assert np.isfinite(found).all() and (scores == 0).all()
    assert decode_heatmaps(np.zeros((0, 8, 8, 2), np.float32), 4, 2.0)[0].shape == (0, 2, 2)


def test_a_reader_leads_back_to_the_file():
    maps = drawn(np.array([[40.0, 30.0]], np.float32), (24, 24), 4, 2.0)
    found, _ = Reader(4, 2.0)(maps[None], np.array([[[2.0, 0, 10], [0, 2, -6]]]))
    np.testing.assert_allclose(found[0, 0], [15, 18], atol=0.03)
