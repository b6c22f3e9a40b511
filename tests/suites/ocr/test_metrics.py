"""hmean as ICDAR 2015 counts it, and the distance of texts."""

import numpy as np
import pytest

from suites.ocr.metrics import FoundTexts, edit_distance, matched, shared_area
from suites.ocr.sample import PageSample
from tests.suites.ocr.test_finding import box

IMAGE = np.zeros((8, 8, 3), np.uint8)


def sample(*quads, texts=None, ignored=None, number=0):
    texts = tuple(texts or ("x",) * len(quads))
    skipped = np.array(ignored or [False] * len(quads), bool)
    return PageSample(image=IMAGE, polygons=quads, texts=texts, ignored=skipped, number=number)


def test_shared_area_is_that_of_the_overlap():
    assert shared_area(box(0, 0, 10, 10), box(5, 5, 20, 20)) == pytest.approx(25)
    assert shared_area(box(0, 0, 4, 4), box(5, 5, 9, 9)) == 0


def test_a_true_text_takes_one_found_and_ignored_ones_count_nowhere():
    true = [box(0, 0, 10, 10), box(20, 0, 30, 10), box(40, 0, 60, 10)]
    found = [box(0, 0, 10, 9), box(0, 1, 10, 10), box(20, 0, 30, 4), box(42, 1, 50, 9)]
    pairs, counts = matched(found, true, np.array([False, False, True]))
    assert pairs == [(0, 0)] and counts.tolist() == [True, True, True, False]
    metric = FoundTexts(reads=False)
    metric.add(sample(*true, ignored=[False, False, True]), found)
    assert metric.result() == {"hmean": 2 / 5, "precision": 1 / 3, "recall": 1 / 2}


def test_what_is_read_right_counts_and_parts_merge():
    one, other, whole = FoundTexts(True), FoundTexts(True), FoundTexts(True)
    first, second = sample(box(0, 0, 10, 10), texts=["abc"]), sample(box(0, 0, 10, 10), texts=["abc"], number=1)
    for metric in (one, whole):
        metric.add(first, [box(0, 0, 10, 10)], ["abc"])
    for metric in (other, whole):
        metric.add(second, [box(0, 0, 10, 10)], ["abd"])
    one.merge(other.state())
    assert one.result() == whole.result() == {"hmean": 1.0, "precision": 1.0, "recall": 1.0, "read_hmean": 0.5}


def test_a_set_without_text_has_figures_of_nothing():
    metric = FoundTexts(True)
    assert metric.result() == {"hmean": 0.0, "precision": 0.0, "recall": 0.0, "read_hmean": 0.0}
    metric.add(sample(), [])
    assert metric.result()["hmean"] == 0.0


def test_the_worst_picture_comes_first():
    metric = FoundTexts(False)
    metric.add(sample(box(0, 0, 9, 9), number=3), [box(0, 0, 9, 9)])
    metric.add(sample(box(0, 0, 9, 9), number=7), [box(20, 20, 29, 29)])
    assert [case.index for case in metric.worst(2)["Worst pictures"]] == [7, 3]


@pytest.mark.parametrize(
    ("one", "two", "distance"),
    [
        ("", "", 0),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("a" * 50, "b" * 50, 50),
        ("ab", "ba", 2),
    ],
)
def test_edit_distance_is_levenshteins(one, two, distance):
    assert edit_distance(one, two) == edit_distance(two, one) == distance
