"""Figures of neighbours and of pairs against a reading of their definitions, picture by picture."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.retrieval.datasets.pairs import Pairs
from suites.retrieval.metrics import Neighbours, Verification, best_threshold, neighbour_figures

RNG = np.random.default_rng(2)


def unit(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def by_definition(vectors, labels):
    """recall@k, mAP@R and R-precision, one query at a time."""
    recall, average, precision = {k: [] for k in (1, 2, 4, 8)}, [], []
    for q in range(len(labels)):
        rest = [i for i in range(len(labels)) if i != q]
        order = sorted(rest, key=lambda i: (-float(vectors[i] @ vectors[q]), i))
        right = [labels[i] == labels[q] for i in order]
        count = sum(right)
        if not count:
            continue
        for k, found in recall.items():
            found.append(any(right[:k]))
        precision.append(sum(right[:count]) / count)
        average.append(sum(sum(right[: i + 1]) / (i + 1) for i in range(count) if right[i]) / count)
    return {f"recall@{k}": np.mean(v) for k, v in recall.items()} | {
        "mAP@R": np.mean(average),
        "R_precision": np.mean(precision),
    }


def test_the_figures_are_their_definitions():
    labels = np.concatenate([RNG.integers(0, 6, 50), [9]])  # the last is alone
    vectors = unit(RNG.normal(size=(51, 5)) + np.eye(10)[labels][:, :5])
    found, precision = neighbour_figures(vectors, labels)
    assert {name: found[name] for name in by_definition(vectors, labels)} == pytest.approx(
        by_definition(vectors, labels)
    )
    assert found["asked"] == 50 and np.isnan(precision[50])


def test_classes_that_lie_apart_are_found_whole():
    labels = np.repeat(np.arange(3), 4)
    found, _ = neighbour_figures(unit(np.eye(3)[labels] + RNG.normal(0, 1e-3, (12, 3))), labels)
    assert found["recall@1"] == found["mAP@R"] == 1 and found["nmi"] == pytest.approx(1)


def test_one_picture_a_class_is_an_error_that_says_so():
    metric = Neighbours()
    metric.update({"vectors": unit(RNG.normal(size=(3, 4)))}, {"labels": np.arange(3), "numbers": np.arange(3)})
    with pytest.raises(DataError, match="each class of the evaluation set has one picture"):
        metric.result()


def test_the_worst_pictures_are_those_among_others():
    labels = np.repeat(np.arange(3), 4)
    vectors = np.eye(3)[labels] + RNG.normal(0, 1e-3, (12, 3))
    vectors[5] = vectors[0] + 1e-4
    metric = Neighbours()
    numbers = RNG.permutation(12)
    metric.update({"vectors": unit(vectors[numbers])}, {"labels": labels[numbers], "numbers": numbers})
    assert metric.worst(1)["least found"][0].index == 5


def test_the_threshold_is_that_of_the_most_right_pairs():
    similar, same = np.array([0.1, 0.3, 0.3, 0.6, 0.9]), np.array([0, 0, 1, 1, 1], bool)
    assert 0.1 < best_threshold(similar, same) < 0.3 or 0.3 < best_threshold(similar, same) < 0.6
    grid = [np.mean((similar >= t) == same) for t in np.linspace(-1, 1, 2001)]
    assert np.mean((similar >= best_threshold(similar, same)) == same) == max(grid)


def pairs_of(folds=4, each=6):
    fold = np.repeat(np.arange(folds), each)
    same = np.arange(folds * each) % 2 == 0
    first = RNG.integers(0, 20, folds * each)
    return Pairs(first, (first + np.where(same, 1, 7)) % 20, same, fold)


def test_accuracy_of_pairs_is_fold_by_fold():
    pairs, vectors = pairs_of(), unit(RNG.normal(size=(20, 3)))
    metric = Verification(pairs)
    order = RNG.permutation(20)
    metric.update({"vectors": vectors[order]}, {"numbers": order})
    similar = np.array([float(vectors[a] @ vectors[b]) for a, b in zip(pairs.first, pairs.second, strict=True)])
    shares = []
    for one in range(4):
        rest = pairs.fold != one
        candidates = [-2.0, *sorted(similar[rest] + 1e-7), 2.0]
        best = max(np.mean((similar[rest] >= t) == pairs.same[rest]) for t in candidates)
        chosen = best_threshold(similar[rest], pairs.same[rest])
        assert np.mean((similar[rest] >= chosen) == pairs.same[rest]) == best
        shares.append(np.mean((similar[~rest] >= chosen) == pairs.same[~rest]))
    found = metric.result()
    assert found["accuracy"] == pytest.approx(np.mean(shares)) and found["pairs"] == 24
    assert found["accuracy_spread"] == pytest.approx(np.std(shares))


def test_pairs_with_a_picture_that_could_not_be_read_are_left_out():
    pairs, vectors = pairs_of(), unit(RNG.normal(size=(20, 3)))
    metric = Verification(pairs)
    metric.update({"vectors": vectors[:19]}, {"numbers": np.arange(19)})
    assert metric.result()["pairs"] == 24 - np.sum((pairs.first == 19) | (pairs.second == 19))
