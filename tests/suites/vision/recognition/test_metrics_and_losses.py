"""Accuracy is scikit-learn's; cross entropy with smoothing is that of the smoothed targets."""

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)

from framework import from_numpy
from framework.errors import AttributeValueError, ConfigError
from suites.vision.recognition.losses import BinaryCrossEntropy, CrossEntropy, balanced_weights
from suites.vision.recognition.metrics import Accuracy, MultiLabel, average_precision, ranks


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
    assert metric.result() == {"top1": 1.0, "mean_class": 1.0, "macro_f1": 1.0}


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


def test_the_report_has_scikit_learns_figures_of_each_class_and_the_confusions():
    rng = np.random.default_rng(1)
    scores, labels = rng.random((90, 4)), rng.integers(0, 4, 90)
    names = ["cat", "dog", "owl", "newt"]
    metric = Accuracy(names)
    metric.update({"scores": scores}, {"labels": labels})
    found = scores.argmax(1)
    assert np.array_equal(metric.confusions(), confusion_matrix(labels, found))
    assert metric.result()["macro_f1"] == pytest.approx(f1_score(labels, found, average="macro"))
    lines = metric.report().splitlines()
    for k, each in enumerate(zip(*precision_recall_fscore_support(labels, found), strict=True)):
        precision, recall, f1, count = each
        assert lines[2 + k] == f"| {names[k]} | {count} | {precision:.3f} | {recall:.3f} | {f1:.3f} |"
    assert lines[-1] == "| newt | " + " | ".join(map(str, metric.confusions()[3])) + " |"


def test_the_report_of_many_classes_has_their_worst_confusions():
    metric = Accuracy([f"c{k}" for k in range(30)])
    scores = np.eye(30)
    scores[7] = scores[9]
    metric.update({"scores": scores}, {"labels": np.arange(30)})
    assert metric.report().endswith("| true | said | samples |\n|---|---|---|\n| c7 | c9 | 1 |\n")


def test_figures_of_samples_with_several_classes_are_scikit_learns():
    rng = np.random.default_rng(0)
    truth, scores = rng.random((50, 4)) < 0.4, np.round(rng.random((50, 4)), 1)  # with equal scores
    truth[:, 3] = False
    metric = MultiLabel(list("abcd"))
    for part in (slice(0, 20), slice(20, 50)):
        metric.update({"scores": scores[part]}, {"targets": truth[part].astype(np.float32)})
    figures, found = metric.result(), scores >= 0.5
    wanted = [average_precision_score(truth[:, k], scores[:, k]) for k in range(3)]
    assert figures["mAP"] == pytest.approx(np.mean(wanted))
    assert figures["micro_f1"] == pytest.approx(f1_score(truth, found, average="micro"))
    assert figures["macro_f1"] == pytest.approx(f1_score(truth[:, :3], found[:, :3], average="macro"))
    assert figures["exact"] == pytest.approx((truth == found).all(1).mean())
    assert "| d | 0 | 0.000 | 0.000 | 0.000 |" in metric.report()
    assert average_precision(np.zeros(3, bool), np.zeros(3)) == 0


def test_class_weights_weigh_each_classs_share_and_balance_by_their_counts():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((6, 3)).astype(np.float32)
    targets = rng.dirichlet(np.ones(3), 6).astype(np.float32)
    weights, log_p = np.array([1.0, 0.0, 3.0]), logits - np.log(np.exp(logits).sum(1, keepdims=True))
    (loss,) = CrossEntropy(0.1, (1.0, 0.0, 3.0))(from_numpy(logits), from_numpy(targets)).values()
    counted = (targets * 0.9 + 0.1 / 3) * weights
    assert float(loss.mean) == pytest.approx(-(counted * log_p).sum() / counted.sum(), rel=1e-5)
    assert float(loss.weight) == pytest.approx(counted.sum(), rel=1e-5)
    assert balanced_weights([10, 30, 0]) == (2.0, pytest.approx(2 / 3), 0.0)
    with pytest.raises(AttributeValueError, match=r"class_weights is \[1.0, -1.0\]; they must be 0 or more"):
        CrossEntropy(class_weights=(1.0, -1.0))
    with pytest.raises(AttributeValueError, match="class_weights is 'even'"):
        CrossEntropy(class_weights="even")
    with pytest.raises(ConfigError, match="balanced by the training set, which is not there yet"):
        CrossEntropy(class_weights="balanced")(from_numpy(logits), from_numpy(targets))


def test_binary_cross_entropy_is_that_of_each_class_by_itself():
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal((4, 3)).astype(np.float32), (rng.random((4, 3)) < 0.5).astype(np.float32)
    p = 1 / (1 + np.exp(-logits))
    each = -(targets * np.log(p) + (1 - targets) * np.log(1 - p))
    (loss,) = BinaryCrossEntropy()(from_numpy(logits), from_numpy(targets)).values()
    assert float(loss.mean) == pytest.approx(each.mean(), rel=1e-5) and float(loss.weight) == 4
    (loss,) = BinaryCrossEntropy(class_weights=(1.0, 2.0, 0.0))(from_numpy(logits), from_numpy(targets)).values()
    assert float(loss.mean) == pytest.approx((each * [1, 2, 0]).mean(), rel=1e-5)
    np.testing.assert_allclose(BinaryCrossEntropy().scores(from_numpy(logits)).numpy(), p, rtol=1e-5)
