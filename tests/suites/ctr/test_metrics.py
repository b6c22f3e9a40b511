"""The figures against scikit-learn and plain loops."""

import numpy as np
import pytest
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from suites.ctr.metrics import ClickScores, ScoreBins, auc, bucket_error, click_figures, copc, gauc, log_loss

RNG = np.random.default_rng(0)


def drawn(rows=500, ties=True):
    scores = RNG.random(rows)
    labels = (RNG.random(rows) < scores).astype(np.float32)
    return (np.round(scores, 1) if ties else scores).astype(np.float32), labels, RNG.random(rows)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_auc_and_log_loss_are_those_of_scikit_learn(ties, weighted):
    scores, labels, weights = drawn(ties=ties)
    w = weights if weighted else None
    assert auc(scores, labels, w) == pytest.approx(roc_auc_score(labels, scores, sample_weight=w), abs=1e-12)
    inside = np.clip(scores, 0.01, 0.99)
    expected = sklearn_log_loss(labels, inside.astype(np.float64), sample_weight=w)
    assert log_loss(inside, labels, w) == pytest.approx(expected, abs=1e-9)


def test_bins_give_the_figures_of_the_rows_in_bounded_memory():
    scores, labels, weights = (np.concatenate(parts) for parts in zip(*[drawn(2000, ties=False)] * 3, strict=True))
    part = np.stack([scores, labels, weights]).astype(np.float32)
    bins, again = ScoreBins(), ScoreBins()
    for cut in np.array_split(part[:, :4000], 7, axis=1):
        bins.add(cut)
    again.load(bins.state())  # what a checkpoint holds
    for each in (bins, again):
        each.add(part[:, 4000:])
    assert bins.rows == again.rows == 6000
    found, expected = bins.take(), click_figures(*part)
    assert again.take() == found and bins.rows == 0
    for name, value in expected.items():  # the AUC counts scores within 1e-6 as equal
        assert found[name] == pytest.approx(value, rel=1e-6), name
    assert np.isnan(bins.take()["auc"])


def test_one_class_alone_has_no_auc():
    assert np.isnan(auc(np.array([0.1, 0.2]), np.zeros(2))) and np.isnan(auc(np.zeros(0), np.zeros(0)))


def test_a_wrong_certainty_costs_much_and_not_everything():
    assert log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-np.log(1e-7))


def test_gauc_weighs_the_auc_of_each_group_by_its_rows():
    scores, labels, _ = drawn()
    groups = RNG.integers(-3, 20, 500)
    found = [(auc(scores[groups == g], labels[groups == g]), (groups == g).sum()) for g in np.unique(groups)]
    found = [(value, rows) for value, rows in found if not np.isnan(value)]
    expected = sum(value * rows for value, rows in found) / sum(rows for _, rows in found)
    assert gauc(scores, labels, groups) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(gauc(scores, np.ones(500), groups))


def test_copc_is_clicks_over_predicted_clicks():
    assert copc(np.full(100, 0.2), (np.arange(100) < 30).astype(float)) == pytest.approx(1.5)
    assert np.isnan(copc(np.zeros(3), np.ones(3)))


def test_bucket_error_is_small_where_scores_are_calibrated_and_shows_where_not():
    scores = RNG.random(200_000)
    labels = (RNG.random(200_000) < scores).astype(float)
    # A range is used once its standard error is below 5%, so the mean absolute error is below 5% sqrt(2 / pi) = 4%.
    assert bucket_error(scores, labels) == pytest.approx(0.038, abs=0.008)
    # Twice the true rate everywhere: each range is wrong by about one half.
    assert bucket_error(scores, (RNG.random(200_000) < scores / 2).astype(float)) == pytest.approx(0.5, abs=0.02)
    assert bucket_error(np.full(3, 0.5), np.array([0.0, 1.0, 1.0])) == 0.0


def test_bucket_error_joins_buckets_as_paddle_does():
    """The loop of BasicAucCalculator::calculate_bucket_error, with a table of 100 buckets."""
    scores, labels, _ = drawn(3000, ties=False)
    size, last, ctr, shows, clicks, error, count = 100, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    place = np.minimum((scores.astype(np.float64) * size).astype(int), size - 1)
    for i in range(size):
        own = place == i
        if abs(i / size - last) > 0.05:
            last, ctr, shows, clicks = i / size, 0.0, 0.0, 0.0
        shows, clicks, ctr = shows + own.sum(), clicks + labels[own].sum(), ctr + own.sum() * i / size
        if ctr <= 0:
            continue
        adjusted = ctr / shows
        if np.sqrt((1 - adjusted) / (adjusted * shows)) < 0.1:
            error += abs((clicks / shows) / adjusted - 1) * shows
            count += shows
            last = -1.0
    found = bucket_error(scores, labels, buckets=size, max_span=0.05, max_error=0.1)
    assert count and found == pytest.approx(error / count, rel=1e-12)


def test_each_of_several_labels_has_figures_and_unknown_ones_are_left_out():
    scores, labels = RNG.random((50, 2)).astype(np.float32), (RNG.random((50, 2)) < 0.5).astype(np.float32)
    labels[:20, 1] = np.nan
    metric = ClickScores(["click", "buy"])
    metric.update({"scores": scores}, {"labels": labels, "group": np.arange(50) % 3})
    found = metric.result()
    assert found["auc"] == found["click/auc"] == auc(scores[:, 0], labels[:, 0])
    assert found["buy/auc"] == auc(scores[20:, 1], labels[20:, 1]) and "buy/gauc" in found
