"""Recognition's transforms: what they promise of size and place, and that all frames of a clip change alike."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError, DataError, DTypeError
from suites.vision.augmentation.transforms import (
    ColorDistort,
    Letterbox,
    Normalize,
    PadToMultiple,
    RandomFlip,
    Resize,
    ResizeKeepRatio,
)
from suites.vision.recognition.sample import LabelledClip, LabelledImage, collate
from suites.vision.recognition.transforms import (
    TRANSFORMS,
    CenterCrop,
    JpegCompression,
    Mixup,
    MultiScaleCrop,
    RandomResizedCrop,
    ResizeShort,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def clip(frames=3, height=40, width=60, label=1):
    """Three equal frames, each pixel its column and row."""
    image = np.zeros((height, width, 3), np.uint8)
    image[..., 0] = np.arange(width)[None]
    image[..., 1] = np.arange(height)[:, None]
    return LabelledClip.of(np.repeat(image[None], frames, 0), label, "a clip")


@pytest.mark.parametrize(
    ("transform", "size"),
    [
        (Resize(32), (32, 32)),
        (Resize([20, 80]), (20, 80)),
        (ResizeShort(20), (20, 30)),
        (ResizeShort(80), (80, 120)),
        (CenterCrop([32, 48]), (32, 48)),
        (RandomResizedCrop(32), (32, 32)),
        (MultiScaleCrop(24), (24, 24)),
        (RandomFlip(prob=1.0), (40, 60)),
        (ColorDistort(prob=1.0), (40, 60)),
        (Letterbox(64), (64, 64)),
        (PadToMultiple(32), (64, 64)),
        (ResizeKeepRatio(20, 100), (20, 30)),
        (JpegCompression(), (40, 60)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_frame_changes_alike_to_the_size_asked_for(transform, size):
    before = clip()
    kept = before.frames.copy()
    for seed in range(5):
        after = transform(before, rng(seed))
        assert after.frames.shape == (3, *size, 3) and after.frames.dtype == np.uint8
        assert (after.frames == after.frames[:1]).all()
    np.testing.assert_array_equal(before.frames, kept)


def test_the_centre_crop_is_the_middle():
    frames = CenterCrop(20)(clip(), rng()).frames
    assert frames[0, 0, 0].tolist() == [20, 10, 0] and frames[0, -1, -1].tolist() == [39, 29, 0]


def test_a_crop_larger_than_the_frames_names_the_sample():
    with pytest.raises(DataError, match=r"CenterCrop: a clip is 40x60 .* smaller than the crop 64x64; put ResizeShort"):
        CenterCrop(64)(clip(), rng())


def test_random_parts_have_areas_and_shapes_in_range():
    crop = RandomResizedCrop(32, scale=(0.25, 0.5), ratio=(0.5, 2.0))
    parts = [crop._draw(100, 200, rng(seed)) for seed in range(200)]
    assert all(top >= 0 and left >= 0 and top + h <= 100 and left + w <= 200 for top, left, h, w in parts)
    areas = np.array([h * w / 20000 for _, _, h, w in parts])
    assert areas.min() > 0.24 and areas.max() < 0.51 and np.ptp(areas) > 0.2  # sides are rounded to pixels
    ratios = np.array([w / h for _, _, h, w in parts])
    assert ratios.min() > 0.48 and ratios.max() < 2.06


def test_a_frame_that_allows_no_part_gives_its_middle():
    assert RandomResizedCrop(8, scale=(1, 1))._draw(10, 100, rng()) == (0, 43, 10, 13)


def test_multi_scale_crops_come_from_corners_too():
    crop = MultiScaleCrop(20, scales=(0.5,))
    corners = {tuple(crop(clip(), rng(seed)).frames[0, 0, 0, :2].tolist()) for seed in range(200)}
    assert len(corners) == 13 and {(0, 0), (40, 0), (0, 20), (40, 20), (20, 10)} <= corners


def test_a_mirror_swaps_the_classes_that_it_turns_into_each_other():
    flip = RandomFlip(prob=1.0, swap=[("left", "right")]).for_classes(["up", "left", "right"])
    once = flip(clip(label=1), rng())
    assert once.labels.tolist() == [2] and once.frames[0, 0, 0].tolist() == [59, 0, 0]
    assert flip(once, rng()).labels.tolist() == [1]
    assert flip(clip(label=0), rng()).labels.tolist() == [0]


def test_pairs_of_another_set_are_an_error_and_never_swap_other_classes():
    flip = RandomFlip(prob=1.0, swap=[("left", "right")])
    with pytest.raises(ConfigError, match="the class 'right', which the set does not have; did you mean 'rght'"):
        flip.for_classes(["left", "rght"])
    with pytest.raises(ConfigError, match="swap names classes, so it needs a set"):
        flip(clip(), rng())


def test_normalize_gives_float32_once():
    done = Normalize(mean=(0, 0.5, 1), std=(1, 0.5, 0.25))(clip(), rng())
    assert done.frames.dtype == np.float32
    np.testing.assert_allclose(done.frames[0, 10, 20], [20 / 255, (10 / 255 - 0.5) / 0.5, -4], rtol=1e-5)
    with pytest.raises(DTypeError, match="it takes uint8, so use it once"):
        Normalize()(done, rng())
    with pytest.raises(DTypeError, match="put ColorDistort before Normalize"):
        ColorDistort()(done, rng())


def test_mixup_keeps_the_sum_of_frames_and_of_labels():
    samples = [Normalize()(clip(label=k), rng()) for k in range(4)]
    mixed = Mixup(alpha=1.0)(samples, rng())
    batch = collate(mixed, 4)
    np.testing.assert_allclose(batch["targets"].sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(batch["targets"].sum(axis=0), 1, rtol=1e-6)
    assert (batch["targets"] < 1).any() and batch["labels"].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(batch["clips"][0], samples[0].frames, atol=1e-5)  # all four clips look alike


def test_mixup_says_what_it_needs():
    with pytest.raises(DataError, match="Mixup: a clip has uint8 pixels; it takes float32, put Normalize"):
        Mixup()([clip()], rng())
    small = Normalize()(Resize(8)(clip(), rng()), rng())
    mixed = [Normalize()(clip(), rng()), small]
    with pytest.raises(DataError, match=r"Mixup: a clip is \[3, .*end the transforms with a crop or Resize"):
        for seed in range(8):  # until one of the two is drawn for the other
            Mixup()(mixed, rng(seed))


def test_a_batch_of_different_sizes_names_the_sample():
    with pytest.raises(DataError, match=r"collate: a clip is uint8 \[3, 8, 8, 3\] but the first .* \[3, 40"):
        collate([clip(), Resize(8)(clip(), rng())], 2)


def test_a_batch_of_images_has_no_axis_of_frames():
    batch = collate([LabelledImage.of(clip(frames=1).frames[0], 2, "an image")], 3)
    assert batch["images"].shape == (1, 40, 60, 3) and batch["targets"].tolist() == [[0, 0, 1]]
    assert batch["name"] == ["an image"]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Resize(0), "Resize: size is 0"),
        (lambda: RandomResizedCrop(8, scale=(0.5, 2)), "scale is .0.5, 2.; a part is at most the frame"),
        (lambda: MultiScaleCrop(8, scales=(1.5,)), r"scales lie in \(0, 1\]"),
        (lambda: RandomFlip(prob=2), "RandomFlip: prob is 2"),
        (lambda: Mixup(alpha=0), "alpha is 0; it must be above 0"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


def test_both_suites_offer_the_same_transforms():
    from suites.engine.registry import REGISTRY, load_suites

    load_suites(["classification", "video"])
    wanted = sorted(t.__name__ for t in TRANSFORMS)
    assert REGISTRY.seen_by("classification").names("transform") == wanted
    of_videos = ["FrameDifferences", "SampleRows", "TenCrop", "ThreeCrop"]  # of frames in a row, sequences, crops
    assert REGISTRY.seen_by("video").names("transform") == sorted([*wanted, *of_videos])


def test_a_jpeg_of_more_quality_is_nearer_to_the_frames():
    noise = np.random.default_rng(0).integers(0, 256, (1, 40, 60, 3), np.uint8)
    sample = LabelledClip.of(noise, 1, "a clip")
    off = [
        np.abs(JpegCompression(quality)(sample, rng()).frames.astype(int) - noise).mean() for quality in (10, 75, 100)
    ]
    assert off[0] > off[1] > off[2] > 0


def test_a_jpeg_is_made_of_bytes_and_a_quality_of_at_most_100():
    with pytest.raises(AttributeValueError, match="JpegCompression: quality is 101; it must be 1 to 100"):
        JpegCompression(101)
    with pytest.raises(DataError, match="JpegCompression: a clip has float32 pixels; put it before Normalize"):
        JpegCompression()(Normalize()(clip(), rng()), rng())
