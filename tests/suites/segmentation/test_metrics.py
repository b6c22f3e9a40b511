"""All figures equal those counted by hand or by scikit-learn, in whole numbers, over batches of any split."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score, jaccard_score, precision_score, recall_score

from framework.errors import AttributeValueError, DataError, ShapeError
from suites.segmentation.metrics import BoundaryF1, ConfusionMatrix

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
    assert figures["mPrecision"] == pytest.approx(precision_score(*flat, average="macro"))
    for i, name in enumerate(NAMES):
        one = {"labels": [i], "average": None}
        assert figures[f"precision/{name}"] == pytest.approx(precision_score(*flat, **one)[0])
        assert figures[f"recall/{name}"] == pytest.approx(recall_score(*flat, **one)[0])


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


def borders_of(labels, k):
    """Pixels of class k with a neighbour of another class, one by one."""
    height, width = labels.shape
    found = []
    for y, x in np.argwhere(labels == k):
        around = [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
        inside = [labels[p] for p in around if 0 <= p[0] < height and 0 <= p[1] < width]
        if any(other not in (k, 255) for other in inside):
            found.append((y, x))
    return np.array(found).reshape(-1, 2)


def test_borders_are_met_within_the_tolerance():
    truth = np.kron(RNG.integers(0, 3, (5, 6)), np.ones((8, 8))).astype(np.uint8)
    found = np.roll(truth, (2, 1), axis=(0, 1))
    truth[:5] = 255
    shown = np.where(truth == 255, 255, found)
    reach = 0.03 * np.hypot(*truth.shape)
    f1 = []
    for k in range(3):
        a, b = borders_of(truth, k), borders_of(shown, k)
        away = np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1))
        recall, precision = (away.min(1) <= reach).mean(), (away.min(0) <= reach).mean()
        f1.append(2 * precision * recall / (precision + recall))
    metric = BoundaryF1(4, 0.03)
    metric.add(truth, found)
    assert metric.result()["boundary_F1"] == pytest.approx(np.mean(f1)) and 0.2 < np.mean(f1) < 0.98


def test_borders_that_agree_and_borders_that_are_not_there():
    labels = np.kron(np.arange(4).reshape(2, 2), np.ones((6, 6))).astype(np.uint8)
    metric = BoundaryF1(4)
    assert metric.result() == {"boundary_F1": 0.0}
    metric.add(labels, labels)
    assert metric.result() == {"boundary_F1": 1.0}
    metric = BoundaryF1(4)
    metric.add(labels, np.zeros_like(labels))  # no border is predicted
    assert metric.result() == {"boundary_F1": 0.0}
    metric.add(np.full_like(labels, 255), labels)
    assert metric.counts[2:].sum() == 0
    with pytest.raises(AttributeValueError, match="tolerance is 0; it must be above 0"):
        BoundaryF1(4, 0)
