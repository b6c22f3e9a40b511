"""Popularity and item-kNN, computed from the training rows, stand beside the model in every report of retrieval."""

import json
import re

import numpy as np
import pytest

from suites.ctr.datasets.clicks import Clicks
from suites.ctr.retrieval.baselines import Baselines
from suites.ctr.retrieval.scores import RetrievalScores
from suites.engine.train.training import evaluate_weights
from tests.suites.ctr.test_retrieval import run

A, B, C, D = 40, 10, 30, 20  # signs in an order of their own


def clicks(rows):
    """Rows of (user, item, history, clicked)."""
    offsets = np.cumsum([0, *(len(history) for _, _, history, _ in rows)])
    seen = np.array([sign for _, _, history, _ in rows for sign in history], np.int64)
    return Clicks(
        sparse=np.array([[7, item] for _, item, _, _ in rows], np.int64),
        ragged={"liked": (seen, offsets)},
        dense=np.zeros((len(rows), 0), np.float32),
        labels=np.array([[clicked] for *_, clicked in rows], np.float32),
        group=np.array([user for user, *_ in rows], np.int64),
    )


# Clicked by user: 1 {A, B}, 2 {A, B, C}, 3 {A}, 4 {C, D}; the row that was not clicked counts for nothing.
TRAIN = clicks(
    [(1, A, [], 1), (1, B, [A], 1), (2, B, [C], 1), (2, A, [C, B], 1), (3, A, [], 1), (3, D, [A], 0), (4, D, [C], 1)]
)


def figures(train, chosen, k):
    """Of users who chose an item after a history."""
    held = clicks([(9, item, history, 1) for item, history in chosen])
    metric = RetrievalScores(
        np.array([A, B, C, D]), np.ones((4, 2)), 1, k, Baselines(np.array([A, B, C, D]), train, 1, "liked")
    )
    for part in (np.arange(1), np.arange(1, len(chosen))):  # two batches
        metric.update({"users": np.ones((len(part), 2))}, held.take(part).batch())
    return metric.result()


def test_popularity_ranks_by_the_clicked_rows_of_an_item():
    # Rows: A 3, B 2, D 1, C 0 as the item of a row. Places of B, A, C, D: 2, 1, 4, 3.
    found = figures(TRAIN, [(B, [C]), (A, []), (C, [A]), (D, [])], 2)
    assert found["popularity_recall@2"] == pytest.approx(2 / 4)
    assert found["popularity_mrr@2"] == pytest.approx((1 / 2 + 1) / 4)


def test_item_knn_ranks_by_the_sum_of_the_cosines_over_users():
    # Users with A 3, B 2, C 2, D 1; together AB 2, AC 1, BC 1, CD 1. Of the history [A, D]:
    #   B: 2 / sqrt(23 22) = 0.0889 of AB. C: 1 / sqrt(23 22) + 1 / sqrt(22 21) = 0.0910 of AC and CD. A and D: 0.
    # Of [B]: A 0.0889, C 1 / 22 = 0.0455, D 0 as B: the equal score counts against D, which is fourth.
    found = figures(TRAIN, [(C, [A, D]), (B, [A, D]), (D, [B]), (C, [B])], 3)
    assert found["item_knn_recall@3"] == pytest.approx(3 / 4)
    assert found["item_knn_mrr@3"] == pytest.approx((1 + 1 / 2 + 1 / 2) / 4)


def test_without_a_group_a_session_is_a_row_s_item_and_its_history():
    alone = Clicks(TRAIN.sparse, TRAIN.ragged, TRAIN.dense, TRAIN.labels)
    # Rows with A 4, B 3, C 3, D 1; together AB 2, AC 1, BC 2, CD 1. Of [A]: B 2 / sqrt(24 23), C 1 / sqrt(24 23), D 0.
    # Of [C]: B 2 / 23 = 0.0870, D 1 / sqrt(23 21) = 0.0455, A 1 / sqrt(24 23) = 0.0426.
    found = figures(alone, [(B, [A]), (C, [A]), (B, [C]), (D, [C])], 1)
    assert found["item_knn_recall@1"] == pytest.approx(2 / 4)


def test_an_item_that_training_does_not_have_is_found_by_nobody():
    found = figures(TRAIN, [(99, [A, 98]), (B, [98, A])], 4)
    assert found["known"] == found["popularity_recall@4"] == found["item_knn_recall@4"] == 0.5


def test_an_item_has_a_hundred_neighbours_the_nearest_ones():
    # User u sees items 0, u and all below u: the higher an item, the fewer users it shares with 0.
    signs = np.arange(150, dtype=np.int64)
    rows = [(user, 0, [*range(1, user + 1)], 1) for user in range(1, 150)]
    chosen = clicks([(9, item, [0], 1) for item in (1, 100, 101)])
    values = Baselines(signs, clicks(rows), 1, "liked")
    seen, offsets = chosen.ragged["liked"]
    ranked = [
        values.figures(seen[:1], np.diff(offsets)[:1], chosen.sparse[i : i + 1, 1], 150)["item_knn_mrr@150"]
        for i in range(3)
    ]
    assert ranked == pytest.approx([1, 1 / 100, 1 / 150])


def test_a_report_shows_both_and_says_where_a_model_is_no_better_than_popularity(tmp_path):
    run(
        tmp_path,
        {"type": "GRU4Rec", "dim": 4},
        runtime={"epochs": 1, "workers": 0},
        schedule={"type": "Constant", "base_lr": 1e-9},
    )
    folder = tmp_path / "run"
    told = json.loads((folder / "metrics.json").read_text())
    assert {"popularity_recall@20", "popularity_mrr@20", "item_knn_recall@20", "item_knn_mrr@20"} <= told.keys()
    text = (folder / "report.md").read_text()
    assert re.search(r"\| popularity: the same items for everybody \| 1\.0000 \| 0\.\d{4} \|", text)
    assert re.search(r"\| item-kNN: items seen together \| 1\.0000 \| 0\.\d{4} \|", text)
    assert "no better than the most popular items for everybody: 1.0000 to 1.0000" in text
    (tmp_path / "log.csv").rename(tmp_path / "kept.csv")
    other = json.dumps(str(tmp_path / "kept.csv"))
    alone = evaluate_weights(folder, [f"data.eval.dataset.root={other}"])
    assert "known" in alone and "popularity_recall@20" not in alone
