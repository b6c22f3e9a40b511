"""Accuracy is scikit-learn's; cross entropy with smoothing is that of the smoothed targets."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score

from framework import from_numpy
from framework.errors import AttributeValueError
from suites.vision.recognition.losses import CrossEntropy
from suites.vision.recognition.metrics import Accuracy, ranks


def test_figures_are_scikit_learns():
    rng = np.random.default_rng(0)
    scores, labels = rng.random((200, 7)), rng.integers(0, 6, 200)  # class 6 has no sample
    metric = Accuracy([str(k) for k in range(7)])
    for part in (slice(0, 50), slice(50, 200)):
        metric.update({"scores": scores[part]}, {"labels": labels[part]})
    figures = metric.result()
    for name, k in (("top1", 1), ("top5", 5)):
        assert figures[name] == pytest.approx(top_k_accuracy_score(labels, scores, k=k, labels=range(7)))
    seen = scores[:, :6].argmax(1)  # scikit-learn warns of predictions of a class without samples
    metric = Accuracy([str(k) for k in range(6)])
    metric.update({"scores": scores[:, :6]}, {"labels": labels})
    assert metric.result()["mean_class"] == pytest.approx(balanced_accuracy_score(labels, seen))


def test_few_classes_have_no_top5():
    metric = Accuracy(["a", "b"])
    metric.update({"scores": np.array([[0.2, 0.8]])}, {"labels": np.array([1])})
    assert metric.result() == {"top1": 1.0, "mean_class": 1.0}


def test_equal_scores_and_what_is_no_number_are_wrong():
    scores = np.array([[0.5, 0.5, 0.0], [np.nan, np.nan, np.nan], [0.1, 0.9, np.nan], [0.1, 0.9, 0.0]])
    assert ranks(scores, np.array([0, 0, 1, 1])).tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_smoothed_targets(smoothing):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 5)).astype(np.float32)
    targets = rng.dirichlet(np.ones(5), 4).astype(np.float32)
    (loss,) = CrossEntropy(smoothing)(from_numpy(logits), from_numpy(targets)).values()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    wanted = -((targets * (1 - smoothing) + smoothing / 5) * log_p).sum(1).mean()
    assert float(loss.mean) == pytest.approx(wanted, rel=1e-5) and float(loss.weight) == 4


def test_smoothing_is_a_share():
    with pytest.raises(AttributeValueError, match=r"label_smoothing is 1.0; it must be in \[0, 1\)"):
        CrossEntropy(1.0)
