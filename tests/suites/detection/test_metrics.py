"""The evaluators give the published figures of the reference API's own example, and hand-computed ones."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets import read_coco_ground_truth
from suites.detection.metrics import CocoEvaluator, VocEvaluator, coco_results, read_coco_results
from suites.detection.sample import GroundTruth
from suites.vision.structures import Boxes, Instances, Masks

PUBLISHED = {  # pycocotools 2.0 on cocoapi's fake results of 100 images of val2014
    "AP": 0.5046, "AP50": 0.6970, "AP75": 0.5730, "APs": 0.5856, "APm": 0.5194, "APl": 0.5014,
    "AR1": 0.3868, "AR10": 0.5937, "AR100": 0.5954,
}  # fmt: skip


PUBLISHED_MASKS = {  # the same, of masks
    "AP": 0.3195, "AP50": 0.5623, "AP75": 0.2989, "APs": 0.3874, "APm": 0.3102, "APl": 0.3269,
    "AR1": 0.2682, "AR10": 0.4154, "AR100": 0.4168,
}  # fmt: skip


def truth_of(images, names=("cat", "dog", "cow"), difficult=(), crowd=()):
    """`images`: for each, a list of (box, label); `difficult` and `crowd` are row numbers."""
    boxes = [box for rows in images for box, _ in rows]
    array = np.array(boxes, np.float64).reshape(-1, 4)
    return GroundTruth(
        class_names=tuple(names),
        image_ids=np.arange(len(images)) + 100,
        sizes=np.full((len(images), 2), 400, np.int32),
        offsets=np.cumsum([0, *map(len, images)]),
        boxes=array,
        classes=np.array([label for rows in images for _, label in rows], np.int64),
        areas=(array[:, 2] - array[:, 0]) * (array[:, 3] - array[:, 1]),
        difficult=np.isin(np.arange(len(boxes)), difficult),
        crowd=np.isin(np.arange(len(boxes)), crowd),
        category_ids=np.arange(len(names)) + 1,
    )


def run(evaluator, images):
    """`images`: for each, a list of (box, score, label)."""
    for at, rows in enumerate(images):
        boxes = Boxes(np.array([box for box, _, _ in rows], np.float32))
        classes, scores = np.array([k for _, _, k in rows], int), np.array([s for _, s, _ in rows])
        evaluator.add(100 + at, Instances(boxes, classes, scores))
    return evaluator.compute()


A, B, C, FAR = (0, 0, 100, 100), (150, 150, 250, 250), (10, 200, 50, 240), (300, 300, 390, 390)


def test_the_published_figures_of_the_reference_api(shared_data):
    archive = shared_data("detection/coco_eval_fixture/coco_eval_fixture.zip")
    truth = read_coco_ground_truth(archive / "instances_val2014_100.json")
    evaluator = CocoEvaluator(truth)
    for image_id, found in read_coco_results(archive / "instances_val2014_fakebbox100_results.json", truth).items():
        evaluator.add(image_id, found)
    figures = evaluator.compute()
    assert {name: round(figures[name], 4) for name in PUBLISHED} == PUBLISHED
    by_class = [value for name, value in figures.items() if name.startswith("AP/")]
    assert np.mean(by_class) == pytest.approx(figures["AP"], abs=1e-12)  # all classes have the same weight


def test_the_published_mask_figures_of_the_reference_api(shared_data):
    archive = shared_data("detection/coco_eval_fixture/coco_eval_fixture.zip")
    truth = read_coco_ground_truth(archive / "instances_val2014_100.json", masks=True)
    evaluator, other = CocoEvaluator(truth), CocoEvaluator(truth)
    results = read_coco_results(archive / "instances_val2014_fakesegm100_results.json", truth)
    for image_id, found in results.items():
        (evaluator if image_id % 2 else other).add(image_id, found)
    evaluator.merge(other.state())
    figures = evaluator.compute()
    assert {name: round(figures[f"mask_{name}"], 4) for name in PUBLISHED_MASKS} == PUBLISHED_MASKS


def test_more_than_100_detections_of_an_image_count_where_they_may_and_coco_s_figures_are_told_too():
    rng = np.random.default_rng(0)
    corners = np.stack(np.meshgrid(np.arange(13) * 30.0, np.arange(13) * 30.0), axis=2).reshape(-1, 2)
    boxes = [(*corner, *(corner + 20)) for corner in corners]  # 169 objects
    truth = truth_of([[(box, 0) for box in boxes], [(A, 0)]])
    moved = np.array(boxes) + rng.uniform(-3, 3, (169, 4))
    found = [[(box, score, 0) for box, score in zip(moved, rng.random(169), strict=True)], [(A, 0.5, 0)]]
    more, coco = run(CocoEvaluator(truth, max_detections=300), found), run(CocoEvaluator(truth), found)
    assert more["AR300"] > 1.5 * more["AR100"] and more["AP50"] > 1.5 * more["AP50@100"]
    for name in ("AP", "AP50", "AP75"):
        assert more[f"{name}@100"] == coco[name] and f"{name}@100" not in coco
    assert [more[name] for name in ("AR1", "AR10", "AR100")] == [coco[name] for name in ("AR1", "AR10", "AR100")]
    assert "AR300" not in coco


def test_fewer_detections_than_coco_s_may_count():
    truth = truth_of([[(A, 0), (B, 0)]])
    figures = run(CocoEvaluator(truth, max_detections=50), [[(A, 0.9, 0), (B, 0.8, 0)]])
    assert figures["AP"] == figures["AR50"] == pytest.approx(1) and "AR100" not in figures
    with pytest.raises(AttributeValueError, match="max_detections is 5"):
        CocoEvaluator(truth, max_detections=5)


def test_predictions_of_which_some_have_masks_are_refused():
    truth = truth_of([[(A, 0)], [(B, 0)]])
    evaluator = CocoEvaluator(truth)
    bitmap = np.zeros((1, 400, 400), bool)
    one = Boxes(np.array([A], np.float32)), np.array([0]), np.array([0.9])
    evaluator.add(100, Instances(*one, masks=Masks.of_bitmaps(bitmap)))
    evaluator.add(101, Instances(*one))
    with pytest.raises(DataError, match="1 of 2 predictions have masks; all or none must"):
        evaluator.compute()


def test_perfect_predictions_score_one_and_absent_classes_are_left_out():
    truth = truth_of([[(A, 0), (B, 1)], []])
    figures = run(CocoEvaluator(truth), [[(A, 0.9, 0), (B, 0.8, 1)], []])
    assert [figures[name] for name in ("AP", "AP50", "AR100")] == pytest.approx([1, 1, 1])
    assert "AP/cow" not in figures and figures["AP/cat"] == pytest.approx(1)
    assert "APs" not in figures and figures["APl"] == pytest.approx(1)  # no box is below 32 x 32


def test_no_predictions_score_zero():
    truth = truth_of([[(A, 0)], [(B, 1)]])
    coco = run(CocoEvaluator(truth), [[], []])
    assert coco["AP"] == coco["AR100"] == coco["AP/cat"] == 0
    assert run(VocEvaluator(truth), [[], []]) == {"mAP": 0, "AP/cat": 0, "AP/dog": 0}


def test_a_class_without_objects_costs_nothing_and_a_wrong_class_finds_nothing():
    truth = truth_of([[(A, 0)]])
    assert run(CocoEvaluator(truth), [[(A, 0.5, 0), (B, 0.9, 2)]])["AP"] == pytest.approx(1)
    assert run(CocoEvaluator(truth), [[(A, 0.5, 1)]])["AP"] == 0


def test_the_overlap_decides_at_which_thresholds_a_box_counts():
    """IoU 72 / 100 = 0.72 counts at 0.50, 0.55, 0.60, 0.65 and 0.70: five of ten."""
    figures = run(CocoEvaluator(truth_of([[(A, 0)]])), [[((0, 0, 100, 72), 0.9, 0)]])
    assert figures["AP50"] == pytest.approx(1) and figures["AP75"] == 0
    assert figures["AP"] == pytest.approx(0.5)


def test_a_crowd_neither_counts_nor_punishes():
    truth = truth_of([[(A, 0), (B, 0)]], crowd=[1])
    assert run(CocoEvaluator(truth), [[(B, 0.9, 0), (A, 0.5, 0)]])["AP"] == pytest.approx(1)


def test_voc_by_hand():
    """Four objects, ranks: hit, miss, hit, repeated. Precision at recalls 1/4 and 2/4 is 1 and 2/3."""
    truth = truth_of([[(A, 0), (B, 0)], [(A, 0), (B, 0)]])
    found = [[(A, 0.9, 0), (FAR, 0.8, 0), (A, 0.6, 0)], [(B, 0.7, 0)]]
    assert run(VocEvaluator(truth), found)["mAP"] == pytest.approx(1 / 4 + 2 / 3 / 4)
    # Levels 0, .1, .2 have precision 1; .3, .4, .5 have 2/3; the other five 0.
    assert run(VocEvaluator(truth, method="11point"), found)["mAP"] == pytest.approx((3 + 3 * 2 / 3) / 11)


def test_voc_ignores_difficult_objects():
    truth = truth_of([[(A, 0), (B, 0)]], difficult=[1])
    assert run(VocEvaluator(truth), [[(B, 0.9, 0), (B, 0.8, 0), (A, 0.5, 0)]])["mAP"] == 1
    assert run(VocEvaluator(truth), [[(FAR, 0.9, 0), (A, 0.5, 0)]])["mAP"] == pytest.approx(0.5)
    only = truth_of([[(B, 0), (A, 1)]], difficult=[0])
    assert "AP/cat" not in run(VocEvaluator(only), [[(A, 0.5, 1)]])


def test_voc_and_coco_agree_at_one_threshold_within_the_grid_of_recalls():
    """COCO samples precision at 101 recalls, VOC integrates it: they differ by at most about 1/100 a class."""
    rng = np.random.default_rng(0)
    images, found = [], []
    for _ in range(40):
        corners = np.concatenate([rng.uniform(0, 250, (6, 2))] * 2, axis=1)
        boxes = corners + np.concatenate([np.zeros((6, 2)), rng.uniform(40, 120, (6, 2))], axis=1)
        labels = rng.integers(0, 3, 6)
        images.append(list(zip(boxes, labels, strict=True)))
        noisy = boxes + rng.normal(0, 9, boxes.shape)
        found.append(list(zip(noisy, rng.random(6), np.where(rng.random(6) < 0.2, 0, labels), strict=True)))
    truth = truth_of(images)
    assert run(VocEvaluator(truth), found)["mAP"] == pytest.approx(run(CocoEvaluator(truth), found)["AP50"], abs=0.015)


def test_what_is_added_wrongly_is_named():
    evaluator = CocoEvaluator(truth_of([[(A, 0)], []]))
    one = Instances(Boxes(np.zeros((1, 4))), np.zeros(1, int))
    with pytest.raises(DataError, match="image 7 is not in the ground truth"):
        evaluator.add(7, one)
    with pytest.raises(DataError, match="image 100 has classes 3 to 3, but there are 3, 0 to 2"):
        evaluator.add(100, Instances(one.boxes, one.classes + 3))
    evaluator.add(100, one)
    with pytest.raises(DataError, match="image 100 was added already"):
        evaluator.add(100, one)
    with pytest.raises(DataError, match="1 of 2 images were added"):
        evaluator.compute()


def test_a_set_without_boxes_and_wrong_settings_are_errors():
    with pytest.raises(DataError, match="the ground truth has 1 images but no box"):
        CocoEvaluator(truth_of([[]]))
    with pytest.raises(AttributeValueError, match="iou is 0 and method 'integral'"):
        VocEvaluator(truth_of([[(A, 0)]]), iou=0)


def test_results_are_written_with_the_category_ids_of_the_file():
    rows = coco_results(9, Instances(Boxes(np.array([[1, 2, 11, 22]])), np.array([1]), np.array([0.5])), [3, 7])
    assert rows == [{"image_id": 9, "category_id": 7, "bbox": [1, 2, 10, 20], "score": 0.5}]
