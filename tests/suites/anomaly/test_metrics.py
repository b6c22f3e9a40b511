"""The figures against scikit-learn and a plain reading of their definitions."""

import cv2
import numpy as np
import pytest
from sklearn.metrics import f1_score, roc_auc_score

from suites.anomaly.metrics import AnomalyMetric, auroc, best_f1, classes_of, numbers_of, pro

RNG = np.random.default_rng(0)
COUNT, SIDE = 12, 24
LABELS = np.arange(COUNT) % 2
SCORES = np.round(RNG.random(COUNT) * 2 + LABELS * 0.4, 2).astype(np.float32)
MASKS = np.zeros((COUNT, SIDE, SIDE), np.uint8)
for _at in np.flatnonzero(LABELS):
    MASKS[_at, 3:7, 3:9] = MASKS[_at, 15:18, 10:12] = 1
    MASKS[_at, 18, 12] = 1  # hangs together by a corner
MAPS = (RNG.random((COUNT, SIDE, SIDE)) + 0.3 * MASKS).astype(np.float32)


def fed(parts=(slice(None),), masks=MASKS, labels=LABELS, has_masks=True):
    metrics = []
    for part in parts:
        metric = AnomalyMetric(has_masks)
        batch = {"labels": labels[part], "numbers": np.arange(COUNT)[part], "masks": masks[part]}
        metric.update({"scores": SCORES[part], "maps": MAPS[part]}, batch)
        metrics.append(metric)
    for other in metrics[1:]:
        metrics[0].merge(other.state())
    return metrics[0]


def plain_pro(limit):
    """By the definition, at every number of the maps."""
    regions = []
    for at in range(COUNT):
        count, parts = cv2.connectedComponents(MASKS[at], connectivity=8)
        regions += [MAPS[at][parts == number] for number in range(1, count)]
    good = MAPS[MASKS == 0]
    xs, ys = [0.0], [0.0]
    for threshold in np.unique(MAPS)[::-1]:
        xs.append(float(np.mean(good >= threshold)))
        ys.append(float(np.mean([np.mean(region >= threshold) for region in regions])))
    fine = np.unique([*np.linspace(0, limit, 20001), *[x for x in xs if x <= limit]])
    return np.trapezoid(np.interp(fine, xs, ys), fine) / limit, len(regions)


def test_figures_of_pictures_are_scikit_learns():
    found = fed().result()
    assert found["image_AUROC"] == pytest.approx(roc_auc_score(LABELS, SCORES))
    every = [f1_score(LABELS, threshold <= SCORES) for threshold in np.unique(SCORES)]
    assert found["F1"] == pytest.approx(max(every))
    assert f1_score(LABELS, found["F1_threshold"] < SCORES) == pytest.approx(max(every))
    assert found["missed"] == pytest.approx(np.mean(SCORES[LABELS == 1] <= 1))
    assert found["false_alarms"] == pytest.approx(np.mean(SCORES[LABELS == 0] > 1))


def test_figures_of_pixels_are_those_of_the_definitions():
    found = fed().result()
    assert found["pixel_AUROC"] == pytest.approx(roc_auc_score(MASKS.reshape(-1), MAPS.reshape(-1)), abs=1e-4)
    expected, regions = plain_pro(0.3)
    assert regions == 12 and found["PRO"] == pytest.approx(expected, abs=1e-3)
    taken = MAPS.reshape(-1) > found["pixel_F1_threshold"]
    assert f1_score(MASKS.reshape(-1), taken) == pytest.approx(found["pixel_F1"], abs=1e-3)


def test_ties_count_half_and_perfect_maps_give_one():
    assert auroc(np.array([3]), np.array([2])) == 0.5
    assert auroc(np.array([4, 0]), np.array([0, 4])) == 1.0
    assert pro(np.array([10, 0]), np.array([0.0, 2.0]), 2) == 1.0
    assert best_f1(np.array([4, 0]), np.array([0, 4]), np.array([1.0, 3.0])) == (1.0, 2.0)


def test_classes_keep_the_order_to_a_four_thousandth():
    numbers = np.sort(np.append(RNG.random(1000) * 10.0 ** RNG.integers(-3, 4, 1000), 0.0)).astype(np.float32)
    classes = classes_of(numbers)
    assert (np.diff(classes) >= 0).all() and numbers_of(classes) == pytest.approx(numbers, rel=2**-12)


def test_parts_give_the_figures_of_the_whole_and_borders_count_for_nothing():
    assert fed([slice(0, 5), slice(5, 12)]).result() == pytest.approx(fed().result())
    masks = MASKS.copy()
    masks[:, :, 20:] = 255
    kept = MASKS[:, :, :20].reshape(-1), MAPS[:, :, :20].reshape(-1)
    assert fed(masks=masks).result()["pixel_AUROC"] == pytest.approx(roc_auc_score(*kept), abs=1e-4)


def test_without_defects_or_masks_what_cannot_be_told_is_left_out():
    assert set(fed(labels=np.zeros(COUNT, np.int64), has_masks=False).result()) == {"false_alarms"}
    assert set(fed(labels=np.ones(COUNT, np.int64), has_masks=False).result()) == {"missed"}
    assert "PRO" not in fed(has_masks=False).result() and AnomalyMetric(True).result() == {}


def test_the_worst_are_named_with_their_scores():
    worst = fed().worst(2)
    good = worst["good, with the highest scores"]
    assert len(good) == 2 and SCORES[good[0].index] == SCORES[LABELS == 0].max()
    assert f"score {SCORES[good[0].index]:.3f}" in good[0].why
    assert SCORES[worst["defects, with the lowest scores"][0].index] == SCORES[LABELS == 1].min()
    (curves,) = fed().plots()
    assert curves.series["pictures"][0][-1] == curves.series["pictures"][1][-1] == 1


def test_the_best_f1_is_reached_above_its_own_threshold_though_it_takes_all_scores():
    scores = np.array([3.0, 4.0, 5.0])
    best, threshold = best_f1(np.array([0, 0, 1]), np.array([1, 1, 0]), scores)
    assert best == 0.8 and (scores > threshold).all()
