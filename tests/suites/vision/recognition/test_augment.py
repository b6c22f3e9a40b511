"""RandAugment, random erasing and cutmix: what they promise of pixels and labels, alike for all frames of a clip."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError, DTypeError
from suites.vision.augmentation.covering import RandomErasing
from suites.vision.augmentation.transforms import Normalize
from suites.vision.recognition import augment
from suites.vision.recognition.augment import CutMix, RandAugment
from suites.vision.recognition.sample import LabelledClip, LabelledImage, collate


def rng(seed=0):
    return np.random.default_rng(seed)


def photo(seed=0, size=(24, 32)):
    return LabelledImage.of(rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8), seed % 3, f"photo {seed}")


@pytest.mark.parametrize("change", augment._CHANGES, ids=lambda f: f.__name__)
def test_every_change_keeps_size_and_type_and_without_strength_nearly_all_keep_the_image(change):
    frame = photo().image
    for strength, sign in ((0.0, 1.0), (0.3, -1.0), (1.0, 1.0), (1.0, -1.0)):
        found = change(frame, strength, sign)
        assert found.shape == frame.shape and found.dtype == np.uint8
    if change not in (augment._equalize, augment._auto_contrast):
        np.testing.assert_allclose(change(frame, 0.0, 1.0), frame, atol=1)


def test_changes_do_what_their_names_say():
    frame = photo().image
    assert augment._brightness(frame, 1.0, -1.0).mean() < frame.mean() / 5
    assert augment._contrast(frame, 1.0, -1.0).std() < frame.std() / 5
    grey = augment._colour(frame, 1.0, -1.0).astype(int)
    assert np.abs(grey[..., 0] - grey[..., 2]).mean() < 0.2 * np.abs(frame[..., 0].astype(int) - frame[..., 2]).mean()
    assert set(np.unique(augment._posterize(frame, 1.0, 1.0))) <= set(range(0, 256, 16))
    assert augment._solarize(frame, 1.0, 1.0).tolist() == (255 - frame).tolist()
    assert augment._auto_contrast(np.full((2, 2, 3), 7, np.uint8), 0, 1).tolist() == [[[7] * 3] * 2] * 2
    moved = augment._shift_x(np.full((4, 100, 3), 200, np.uint8), 1.0, 1.0)
    assert (moved[:, :45] == 128).all() and (moved[:, 45:] == 200).all()
    turned = augment._rotate(np.eye(31, dtype=np.uint8)[..., None].repeat(3, 2) * 255, 1.0, 1.0)
    assert turned[15, 15, 0] > 100  # the middle stays


def test_randaugment_depends_on_its_generator_alone_and_changes_all_frames_alike():
    one = photo()
    assert np.array_equal(RandAugment()(one, rng(3)).image, RandAugment()(one, rng(3)).image)
    assert RandAugment(0)(one, rng()).image is one.image
    clip = LabelledClip.of(np.stack([one.image] * 3))
    for seed in range(8):
        frames = RandAugment(2, 15)(clip, rng(seed)).frames
        assert np.array_equal(frames[0], frames[1]) and frames.shape == clip.frames.shape
    with pytest.raises(DTypeError, match="put RandAugment before Normalize"):
        RandAugment()(Normalize()(one, rng()), rng())
    with pytest.raises(AttributeValueError, match="magnitude 31"):
        RandAugment(magnitude=31)


@pytest.mark.parametrize("fill", ["zero", "noise"])
def test_erasing_fills_one_rectangle_of_its_area(fill):
    one = Normalize()(photo(size=(60, 80)), rng())
    for seed in range(10):
        found = RandomErasing(1.0, area=(0.1, 0.2), ratio=(0.5, 2.0), fill=fill)(one, rng(seed)).image
        rows, columns = (np.flatnonzero((found != one.image).any(axis=axes)) for axes in ((1, 2), (0, 2)))
        h, w = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
        assert 0.09 < h * w / 4800 < 0.21 and 0.4 < h / w < 2.2
        part = found[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (part == 0).all() if fill == "zero" else part.std() > 0.5
    assert RandomErasing(0.0)(one, rng()) is one
    assert RandomErasing(1.0, area=(1.0, 1.0), ratio=(100.0, 100.0))(one, rng()).image.shape == (60, 80, 3)
    with pytest.raises(DTypeError, match="put RandomErasing after Normalize"):
        RandomErasing(1.0)(photo(), rng())
    with pytest.raises(AttributeValueError, match="a part is at most the frame"):
        RandomErasing(area=(0.5, 1.5))


def test_cutmix_weighs_labels_by_the_pixels_of_each():
    samples = [LabelledImage.of(np.full((20, 30, 3), k, np.float32), k, f"{k}") for k in range(4)]
    for seed in range(20):
        for k, mixed in enumerate(CutMix()(samples, rng(seed))):
            own, other = mixed.labels
            assert own == k and mixed.weights.sum() == pytest.approx(1)
            share = (mixed.image[..., 0] == k).mean()
            assert share == (1 if other == own else pytest.approx(mixed.weights[0], abs=1e-6))
            assert set(np.unique(mixed.image)) <= {own, other}
        batch = collate(CutMix()(samples, rng(seed)), 4)
        np.testing.assert_allclose(batch["targets"].sum(1), 1, rtol=1e-6)
    assert CutMix(prob=0.0)(samples, rng()) is samples
    with pytest.raises(DataError, match="the batch has samples of 2 sizes"):
        CutMix()([photo(0), photo(1, (10, 10))], rng())
    with pytest.raises(AttributeValueError, match="alpha is 0"):
        CutMix(0)


def test_a_class_that_both_parts_of_a_mixture_have_counts_once():
    sample = LabelledImage(
        image=np.zeros((2, 2, 3), np.float32), labels=np.array([0, 2, 2]), weights=np.ones(3, np.float32)
    )
    assert collate([sample], 3)["targets"].tolist() == [[1, 0, 1]]
