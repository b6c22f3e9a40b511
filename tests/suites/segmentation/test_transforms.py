"""Image and labels move together; borders are ignored; predictions find their way back to the image's own pixels."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.segmentation.sample import IGNORE, Sample, labels_to_original
from suites.segmentation.transforms import RandomBlur, RandomCrop, RandomScale, collate, largest_share
from suites.vision.transforms import Letterbox, Normalize, PadToMultiple, RandomFlip, Resize


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
