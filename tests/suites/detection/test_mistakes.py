"""What a detector took for what: matrix with background, misses by size, inventions by score, by boxes and by masks."""

import json

import numpy as np
import pytest

from suites.detection.holdings import tally_objects
from suites.detection.metrics import CocoEvaluator, VocEvaluator, WiderEvaluator
from suites.detection.metrics.mistakes import Mistakes
from suites.detection.visualize import draw_finding
from suites.engine.reporting import Tally
from suites.engine.reporting.tally import size_of_bin
from suites.vision.structures import Boxes, Instances, Masks
from tests.suites.detection.test_metrics import run, truth_of

A, B, C, FAR = (10, 10, 110, 110), (200, 200, 240, 240), (12, 12, 112, 112), (300, 300, 390, 390)


def compared(images, found, score=0.3, **more):
    evaluator = CocoEvaluator(truth_of(images, **more))
    run(evaluator, found)
    return evaluator.mistakes(score)


def test_the_matrix_has_hits_confusions_misses_and_inventions():
    images = [[(A, 0), (B, 1)], [(A, 2)], []]
    found = [[(C, 0.9, 0), (B, 0.8, 2)], [(FAR, 0.7, 1), (A, 0.2, 2)], [(A, 0.31, 0)]]
    matrix = compared(images, found).matrix()
    expected = np.zeros((4, 4), int)
    expected[0, 0] = expected[1, 2] = expected[2, 3] = expected[3, 1] = expected[3, 0] = 1
    assert np.array_equal(matrix.counts, expected)
    assert matrix.names[-1] == "(background)" and "score 0.3 and IoU 0.5" in matrix.title


def test_an_object_is_taken_by_its_class_first_and_only_once():
    # The dog is surer, yet the cat gets the cat; the second cat and the dog are then inventions.
    matrix = compared([[(A, 0)]], [[(A, 0.95, 1), (C, 0.6, 0), (A, 0.5, 0)]]).matrix()
    assert matrix.counts[0][0] == 1 and matrix.counts[3][0] == 1 and matrix.counts[3][1] == 1
    assert np.sum(matrix.counts) == 3


def test_difficult_objects_and_crowds_count_in_nothing():
    inside = (20, 20, 40, 40)  # IoU with the crowd is 0.04, but it lies in it
    mistakes = compared([[(A, 0), (B, 1)]], [[(inside, 0.9, 0), (B, 0.9, 1)]], crowd=[0], difficult=[1])
    assert not np.any(mistakes.matrix().counts)
    assert not mistakes.misses(5) and not mistakes.inventions(5)


def test_misses_go_by_size_and_inventions_by_score_an_image_each():
    images = [[(B, 1)], [(A, 0), (FAR, 2)], [(A, 2)]]
    found = [[(A, 0.6, 0)], [], [(A, 0.9, 1), (B, 0.7, 1)]]
    mistakes = compared(images, found)
    misses, inventions = mistakes.misses(5), mistakes.inventions(5)
    assert [(case.index, case.why) for case in misses] == [
        (1, "cat of 100 x 100 pixels missed, and 1 more"),
        (2, "cow of 100 x 100 pixels taken for dog 0.90"),
        (0, "dog of 40 x 40 pixels missed"),
    ]
    assert [(case.index, case.why) for case in inventions] == [
        (2, "dog 0.90 on cow, and 1 more"),
        (0, "cat 0.60 on nothing"),
    ]
    assert len(mistakes.misses(1)) == 1 and len(misses[0].detail.wrong) == 2 and misses[0].detail.missed


def test_counts_equal_a_plain_reading_of_the_rule():
    rng = np.random.default_rng(1)

    def box():
        corner = rng.integers(0, 60, 2)
        return (*corner.tolist(), *(corner + rng.integers(20, 80, 2)).tolist())

    images = [[(box(), int(rng.integers(3))) for _ in range(rng.integers(0, 6))] for _ in range(60)]
    found = [
        [(b if rng.random() < 0.6 else box(), float(rng.random()), int(rng.integers(3))) for b, _ in own]
        for own in images
    ]
    expected = np.zeros((4, 4), int)
    for own, rows in zip(images, found, strict=True):
        _plainly(own, [row for row in rows if row[1] >= 0.3], expected)
    assert np.array_equal(compared(images, found).matrix().counts, expected)


def _plainly(objects, rows, counts):
    def iou(a, b):
        w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        both = max(w, 0) * max(h, 0)
        return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)

    rows, free = sorted(rows, key=lambda row: -row[1]), list(range(len(objects)))
    for same in (True, False):
        for row in list(rows):
            near = [(iou(row[0], objects[k][0]), k) for k in free if (objects[k][1] == row[2]) or not same]
            near = [pair for pair in near if pair[0] >= 0.5]
            if near:
                best = max(near, key=lambda pair: pair[0])[1]
                counts[objects[best][1], row[2]] += 1
                free.remove(best)
                rows.remove(row)
    for row in rows:
        counts[3, row[2]] += 1
    for k in free:
        counts[objects[k][1], 3] += 1


def test_masks_are_compared_where_both_have_them():
    truth = truth_of([[((0, 0, 100, 100), 0)]])
    half = np.zeros((400, 400), bool)
    half[:100, :40] = True  # the box is right, the shape is not
    full = np.zeros((400, 400), bool)
    full[:100, :100] = True
    object.__setattr__(truth, "masks", [Masks.of_bitmaps(full[None])])
    evaluator = CocoEvaluator(truth)
    boxes = Boxes(np.array([[0, 0, 100, 100]], np.float32))
    evaluator.add(100, Instances(boxes, np.array([0]), np.array([0.9]), masks=Masks.of_bitmaps(half[None])))
    mistakes = evaluator.mistakes(0.3)
    assert mistakes.matrix().counts[0][3] == 1 and "masks" in mistakes.matrix().title
    (case,) = mistakes.inventions(3)
    picture = draw_finding(np.zeros((400, 400, 3), np.uint8), case.detail, truth.class_names)
    red = (picture == (230, 50, 50)).all(axis=2)
    assert red.any() and (picture == (60, 200, 80)).all(axis=2).any()


@pytest.mark.parametrize("size", [(400, 400), (3000, 2000), (20, 4000)])
@pytest.mark.parametrize("which", ["misses", "inventions"])
def test_findings_are_drawn_with_their_surroundings_only(size, which):
    mistakes = compared([[(A, 0), (B, 1)]], [[(FAR, 0.9, 2)]])
    (case,) = getattr(mistakes, which)(4)
    picture = draw_finding(np.full((*size, 3), 90, np.uint8), case.detail, ("cat", "dog", "cow"))
    assert max(picture.shape[:2]) <= 1200 and picture.dtype == np.uint8
    if min(size) > 20:
        assert (picture == (230, 50, 50)).all(axis=2).any()


def test_halves_merged_have_the_mistakes_of_the_whole():
    images = [[(A, 0), (B, 1)], [(A, 2)], [(FAR, 1)]]
    found = [[(C, 0.9, 0), (B, 0.8, 2)], [(FAR, 0.7, 1)], [(A, 0.31, 0)]]
    whole, parts = CocoEvaluator(truth_of(images)), [CocoEvaluator(truth_of(images)) for _ in range(2)]
    run(whole, found)
    for at, rows in enumerate(found):
        kinds = np.array([k for *_, k in rows]), np.array([s for _, s, _ in rows])
        parts[at % 2].add(100 + at, Instances(Boxes(np.array([b for b, *_ in rows], np.float32)), *kinds))
    parts[0].mistakes(0.3)  # what was compared before the merge is not kept
    parts[0].merge(parts[1].state())
    merged = parts[0].mistakes(0.3)
    assert merged.matrix() == whole.mistakes(0.3).matrix()
    assert [c.why for c in merged.misses(9)] == [c.why for c in whole.mistakes(0.3).misses(9)]


def test_nothing_predicted_and_scores_above_all_are_no_error():
    mistakes = Mistakes(truth_of([[(A, 0)], []]), np.zeros((0, 7)), [], 0.3)
    assert mistakes.matrix().counts[0][3] == 1 and not mistakes.inventions(3)
    assert [case.index for case in mistakes.misses(3)] == [0]


@pytest.mark.parametrize("kind", [VocEvaluator, WiderEvaluator])
def test_every_evaluator_has_precision_over_recall(kind):
    evaluator = kind(truth_of([[(A, 0), (B, 1)], [(A, 0)]]))
    run(evaluator, [[(A, 0.9, 0), (B, 0.8, 1)], [(FAR, 0.7, 0)]])
    (plot,) = evaluator.plots()
    recall, precision = next(iter(plot.series.values()))
    assert recall[0] > 0 and precision[0] == 1.0 and len(recall) == len(precision) <= 201
    json.dumps(plot.series)


def test_objects_are_counted_by_class_and_size():
    truth = truth_of([[((0, 0, 31, 31), 0), (A, 0)], [((0, 0, 50, 50), 2)], []], crowd=[1], difficult=[2])
    tally = Tally()
    tally_objects(tally, truth)
    assert dict(tally.names["objects"].counts) == {"cat": 1, "dog": 0, "cow": 1} and tally.names["objects"].whole
    by_size = list(tally.names["objects by size in pixels"].counts.values())
    assert by_size == [1, 1, 0] and tally.names["objects"].samples == 3
    assert dict(tally.names["images and marks"].counts) == {
        "images": 3, "images without objects": 1, "crowd regions": 1, "difficult": 1,
    }  # fmt: skip
    sides = tally.sizes["side of an object, pixels"].counts
    assert sorted(size_of_bin(int(at)) for at in sides) == [pytest.approx(16 * 2**0.5), pytest.approx(32 * 2**0.5)]
