"""Ranking figures: by hand on small queries, and by scikit-learn where it has them."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from framework.errors import DataError
from suites.nlp.metrics.ranking import RankingScores, VectorScores, corpus_figures, query_figures, ranking_figures


def test_a_query_by_hand():
    found = query_figures(np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert found["map"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert found["mrr"] == 0.5 and found["precision@1"] == 0.0
    assert [found[f"recall@{k}"] for k in (1, 2, 5)] == [0.0, 0.5, 1.0]


def test_average_precision_and_ndcg_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, gains = rng.normal(size=30), rng.integers(0, 4, 30).astype(float)
        found = query_figures(scores, gains)
        assert found["map"] == pytest.approx(average_precision_score(gains > 0, scores), abs=1e-12)
        assert found["ndcg@10"] == pytest.approx(ndcg_score([2**gains - 1], [scores], k=10), abs=1e-12)


def test_equal_scores_and_no_numbers_count_against_what_fits():
    assert query_figures(np.array([0.5, 0.5]), np.array([1.0, 0.0]))["mrr"] == 0.5
    assert query_figures(np.array([np.nan, 0.1]), np.array([1.0, 0.0]))["mrr"] == 0.5


def test_queries_of_one_kind_are_left_out():
    scores, groups = np.array([0.1, 0.9, 0.3, 0.4, 0.5]), np.array([0, 0, 1, 2, 2])
    found = ranking_figures(scores, np.array([0.0, 1.0, 1.0, 0.0, 0.0]), groups)
    assert found["queries"] == 1 and found["map"] == 1.0
    with pytest.raises(DataError, match="no query has rows that fit and rows that do not"):
        ranking_figures(scores[2:], np.array([1.0, 0.0, 0.0]), groups[2:])


def test_a_corpus_has_each_text_once_and_asks_each_anchor_once():
    texts = np.eye(3, dtype=np.float32)
    matches, groups = np.array([0, 1, 2, 1]), np.array([0, 0, 1, 2])
    anchors = texts[[0, 0, 1, 1]]
    found = corpus_figures(anchors, texts[matches], groups, matches, np.array([1.0, 1.0, 1.0, 0.0]))
    assert found["queries"] == 2  # the third anchor has nothing that fits
    assert found["recall@1"] == pytest.approx((0.5 + 0.0) / 2)
    assert found["mrr"] == pytest.approx((1 + 1 / 3) / 2)
    with pytest.raises(DataError, match="the corpus is of one text"):
        corpus_figures(anchors[:1], texts[:1], groups[:1], matches[:1], np.ones(1))


def test_vectors_are_judged_at_each_width():
    metric = VectorScores("scores", (2, 8))
    pairs = np.array([[[1, 0, 0], [1, 0, 5]], [[1, 0, 0], [0, 1, 0]], [[1, 0, 0], [1, 1, 0]]], np.float32)
    rows = np.arange(3)
    batch = {"gains": np.array([1.0, 0.0, 0.5]), "groups": rows, "anchors": rows, "matches": rows}
    metric.update({"vectors": pairs.reshape(6, 3)}, batch)
    found = metric.result()
    assert found["spearman/2"] == pytest.approx(1.0) and found["spearman"] == pytest.approx(0.5)
    assert "spearman/8" not in found  # as wide as the vectors, or wider


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused(value):
    rows = {"gains": np.array([1.0, 0.0]), "groups": np.zeros(2, np.int64)}
    more = {"anchors": np.zeros(2, np.int64), "matches": np.arange(2)}
    with pytest.raises(DataError, match="scores hold NaN or infinity"):
        RankingScores().update({"scores": np.array([value, 0.1])}, rows)
    with pytest.raises(DataError, match="vectors hold NaN or infinity"):
        VectorScores("groups").update({"vectors": np.full((4, 3), value)}, {**rows, **more})
