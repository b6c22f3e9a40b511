"""DigitScenes is the same scene for the same numbers, with tight boxes, and its splits share nothing."""

import pickle

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.datasets import DigitScenes
from suites.detection.datasets.digits import _MIN_CONTRAST, _contrasting, _load_glyphs, _load_strips


@pytest.fixture(scope="module")
def scenes():
    return DigitScenes("train", 40)


def test_a_scene_depends_on_seed_split_and_index_only(scenes):
    again, other_seed = pickle.loads(pickle.dumps(DigitScenes("train", 10))), DigitScenes("train", 10, seed=1)
    test = DigitScenes("test", 10)
    for index in (7, 3):
        np.testing.assert_array_equal(again[index].image, scenes[index].image)
        np.testing.assert_array_equal(again[index].instances.boxes.array, scenes[index].instances.boxes.array)
        assert not np.array_equal(other_seed[index].image, scenes[index].image)
        assert not np.array_equal(test[index].image, scenes[index].image)


def test_a_sample_is_a_picture_with_one_to_six_digits(scenes):
    counts = set()
    for index in range(len(scenes)):
        sample = scenes[index]
        assert sample.image.shape == (160, 160, 3) and sample.image.dtype == np.uint8
        assert sample.instances.boxes.array.dtype == np.float32 and sample.instances.classes.dtype == np.int64
        assert (sample.instances.boxes.array[:, :2] >= 0).all() and (sample.instances.boxes.array[:, 2:] <= 160).all()
        assert (sample.instances.boxes.array[:, 2:] - sample.instances.boxes.array[:, :2]).min() >= 5
        counts.add(len(sample.instances.boxes.array))
    assert counts <= set(range(1, 7)) and len(counts) >= 4


def test_the_ground_truth_is_that_of_the_samples(scenes):
    truth = scenes.ground_truth()
    for index in range(0, len(scenes), 7):
        rows = slice(truth.offsets[index], truth.offsets[index + 1])
        np.testing.assert_array_equal(truth.boxes[rows], scenes[index].instances.boxes.array)
        np.testing.assert_array_equal(truth.classes[rows], scenes[index].instances.classes)
    assert truth.image_ids.tolist() == list(range(40)) and scenes[5].image_id == 5
    assert (truth.sizes == 160).all()


def test_a_box_is_as_tight_as_the_ink(scenes):
    """Between a scene with its digits and the bare background, pixels change in the boxes and nowhere else."""
    sample = scenes[4]
    bare = DigitScenes("train", 40)
    rng = bare._rng(4)
    bare._place(rng)
    changed = np.abs(sample.image.astype(int) - bare._background(rng)).max(axis=2) > 25
    outside = changed.copy()
    for x1, y1, x2, y2 in sample.instances.boxes.array.astype(int):
        inside = changed[y1:y2, x1:x2]
        assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()
        outside[y1:y2, x1:x2] = False
    assert not outside.any()


def test_a_digit_differs_in_brightness_from_what_lies_behind_it():
    rng = np.random.default_rng(0)
    for grey in np.linspace(0, 255, 52):
        colour = _contrasting(float(grey), rng)
        assert colour.min() >= -1e-3 and colour.max() <= 255 + 1e-3
        assert abs(colour @ np.array([0.299, 0.587, 0.114]) - grey) >= _MIN_CONTRAST - 1e-3


def test_digits_hardly_overlap():
    truth = DigitScenes("test", 60, min_digits=5).ground_truth()
    for first, last in zip(truth.offsets[:-1], truth.offsets[1:], strict=True):
        boxes = truth.boxes[first:last]
        inner = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(boxes[:, None, :2], boxes[None, :, :2])
        inner = inner.clip(0).prod(2)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        iou = inner / (areas[:, None] + areas[None] - inner)
        assert iou[~np.eye(len(boxes), dtype=bool)].max(initial=0) <= 0.02


def test_the_splits_share_no_digit_and_train_no_part_of_a_photograph():
    glyphs = {split: _load_glyphs(split)[0] for split in ("train", "val", "test")}
    assert sum(map(len, glyphs.values())) == 1797
    seen = {split: {glyph.tobytes() for glyph in part} for split, part in glyphs.items()}
    assert not seen["train"] & seen["val"] and not seen["train"] & seen["test"] and not seen["val"] & seen["test"]
    widths = [(a.shape[1], b.shape[1]) for a, b in zip(_load_strips("train"), _load_strips("test"), strict=True)]
    assert widths == [(416, 224)] * 2


def test_all_classes_occur_about_equally_often():
    counts = np.bincount(DigitScenes("test", 200).ground_truth().classes, minlength=10)
    # About 72 of each; a binomial spread of 8 and the writers' own shares stay within half to twice that.
    assert counts.min() > counts.mean() / 2 and counts.max() < counts.mean() * 2


def test_other_sizes_are_configurable():
    sample = DigitScenes("val", 3, size=224, min_side=60, max_side=120, max_digits=2)[2]
    assert sample.image.shape == (224, 224, 3) and 1 <= len(sample.instances.boxes.array) <= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "dev"}, "split is 'dev'; it must be train, val or test"),
        ({"length": 0}, "length is 0"),
        ({"min_digits": 3, "max_digits": 2}, "digits 3 to 2"),
        ({"max_side": 200}, "sides are 32.0 to 200 in a picture of 160"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(AttributeValueError, match=message):
        DigitScenes(**options)


def test_an_index_behind_the_end_is_an_index_error(scenes):
    with pytest.raises(IndexError, match="scene 40 of 40"):
        scenes[40]
