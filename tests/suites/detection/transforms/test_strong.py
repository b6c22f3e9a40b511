"""Strong augmentation: boxes stay with their objects through affine maps and cutmix; covers hide pixels only."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DTypeError
from suites.detection.sample import Sample
from suites.detection.transforms import AutoAugment, CutMix, GridMask, Normalize, RandomAffine, RandomErasing
from suites.detection.transforms.auto_augment import POLICY
from suites.vision.augmentation.pipeline import Augmented
from suites.vision.structures import Boxes, Instances, Masks

SIZE = (60, 80)


def rng(seed=0):
    return np.random.default_rng(seed)


def blob(box, colour=255, size=SIZE, masks=False):
    """A black image with one filled box."""
    image = np.zeros((*size, 3), np.uint8)
    x1, y1, x2, y2 = box
    image[y1:y2, x1:x2] = colour
    shape = Masks.of_bitmaps((image[..., 0] > 0)[None]) if masks else None
    return Sample(image=image, instances=Instances(Boxes(np.array([box], np.float32)), np.array([1]), masks=shape))


def lit(image, threshold=100):
    """The least box around bright pixels."""
    rows, columns = np.nonzero(image.max(axis=2) > threshold)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


def test_an_affine_map_takes_boxes_along_with_their_pixels():
    sample = blob((30, 20, 50, 36))
    shift = sample.warped(np.array([[1.0, 0, 7], [0, 1, -4]]), (0, 0, 0))
    np.testing.assert_array_equal(shift.instances.boxes.array, [[37, 16, 57, 32]])
    np.testing.assert_array_equal(lit(shift.image), [37, 16, 57, 32])
    for seed in range(20):
        moved = RandomAffine(1.0, 25, 0.1, 0.05, (0.7, 1.3), fill=(0, 0, 0))(sample, rng(seed))
        box = moved.instances.boxes.array[0]
        # The box around four turned corners touches the turned rectangle; interpolation blurs half a pixel.
        np.testing.assert_allclose(box, lit(moved.image), atol=1.5)


def test_with_masks_the_box_is_that_of_the_mask():
    disc = np.hypot(*(np.mgrid[: SIZE[0], : SIZE[1]] - np.array([30, 40])[:, None, None])) < 15
    image = np.repeat(disc[..., None] * np.uint8(255), 3, axis=2)
    masks = Masks.of_bitmaps(disc[None])
    sample = Sample(image=image, instances=Instances(masks.boxes(), np.array([0]), masks=masks))
    turned = RandomAffine(1.0, 45, fill=(0, 0, 0))(sample, rng(1))
    np.testing.assert_allclose(turned.instances.boxes.array, sample.instances.boxes.array, atol=1)  # a disc stays
    found = turned.instances.masks.bitmaps()[0]
    assert (found == (turned.image[..., 0] > 127)).mean() > 0.99


def test_objects_that_leave_the_image_go():
    sample = blob((70, 20, 80, 36), masks=True)
    assert not len(sample.warped(np.array([[1.0, 0, 40], [0, 1, 0]]), (0, 0, 0)).instances)
    half = sample.warped(np.array([[1.0, 0, 4], [0, 1, 0]]), (0, 0, 0)).instances
    np.testing.assert_array_equal(half.boxes.array, [[74, 20, 80, 36]])
    empty = Sample(image=sample.image)
    assert not len(RandomAffine(1.0)(empty, rng()).instances)


def test_keypoints_move_with_the_image():
    points = np.array([[[10.5, 20.5, 2]]], np.float32)
    sample = Sample(
        image=np.zeros((*SIZE, 3), np.uint8),
        instances=Instances(Boxes(np.array([[5, 15, 16, 26]], np.float32)), np.array([0]), keypoints=points),
    )
    moved = sample.warped(np.array([[0.0, -1, 50], [1, 0, 3]]), (0, 0, 0))  # pixel (10, 20) becomes (30, 13)
    np.testing.assert_allclose(moved.instances.keypoints, [[[30.5, 13.5, 2]]])


class Two:
    """A data set of two samples."""

    def __init__(self, *samples):
        self._samples = samples

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, index):
        return self._samples[index]

    def name_of(self, index):
        return str(index)


def test_cutmix_keeps_what_is_in_sight_of_both():
    left, right = blob((2, 5, 38, 55), 100), blob((42, 5, 78, 55), 250)
    both = Augmented(Two(left, right), [CutMix(prob=1.0, least_seen=0.2)])
    seen = set()
    for seed in range(60):
        mixed = both.sample(seed % 2, rng(seed))
        for box, _ in zip(mixed.instances.boxes.array, mixed.instances.classes, strict=True):
            x1, y1, x2, y2 = np.rint(box).astype(int)
            inside = mixed.image[y1:y2, x1:x2].max(axis=2)
            assert (inside > 0).mean() > 0.2
            seen.add(int(inside.max()))
        parts = [mixed.image.max(axis=2) == colour for colour in (100, 250)]
        # An object of which half or more is in sight has its box.
        assert len(mixed.instances) >= sum(part.sum() > 0.5 * 36 * 50 for part in parts)
    assert seen == {100, 250}


def test_cutmix_cuts_a_box_where_a_whole_side_is_covered():
    transform = CutMix()
    boxes = Instances(Boxes(np.array([[10, 10, 50, 30], [0, 0, 8, 8], [12, 12, 20, 20]], np.float32)), np.arange(3))
    kept = transform._outside(boxes, np.array([30, 0, 80, 40], np.float32))
    np.testing.assert_array_equal(kept.boxes.array, [[10, 10, 30, 30], [0, 0, 8, 8], [12, 12, 20, 20]])
    kept = transform._outside(boxes, np.array([10, 10, 80, 40], np.float32))
    np.testing.assert_array_equal(kept.classes, [1])


def test_a_grid_covers_the_share_of_the_paper_and_no_label():
    sample = Sample(image=np.full((400, 600, 3), 200, np.uint8), instances=blob((2, 5, 38, 55)).instances)
    covered = []
    for seed in range(30):
        found = GridMask((40, 80), 0.6, prob=1.0, fill=(0, 0, 0))(sample, rng(seed))
        assert found.instances is sample.instances
        assert set(np.unique(found.image)) == {0, 200}
        covered.append((found.image == 0).mean())
    assert np.mean(covered) == pytest.approx(0.16, abs=0.02)  # (1 - 0.6)^2
    assert GridMask(prob=0.0)(sample, rng()) is sample
    with pytest.raises(DTypeError, match="put GridMask before Normalize"):
        GridMask()(Normalize()(sample, rng()), rng())


def test_a_rectangle_is_erased_of_a_detection_sample_too():
    sample = Normalize()(blob((2, 5, 38, 55)), rng())
    erased = RandomErasing(1.0)(sample, rng(3))
    assert (erased.image != sample.image).any() and erased.instances is sample.instances


def changes():
    found = {change.__name__: (change, level / 10) for pair in POLICY for change, _, level in pair}
    return [pytest.param(*value, id=name) for name, value in sorted(found.items())]


@pytest.mark.parametrize(("change", "strength"), changes())
def test_every_change_of_the_policy_keeps_boxes_on_their_objects(change, strength):
    sample = blob((150, 100, 220, 180), 255, size=(300, 400))
    for seed in range(6):
        found = change(sample, strength, rng(seed))
        assert found.image.dtype == np.uint8 and found.image.shape == sample.image.shape
        if change.__name__ in ("_cover", "_shift_y_in_boxes"):
            np.testing.assert_array_equal(found.instances.boxes.array, sample.instances.boxes.array)
        else:
            np.testing.assert_allclose(found.instances.boxes.array[0], lit(found.image, 200), atol=2)


def test_what_is_in_a_box_moves_and_the_rest_stays():
    sample = blob((10, 20, 30, 50))
    change = next(change for change, _, _ in POLICY[3] if change.__name__ == "_shift_y_in_boxes")
    moved = [change(sample, 0.1, rng(seed)).image for seed in range(30)]
    outside = np.ones(SIZE, bool)
    outside[20:50, 10:30] = False
    assert all((image[outside] == sample.image[outside]).all() for image in moved)
    grey = [int((image[20:50, 10, 0] == 128).sum()) for image in moved]  # 12 rows, in one of three draws
    assert set(grey) == {0, 12} and 3 <= grey.count(12) <= 17


def test_auto_augment_draws_by_its_probability_and_refuses_what_is_normalised():
    sample = blob((10, 20, 30, 50))
    assert AutoAugment(0.0)(sample, rng()) is sample
    changed = [AutoAugment()(sample, rng(seed)) for seed in range(40)]
    assert 10 < sum((one.image != sample.image).any() for one in changed) < 40
    with pytest.raises(DTypeError, match="put AutoAugment before Normalize"):
        AutoAugment()(Normalize()(sample, rng()), rng())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: GridMask(kept=1.0), "kept is 1.0; it must lie between"),
        (lambda: GridMask((1, 5)), "unit"),
        (lambda: CutMix(alpha=0), "alpha is 0"),
        (lambda: CutMix(least_seen=0), "least_seen 0"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
