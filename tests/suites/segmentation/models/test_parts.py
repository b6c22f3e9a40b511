"""Pieces that segmentation networks share."""

import numpy as np
import pytest

import framework
from suites.segmentation.models.parts import pooled_to_grids


def means_of_cells(x, g):
    """Cell i of g has the pixels from floor(i n / g) to ceil((i + 1) n / g)."""
    _, h, w, _ = x.shape
    rows, columns = ([slice(i * n // g, -(-(i + 1) * n // g)) for i in range(g)] for n in (h, w))
    return np.stack([np.stack([x[:, r, c].mean((1, 2)) for c in columns], 1) for r in rows], 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_grids_have_the_means_of_their_cells_in_any_type(dtype):
    """A mean of up to 63 values: as many roundings of the type at most, and again those of its two factors."""
    x = np.random.default_rng(0).standard_normal((2, 7, 9, 3)).astype(dtype)
    for g, found in zip((1, 2, 3, 6), pooled_to_grids(framework.tensor(x), (1, 2, 3, 6)), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.numpy(), means_of_cells(x.astype(np.float64), g), atol=128 * np.finfo(dtype).eps * np.abs(x).max()
        )
