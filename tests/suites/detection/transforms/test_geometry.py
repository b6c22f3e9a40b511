"""Pixels and boxes move together, predictions find their way back, and crops keep what the rule says."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.transforms import (
    DropTinyBoxes,
    Letterbox,
    PadToMultiple,
    RandomExpand,
    RandomFlip,
    RandomIoUCrop,
    RandomShape,
    Resize,
    ResizeKeepRatio,
)
from tests.suites.detection.transforms.helpers import box_of, painted

BOXES = [(10, 20, 30, 40), (50, 4, 78, 24)]
EXACT = [
    Resize([120, 240], "nearest"),
    Letterbox(160, interp="nearest"),
    Letterbox([120, 400], centred=False, interp="nearest"),
    ResizeKeepRatio(120, 1000, interp="nearest"),
    PadToMultiple(32),
    RandomFlip(1.0),
    RandomFlip(1.0, "vertical"),
    RandomExpand(3.0, 1.0),
]


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("transform", EXACT, ids=lambda t: type(t).__name__)
def test_boxes_stay_on_their_pixels_and_go_back_to_the_original(transform):
    sample = painted(BOXES)
    before = sample.image.copy(), sample.instances.boxes.array.copy()
    out = transform(sample, rng(3))
    for at, box in enumerate(out.instances.boxes.array):
        assert box.tolist() == box_of(out.image, 100 + 10 * at)
    back = out.placement.inverse().boxes(out.instances.boxes.array)
    np.testing.assert_allclose(back, sample.instances.boxes.array, atol=1e-4)  # float32 of values below 512: 3e-5
    np.testing.assert_array_equal(sample.image, before[0])
    np.testing.assert_array_equal(sample.instances.boxes.array, before[1])
    assert out.instances.boxes.array.dtype == np.float32 and out.image.dtype == np.uint8


def test_a_chain_of_all_goes_back_too():
    out = painted(BOXES)
    for transform in EXACT:
        out = transform(out, rng(1))
    np.testing.assert_allclose(
        out.placement.inverse().boxes(out.instances.boxes.array), painted(BOXES).instances.boxes.array, atol=1e-3
    )


@pytest.mark.parametrize("interp", ["nearest", "linear", "cubic", "area", "lanczos", "random"])
def test_resize_reaches_the_size_with_every_interpolation(interp):
    out = Resize([33, 47], interp)(painted(BOXES), rng())
    assert out.size == (33, 47)
    scale = np.array([47 / 80, 33 / 60, 47 / 80, 33 / 60])
    np.testing.assert_allclose(out.instances.boxes.array, painted(BOXES).instances.boxes.array * scale, rtol=1e-6)


def test_random_interpolation_draws_several():
    sample = painted(BOXES, seed=0)
    pictures = {Resize(40, "random")(sample, rng(seed)).image.tobytes() for seed in range(30)}
    assert len(pictures) == 5


def test_letterbox_centres_and_fills():
    out = Letterbox(80, fill=(1, 0, 0.5))(painted(BOXES), rng())
    assert out.size == (80, 80)
    assert out.image[0, 0].tolist() == [255, 0, 128] and out.image[79, 79].tolist() == [255, 0, 128]
    assert (out.image[10:70] != [255, 0, 128]).any(axis=2).all()


def test_keep_ratio_respects_the_long_side():
    assert ResizeKeepRatio(120, 1000)(painted(BOXES), rng()).size == (120, 160)
    assert ResizeKeepRatio(120, 140)(painted(BOXES), rng()).size == (105, 140)


def test_flip_and_expand_happen_as_often_as_asked():
    sample = painted(BOXES)
    flips = sum(RandomFlip(0.3)(sample, rng(seed)) is not sample for seed in range(300))
    assert 60 <= flips <= 120  # 90 +- 4 standard deviations of 8
    assert RandomExpand(4.0, 0.0)(sample, rng()) is sample


def test_expand_fills_with_the_mean_that_normalises_to_zero():
    out = RandomExpand(4.0, 1.0)(painted([(0, 0, 80, 60)]), rng())
    assert out.size > (60, 80)
    filled = out.image[(out.image != 100).any(axis=2)]
    assert (filled == [124, 116, 104]).all() and len(filled)


def test_an_iou_crop_keeps_boxes_by_their_centre_and_cuts_them():
    crop = RandomIoUCrop(thresholds=(0.3,), allow_no_crop=False)
    for seed in range(50):
        sample = painted([(5, 10, 60, 50), (62, 4, 78, 24)])
        out = crop(sample, rng(seed))
        assert out is not sample
        _, _, left, top = -np.array(out.placement)
        height, width = out.size
        centres = (sample.instances.boxes.array[:, :2] + sample.instances.boxes.array[:, 2:]) / 2 - [left, top]
        kept = ((centres > 0) & (centres < [width, height])).all(axis=1)
        assert out.instances.classes.tolist() == np.flatnonzero(kept).tolist() and kept.any()
        for label, box in zip(out.instances.classes, out.instances.boxes.array, strict=True):
            assert box.tolist() == box_of(out.image, 100 + 10 * label)
        moved = np.clip(sample.instances.boxes.array - [left, top, left, top], 0, [width, height] * 2)
        overlap = np.prod(moved[:, 2:] - moved[:, :2], axis=1)
        areas = np.prod(sample.instances.boxes.array[:, 2:] - sample.instances.boxes.array[:, :2], axis=1)
        assert (overlap / (areas + height * width - overlap)).max() >= 0.3


def test_iou_crops_have_the_sides_and_shapes_asked_for():
    crop = RandomIoUCrop(thresholds=(0.0,), allow_no_crop=False, scaling=(0.4, 0.8), aspect=(0.5, 2.0))
    sample = painted([(0, 0, 400, 300)], size=(300, 400))
    shares, shapes = [], []
    for seed in range(200):
        height, width = crop(sample, rng(seed)).size
        shares.append(np.sqrt(height * width / (300 * 400)))
        shapes.append((width / 400) / (height / 300))
    # Sides are whole pixels: a crop of 80 pixels is right to 0.5 / 80.
    assert 0.39 < min(shares) < 0.5 and 0.7 < max(shares) < 0.81
    assert 0.49 < min(shapes) < 0.7 and 1.5 < max(shapes) < 2.03


def test_an_iou_crop_leaves_alone_what_it_must():
    empty, sample = painted([]), painted(BOXES)
    assert RandomIoUCrop()(empty, rng()) is empty
    assert RandomIoUCrop(thresholds=())(sample, rng()) is sample
    assert RandomIoUCrop(thresholds=(0.99,), allow_no_crop=False)(sample, rng()) is sample


def test_random_shape_gives_a_batch_one_size_and_visits_all():
    sizes = set()
    for seed in range(60):
        out = RandomShape((64, 96, 128))([painted(BOXES), painted(BOXES, size=(40, 40))], rng(seed))
        assert out[0].size == out[1].size
        sizes.add(out[0].size)
    assert sizes == {(64, 64), (96, 96), (128, 128)}


def test_tiny_boxes_are_dropped():
    out = DropTinyBoxes(5)(painted([(0, 0, 4, 50), (0, 0, 5, 5)]), rng())
    assert out.instances.classes.tolist() == [1]
    assert len(DropTinyBoxes()(painted([]), rng()).instances.boxes) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Resize(0), "Resize: size is 0; it must be one number or"),
        (lambda: Resize([1, 2, 3]), r"size is \[1, 2, 3\]"),
        (lambda: RandomFlip(1.5), r"RandomFlip: prob is 1.5; it must be in \[0, 1\]"),
        (lambda: RandomExpand(0.5), "max_ratio is 0.5; it must be at least 1"),
        (lambda: RandomIoUCrop(scaling=(0.5, 0.2)), r"scaling is \[0.5, 0.2\]; it must be \[low, high\]"),
        (lambda: RandomIoUCrop(scaling=(0.5, 1.2)), "a crop is at most the image"),
        (lambda: RandomShape(()), "sizes is empty"),
        (lambda: ResizeKeepRatio(10, 5), "short is 10 and max_long 5"),
        (lambda: PadToMultiple(0), "multiple is 0"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(AttributeValueError, match=message):
        make()
