"""PostProcess hands its settings to the operator and says which box each detection was."""

import numpy as np
import pytest

from framework import tensor
from suites.detection.models.base import PostProcess

BOXES = tensor(np.array([[[0, 0, 10, 10], [0, 0, 10, 8], [40, 40, 50, 50]]], np.float32))
SCORES = tensor(np.array([[[0.9], [0.8], [0.3]]], np.float32))


@pytest.mark.parametrize(
    ("method", "scores", "index"),
    [
        ("hard", [0.9, 0.3], [0, 2]),
        ("soft_linear", [0.9, 0.3, 0.8 * 0.2], [0, 2, 1]),  # IoU 0.8
        ("matrix_linear", [0.9, 0.3, 0.8 * 0.2], [0, 2, 1]),
        ("soft_gaussian", [0.9, 0.3, 0.8 * np.exp(-0.64 / 0.5)], [0, 2, 1]),
    ],
)
def test_each_method_of_suppression(method, scores, index):
    found, rows = PostProcess(0.1, 10, 0.5, 4, method).indexed(BOXES, SCORES)
    count = int(found.counts.numpy()[0])
    assert found.scores.numpy()[0, :count] == pytest.approx(scores, rel=1e-5)
    assert rows.numpy()[0].tolist() == index + [-1] * (4 - count)


def test_lowered_scores_below_the_limit_do_not_count():
    found = PostProcess(0.1, 10, 0.5, 4, "matrix_linear", post_threshold=0.2)(BOXES, SCORES)
    assert found.counts.numpy().tolist() == [2]
