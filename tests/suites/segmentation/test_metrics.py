"""All figures equal those counted by hand or by scikit-learn, in whole numbers, over batches of any split."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score, jaccard_score, recall_score

from framework.errors import DataError, ShapeError
from suites.segmentation.metrics import ConfusionMatrix

RNG = np.random.default_rng(0)
NAMES = ("sky", "road", "car", "tree")


def filled(truth, found, names=NAMES):
    matrix = ConfusionMatrix(names)
    matrix.add(truth, found)
    return matrix


def test_figures_of_a_hand_made_matrix():
    truth = np.array([[0, 0, 0, 1], [1, 1, 255, 255]], np.uint8)
    found = np.array([[0, 0, 1, 1], [1, 0, 0, 3]], np.uint8)
    matrix = filled(truth, found)
    assert matrix.counts[:2, :2].tolist() == [[2, 1], [1, 2]] and matrix.counts.sum() == 6
    assert matrix.counts.dtype == np.int64
    figures = matrix.result()
    assert figures["IoU/sky"] == figures["IoU/road"] == figures["mIoU"] == 0.5
    assert figures["accuracy"] == figures["class_accuracy"] == pytest.approx(4 / 6)
    assert figures["kappa"] == pytest.approx((4 / 6 - 0.5) / 0.5)
    assert figures["mDice"] == pytest.approx(2 / 3)
    assert "IoU/car" not in figures  # neither seen nor predicted


def test_figures_are_scikit_learns():
    truth = RNG.integers(0, 4, (40, 50)).astype(np.uint8)
    found = np.where(RNG.random((40, 50)) < 0.6, truth, RNG.integers(0, 4, (40, 50))).astype(np.uint8)
    figures, flat = filled(truth, found).result(), (truth.reshape(-1), found.reshape(-1))
    assert figures["mIoU"] == pytest.approx(jaccard_score(*flat, average="macro"))
    assert figures["mDice"] == pytest.approx(f1_score(*flat, average="macro"))
    assert figures["class_accuracy"] == pytest.approx(recall_score(*flat, average="macro"))
    assert figures["kappa"] == pytest.approx(cohen_kappa_score(*flat))


def test_images_add_up():
    truth, found = (RNG.integers(0, 4, (6, 5, 7)).astype(np.uint8) for _ in range(2))
    one_by_one = ConfusionMatrix(NAMES)
    for pair in zip(truth, found, strict=True):
        one_by_one.add(*pair)
    np.testing.assert_array_equal(one_by_one.counts, filled(truth, found).counts)


def test_a_perfect_and_an_empty_set():
    labels = RNG.integers(0, 4, (5, 5)).astype(np.uint8)
    figures = filled(labels, labels).result()
    assert figures["mIoU"] == figures["kappa"] == figures["accuracy"] == 1.0
    nothing = ConfusionMatrix(NAMES).result()
    assert all(np.isfinite(v) for v in nothing.values()) and nothing["mIoU"] == 0.0


def test_a_pixel_predicted_as_no_class_is_wrong_and_counts_for_no_class():
    truth = np.array([[0, 0, 1, 3]], np.uint8)
    figures = filled(truth, np.array([[0, 255, 255, 4]], np.uint8)).result()
    assert figures["IoU/sky"] == 0.5 and figures["IoU/road"] == figures["IoU/tree"] == 0
    assert "IoU/car" not in figures and figures["accuracy"] == 0.25


def test_a_true_label_must_be_a_class():
    with pytest.raises(DataError, match="truth has the label 4, but there are 4 classes"):
        filled(np.array([[4]], np.uint8), np.array([[0]], np.uint8))


def test_sizes_must_agree():
    with pytest.raises(ShapeError, match=r"truth is \[2, 3\] but the prediction \[2, 4\]"):
        filled(np.zeros((2, 3), np.uint8), np.zeros((2, 4), np.uint8))
