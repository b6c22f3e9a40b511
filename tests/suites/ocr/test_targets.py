"""What DBNet learns from outlines, and its losses."""

import numpy as np
import pytest

from framework import from_numpy
from framework.errors import AttributeValueError, ConfigError
from suites.ocr.losses import MapLoss
from suites.ocr.problems.finding import collate_pages
from suites.ocr.sample import PageSample
from suites.ocr.targets import targets
from suites.ocr.transforms import LineWarp, RandomTextCrop
from tests.suites.ocr.helpers import page
from tests.suites.ocr.test_finding import box


def test_text_is_shrunk_by_its_area_over_its_circumference():
    found = targets([box(10, 10, 90, 30)], np.array([False]), (48, 112))
    distance = 80 * 20 * (1 - 0.16) / 200
    rows, columns = np.nonzero(found.text)
    assert abs(rows.min() - (10 + distance)) < 1.5 and abs(rows.max() - (30 - distance)) < 1.5
    assert abs(columns.min() - (10 + distance)) < 1.5 and abs(columns.max() - (90 - distance)) < 1.5
    assert found.counted.all()


def test_thresholds_are_highest_at_the_border_and_learnt_near_it():
    found = targets([box(10, 10, 90, 30)], np.array([False]), (48, 112))
    assert found.threshold[10, 50] > 0.65 and found.threshold[20, 50] < 0.4
    assert found.threshold.min() == pytest.approx(0.3) and found.threshold.max() <= 0.7
    assert found.near[10, 50] == 1 and found.near[20, 50] == found.near[40, 100] == 0


def test_ignored_and_tiny_texts_are_not_counted_and_those_outside_change_nothing():
    outlines = [box(10, 10, 40, 20), box(50, 10, 60, 11), box(500, 500, 600, 520), box(-30, 30, 20, 40)]
    found = targets(outlines, np.array([True, False, False, False]), (48, 80))
    assert not found.text[:25].any() and found.counted[12, 20] == 0 and found.counted[10, 55] == 0
    assert found.text[30:41, :12].any()  # what is seen of a text that reaches outside is learnt


def sample(*quads, size=(64, 96), ignored=None):
    skipped = np.array(ignored or [False] * len(quads), bool)
    return PageSample(image=page(size=size), polygons=quads, texts=("x",) * len(quads), ignored=skipped)


def test_pictures_of_one_batch_have_one_size():
    batch = collate_pages([sample(box(10, 10, 40, 20)), sample()])
    assert batch["images"].shape == (2, 64, 96, 3) and batch["text"].shape == (2, 64, 96)
    assert batch["images"].max() == 1 and batch["text"][0].any() and not batch["text"][1].any()
    with pytest.raises(
        ConfigError, match=r"leave pictures of \(32, 32\) and \(64, 96\) pixels; end them with RandomTextCr"
    ):
        collate_pages([sample(), sample(size=(32, 32))])


def maps(batch, right):
    text = batch["text"]
    sure = np.where((text > 0.5) == right, 12.0, -12.0).astype(np.float32)
    threshold = batch["threshold"] if right else 1 - batch["threshold"]
    binary = text if right else 1 - text
    return tuple(from_numpy(np.ascontiguousarray(x)) for x in (sure, threshold, binary))


def test_right_maps_lose_nothing_and_wrong_ones_much():
    batch = collate_pages([sample(box(10, 10, 40, 20)), sample()])
    wanted = {name: from_numpy(batch[name]) for name in ("text", "counted", "threshold", "near")}
    right, wrong = (MapLoss()(maps(batch, truth), wanted) for truth in (True, False))
    assert all(float(term.mean) < 1e-3 for term in right.values())
    assert float(wrong["text"].mean) > 50 and float(wrong["binary"].mean) > 0.9
    assert float(wrong["threshold"].mean) > 1


def test_only_the_hardest_negatives_count():
    """Three for each pixel of text, so one wrong pixel among thousands is not lost in their mean."""
    text = np.zeros((1, 32, 32), np.float32)
    text[0, 0, 0] = 1
    logits = np.where(text > 0, 12.0, -12.0).astype(np.float32)
    logits[0, 5, 5] = 8.0
    given = [from_numpy(x) for x in (logits, np.zeros_like(text), text)]
    ones = from_numpy(np.ones_like(text))
    wanted = {"text": from_numpy(text), "counted": ones, "threshold": given[1], "near": ones}
    assert float(MapLoss(text=1.0)(tuple(given), wanted)["text"].mean) == pytest.approx(8.0 / 4, abs=1e-3)
    with pytest.raises(AttributeValueError, match="loss: factors and negatives must be 0 or more"):
        MapLoss(negatives=-1)


def test_crops_are_squares_around_texts_that_take_their_outlines_along():
    rng = np.random.default_rng(0)
    image = page((300, 200, 500, 240), size=(600, 900))
    given = PageSample(image=image, polygons=(box(300, 200, 500, 240),), texts=("x",), ignored=np.array([False]))
    for _ in range(20):
        found = RandomTextCrop(256, around=1.0)(given, rng)
        assert found.size == (256, 256)
        seen = targets(found.polygons, found.ignored, found.size).text > 0
        assert seen.any() and found.image[seen].mean() < 60  # the outline lies on the dark rectangle
    with pytest.raises(AttributeValueError, match="RandomTextCrop: size is 100"):
        RandomTextCrop(100)
    with pytest.raises(AttributeValueError, match="RandomTextCrop: scale"):
        RandomTextCrop(64, scale=(2.0, 1.0))


def test_warped_lines_keep_size_and_text():
    from suites.ocr.sample import LineSample

    given = LineSample(image=page((10, 10, 90, 20), size=(32, 100)), text="x")
    found = [LineWarp(prob=1.0)(given, np.random.default_rng(seed)) for seed in range(3)]
    assert all(each.image.shape == (32, 100, 3) and each.text == "x" for each in found)
    assert all((each.image != given.image).any() for each in found)
    with pytest.raises(AttributeValueError, match="LineWarp"):
        LineWarp(prob=2.0)
