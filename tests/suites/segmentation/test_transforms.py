"""Image and labels move together; borders are ignored; predictions find their way back to the image's own pixels."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.segmentation.sample import IGNORE, Sample, labels_to_original
from suites.segmentation.transforms import (
    ClassMix,
    CutMix,
    LimitLong,
    Mosaic,
    RandomAffine,
    RandomBlur,
    RandomClahe,
    RandomCrop,
    RandomCutOut,
    RandomGamma,
    RandomGray,
    RandomNoise,
    RandomQuarterTurn,
    RandomResizedCrop,
    RandomResizeKeepRatio,
    RandomScale,
    collate,
    largest_share,
)
from suites.vision.augmentation.transforms import Letterbox, Normalize, PadToMultiple, RandomFlip, Resize


def blocks(size=(24, 32), cell=8):
    """A sample of flat blocks; the image's red is 10 times the label."""
    rows, columns = np.mgrid[: size[0], : size[1]] // cell
    labels = (rows * (size[1] // cell) + columns).astype(np.uint8)
    return Sample(image=np.dstack([labels * 10, labels, labels]), labels=labels)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "transform",
    [
        RandomScale(2.0, 2.0), RandomScale(0.5, 0.5), RandomCrop((20, 28)), RandomFlip(1.0),
        RandomFlip(1.0, "vertical"), Resize((48, 96), interp="nearest"), Letterbox(40, interp="nearest"),
        PadToMultiple(20), RandomCrop(40),
    ],
    ids=lambda t: type(t).__name__,
)  # fmt: skip
def test_labels_go_where_the_pixels_go(transform):
    out = transform(blocks(), rng())
    kept = out.labels != IGNORE
    assert kept.any() and out.labels.shape == out.image.shape[:2]
    # Interpolation mixes colours at the edges of blocks only; there half a block's width is left out.
    same = out.image[..., 0] == out.labels * 10
    assert same[kept].mean() >= (0.7 if isinstance(transform, RandomScale) else 1.0)
    assert (out.image[~kept] == out.image[~kept][:1]).all()  # the border has one colour


def smooth(size=(96, 128)):
    """A sample whose red is twice its label, which grows evenly: interpolation moves both alike, to half a label."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    labels = (rows + columns) // 2
    return Sample(image=np.dstack([rows + columns] * 3).astype(np.uint8), labels=labels.astype(np.uint8))


@pytest.mark.parametrize(
    "transform",
    [RandomAffine(1.0, 30, 0.2, 0.2, (0.7, 1.4), fill=(1, 1, 1)), RandomAffine(1.0, 180), RandomQuarterTurn(),
     RandomResizedCrop(64, (0.2, 1.0)), RandomResizeKeepRatio(40, 200), LimitLong(50), LimitLong(500)],
    ids=lambda t: type(t).__name__,
)  # fmt: skip
def test_labels_stay_under_their_pixels_in_moves_of_all_kinds(transform):
    for seed in range(20):
        out = transform(smooth(), rng(seed))
        assert out.labels.shape == out.image.shape[:2]
        inside = out.labels != IGNORE
        # The pixel is at most half a pixel of the input from the nearest one, along both axes: 1 of red, 2 in the sum;
        # shrinking averages over pixels, which on a plane is the value at the middle.
        away = np.abs(out.image[..., 0].astype(int) - 2.0 * out.labels - 0.5)[inside]
        grown = max(96 / out.size[0], 128 / out.size[1], 1.0)
        mixed = (away > 2.5 * grown).mean()
        edge = 0.06  # where a turn mixes the picture with the border's colour
        assert inside.mean() > 0.3 and mixed < edge, (seed, mixed)


def test_a_turn_ignores_what_comes_from_outside_and_only_that():
    outside = RandomAffine(1.0, 45, fill=(0, 0, 0))
    sample = Sample(image=np.full((64, 64, 3), 200, np.uint8), labels=np.ones((64, 64), np.uint8))
    for seed in range(10):
        out = outside(sample, rng(seed))
        assert (out.labels[out.image[..., 0] == 0] == IGNORE).all()
        assert (out.image[out.labels == 1, 0] >= 99).all()  # at least half of the pixel is the picture's


def test_a_quarter_turn_is_exact_and_every_turn_is_drawn():
    sample = blocks()
    shapes, turns = set(), set()
    for seed in range(40):
        out = RandomQuarterTurn()(sample, rng(seed))
        np.testing.assert_array_equal(out.image[..., 0], out.labels * 10)
        shapes.add(out.size)
        turns.add(int(out.labels[0, 0]))
    assert shapes == {(24, 32), (32, 24)} and len(turns) == 4


@pytest.mark.parametrize(
    "transform", [RandomNoise(1.0), RandomGamma(1.0), RandomClahe(1.0), RandomGray(1.0)], ids=lambda t: type(t).__name__
)
def test_colours_change_and_labels_do_not(transform):
    sample = Sample(image=rng().integers(0, 256, (64, 64, 3), np.uint8), labels=np.zeros((64, 64), np.uint8))
    out = transform(sample, rng(1))
    assert out.labels is sample.labels and out.image.dtype == np.uint8 and out.image.shape == sample.image.shape
    assert (out.image != sample.image).any()
    never = type(transform)(0.0)
    assert never(sample, rng(1)).image is sample.image


def test_gamma_is_a_power_of_the_share_of_white():
    sample = Sample(image=np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2), labels=np.zeros((16, 16)))
    out = RandomGamma(1.0, (2.0, 2.0))(sample, rng())
    expected = 255 * (sample.image / 255.0) ** 2
    assert np.abs(out.image - expected).max() <= 0.5


def test_gray_has_three_equal_channels_and_noise_its_width():
    image = rng().integers(0, 256, (64, 64, 3), np.uint8)
    gray = RandomGray(1.0)(Sample(image=image, labels=np.zeros((64, 64), np.uint8)), rng()).image
    assert (gray == gray[..., :1]).all()
    flat = Sample(image=np.full((256, 256, 3), 128, np.uint8), labels=np.zeros((256, 256), np.uint8))
    widths = [RandomNoise(1.0, 10.0)(flat, rng(seed)).image.std() for seed in range(20)]
    assert max(widths) < 10.2 and min(widths) < 3


def test_nothing_is_learnt_in_a_hole():
    sample = blocks((96, 128))
    for seed in range(10):
        out = RandomCutOut(1.0, 3, (0.1, 0.3))(sample, rng(seed))
        hidden = out.labels == IGNORE
        assert 0.005 < hidden.mean() < 0.3
        np.testing.assert_array_equal(out.image[~hidden], sample.image[~hidden])
        assert len(np.unique(out.image[hidden], axis=0)) == 1
    assert (sample.labels != IGNORE).all()  # the given one is as it was


def coloured(count=4, size=(32, 40)):
    """Samples whose red tells the label, of 4 classes each; void along the top."""
    found = []
    for seed in range(count):
        labels = rng(seed).integers(0, 4, size).astype(np.uint8) + 4 * seed
        image = np.dstack([labels * 10] * 3)
        labels[:2] = IGNORE
        found.append(Sample(image=image, labels=labels, image_id=seed))
    return found


@pytest.mark.parametrize("mix", [ClassMix(1.0), CutMix(1.0), Mosaic(1.0)], ids=lambda t: type(t).__name__)
def test_mixtures_take_pixels_with_their_labels(mix):
    samples = coloured()
    others = 0
    for seed in range(10):
        for before, after in zip(samples, mix(samples, rng(seed)), strict=True):
            assert after.size == before.size and after.image_id == before.image_id
            kept = after.labels != IGNORE
            if not isinstance(mix, Mosaic):  # which interpolates
                np.testing.assert_array_equal(after.image[kept, 0], after.labels[kept] * 10)
            others += len(np.unique(after.labels[kept] // 4)) > 1
    assert others > 20
    assert mix.__class__(0.0)(samples, rng())[0] is samples[0]
    with pytest.raises(DataError, match=r"the batch has images of 2 sizes; end the transforms with RandomCrop"):
        mix([*samples, blocks()], rng())


def test_a_mosaic_has_four_parts_around_a_point():
    samples = [
        Sample(image=np.full((32, 40, 3), 50 * n, np.uint8), labels=np.full((32, 40), n, np.uint8)) for n in range(5)
    ]
    for at, out in enumerate(Mosaic(1.0)(samples, rng(3))):
        np.testing.assert_array_equal(out.image[..., 0], out.labels * 50)
        corners = [out.labels[0, 0], out.labels[0, -1], out.labels[-1, 0], out.labels[-1, -1]]
        assert corners[0] == at
        assert (out.labels == at).mean() >= 0.25 * 0.25 - 1e-9


@pytest.mark.parametrize(
    "transforms",
    [[RandomScale(2.0, 2.0)], [RandomFlip(1.0)], [Letterbox(64), RandomFlip(1.0, "vertical")], [PadToMultiple(20)],
     [Resize((48, 96)), PadToMultiple(50), RandomFlip(1.0)]],
)  # fmt: skip
def test_labels_of_the_input_come_back_to_the_original_pixels(transforms):
    sample = blocks()
    out = sample
    for transform in transforms:
        out = transform(out, rng())
    np.testing.assert_array_equal(labels_to_original(out.labels, out.placement, sample.size), sample.labels)


def test_what_a_crop_cut_off_is_unknown():
    sample = blocks()
    out = sample.cropped((8, 8), 8, 16)
    back = labels_to_original(out.labels, out.placement, sample.size)
    np.testing.assert_array_equal(back[8:16, 16:24], sample.labels[8:16, 16:24])
    assert (back == IGNORE).sum() == back.size - 64


def test_truth_stays_the_files_label_map():
    sample = blocks()
    out = RandomCrop(8)(RandomScale(0.5, 2.0)(sample, rng()), rng())
    assert out.truth is sample.labels


def test_scales_are_drawn_in_steps():
    widths = {RandomScale(0.5, 2.0, step=0.25)(blocks(), rng(seed)).size[1] for seed in range(60)}
    assert widths == {int(32 * f) for f in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)}


def test_a_crop_of_mostly_one_class_is_drawn_again():
    labels = np.zeros((16, 64), np.uint8)
    labels[:, 60:] = 1
    sample = Sample(image=np.zeros((16, 64, 3), np.uint8), labels=labels)

    def mixed(crop):
        return np.mean([largest_share(crop(sample, rng(seed)).labels) < 0.9 for seed in range(50)])

    assert mixed(RandomCrop(16, max_share=0.9)) > 2 * mixed(RandomCrop(16))


def test_the_largest_share_counts_labelled_pixels_only():
    assert largest_share(np.array([0, 0, 1, 255, 255])) == pytest.approx(2 / 3)
    assert largest_share(np.array([255, 255])) == 1.0


def test_blur_leaves_labels_and_mean_colour():
    sample = Sample(image=rng().integers(0, 256, (32, 32, 3), np.uint8), labels=np.zeros((32, 32), np.uint8))
    out = RandomBlur(1.0, 2.0)(sample, rng())
    assert out.image.std() < sample.image.std() and abs(out.image.mean() - sample.image.mean()) < 2
    assert out.labels is sample.labels


def test_a_batch_has_int32_labels_and_the_truth_of_each_file():
    sample = Normalize()(RandomCrop(40)(blocks(), rng()), rng())
    batch = collate([sample, sample])
    assert (batch["images"].shape, batch["images"].dtype) == ((2, 40, 40, 3), np.float32)
    assert (batch["labels"].shape, batch["labels"].dtype) == ((2, 40, 40), np.int32)
    assert batch["labels"].max() == IGNORE and [t.shape for t in batch["truth"]] == [(24, 32)] * 2


def test_a_batch_of_two_sizes_says_what_to_do():
    with pytest.raises(DataError, match=r"collate: image 0 .*\[16, 16, 3\].*\[24, 32, 3\]; end the transforms"):
        collate([blocks(), blocks((16, 16))])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: RandomScale(2.0, 0.5), r"RandomScale: low and high is \[2\.0, 0\.5\]"),
        (lambda: RandomScale(step=-1), "step is -1; it must be 0 or more"),
        (lambda: RandomCrop(0), "RandomCrop: size is 0"),
        (lambda: RandomCrop(8, max_share=0), "max_share is 0; it must be above 0"),
        (lambda: RandomBlur(prob=2), "RandomBlur: prob is 2"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([(120, 160)] * 3, (128, 160)), ([(640, 480)] * 2, (320, 320)),
        ([(120, 160), (640, 480), (100, 100)], (128, 160)),
        ([(60, 900)], (64, 320)), ([(0, 0), (90, 33)], (96, 64)), ([(0, 0)], (320, 320)), ([], (320, 320)),
    ],
)  # fmt: skip
def test_crops_are_no_larger_than_the_middle_image(sizes, wanted):
    known = np.array(sizes, np.int64).reshape(-1, 2)
    crop = RandomCrop(320, shrink=True).for_sizes(lambda: known)
    assert crop(blocks((480, 480), 40), rng()).size == wanted


def test_crops_of_a_fixed_size_ask_no_sizes():
    crop = RandomCrop(320)
    assert crop.for_sizes(lambda: 1 / 0) is crop
