"""Figures of YouTube-8M equal a plain reading of their definitions."""

import numpy as np

from suites.video.metrics import TaggedVideos, equal_recall_precision, global_average_precision

RNG = np.random.default_rng(0)
TRUTH = RNG.random((30, 12)) < 0.2
SCORES = RNG.random((30, 12))


def gap(truth, scores, kept):
    """The mean, over every label there is, of the precision at its place among all videos' best predictions."""
    best = [sorted(zip(s, t, strict=True))[-kept:] for t, s in zip(truth, scores, strict=True)]
    found = sorted((pair for pairs in best for pair in pairs), reverse=True)
    right, total = 0, 0.0
    for place, (_, hit) in enumerate(found, start=1):
        right += hit
        total += hit * right / place
    return total / truth.sum()


def test_gap_is_its_definition():
    for kept in (3, 20):
        np.testing.assert_allclose(global_average_precision(TRUTH, SCORES, kept), gap(TRUTH, SCORES, kept))


def test_perr_is_its_definition():
    shares = []
    for truth, scores in zip(TRUTH, SCORES, strict=True):
        if count := truth.sum():
            shares.append(truth[np.argsort(-scores)[:count]].mean())
    np.testing.assert_allclose(equal_recall_precision(TRUTH, SCORES), np.mean(shares))


def test_a_perfect_answer_has_ones_and_figures_of_parts_merge():
    whole, parts = TaggedVideos(["c"] * 12), [TaggedVideos(["c"] * 12) for _ in range(2)]
    truth = TRUTH[TRUTH.any(axis=1)]
    whole.update({"scores": truth + 0.0}, {"targets": truth})
    assert [whole.result()[name] for name in ("GAP", "Hit@1", "PERR", "mAP")] == [1, 1, 1, 1]
    mixed = TaggedVideos(["c"] * 12)
    mixed.update({"scores": SCORES}, {"targets": TRUTH})
    for part, rows in zip(parts, (slice(0, 11), slice(11, 30)), strict=True):
        part.update({"scores": SCORES[rows]}, {"targets": TRUTH[rows]})
    parts[0].merge(parts[1].state())
    assert parts[0].result() == mixed.result()


def test_videos_without_a_class_do_not_break_the_figures():
    metric = TaggedVideos(["a", "b"])
    metric.update({"scores": np.array([[0.2, 0.1]])}, {"targets": np.zeros((1, 2))})
    figures = metric.result()
    assert figures["GAP"] == figures["PERR"] == figures["Hit@1"] == 0
