"""Augmented gives the same sample for the same generator; collate pads boxes and leaves crowds out."""

import numpy as np
import pytest

from framework.data import DataLoader
from framework.errors import DataError
from suites.detection.datasets import DigitScenes
from suites.detection.transforms import (
    Augmented,
    ColorDistort,
    Each,
    Mixup,
    Normalize,
    RandomExpand,
    RandomFlip,
    RandomIoUCrop,
    RandomShape,
    Resize,
    collate,
)
from suites.vision.geometry import Placement
from tests.suites.detection.transforms.helpers import painted


@pytest.fixture(scope="module")
def scenes():
    return DigitScenes("train", 12, size=96, max_side=60)


def recipe():
    return [Mixup(), ColorDistort(), RandomExpand(), RandomIoUCrop(), RandomFlip(), Resize(64, "random")]


def test_the_same_generator_gives_the_same_sample_and_another_another(scenes):
    data = Augmented(scenes, recipe())
    first, again, other = (data.sample(3, np.random.default_rng(seed)) for seed in (8, 8, 9))
    np.testing.assert_array_equal(first.image, again.image)
    np.testing.assert_array_equal(first.instances.boxes.array, again.instances.boxes.array)
    assert not np.array_equal(first.image, other.image)


def test_the_whole_recipe_keeps_boxes_inside_the_image(scenes):
    data = Augmented(scenes, recipe())
    for seed in range(60):
        sample = data.sample(seed % 12, np.random.default_rng(seed))
        assert sample.size == (64, 64)
        assert len(sample.instances.boxes.array) == len(sample.instances.classes) == len(sample.instances.scores)
        assert (sample.instances.boxes.array >= 0).all() and (sample.instances.boxes.array <= 64).all()
        assert (sample.instances.boxes.array[:, 2:] > sample.instances.boxes.array[:, :2]).all()


def test_a_drawn_sample_went_through_the_earlier_transforms(scenes):
    data = Augmented(scenes, [Resize(32), Mixup()])
    assert data.sample(0, np.random.default_rng(0)).size == (32, 32)  # both had 96 before


def test_collate_pads_boxes_and_leaves_crowds_out():
    crowded = painted([(0, 0, 10, 10), (5, 5, 9, 9)])
    crowded.instances.crowd[0] = True
    batch = collate([painted([(1, 2, 3, 4)] * 15), crowded, painted([])])
    assert batch["images"].shape == (3, 60, 80, 3) and batch["images"].dtype == np.uint8
    assert batch["boxes"].shape == (3, 16, 4) and batch["boxes"].dtype == np.float32
    assert batch["counts"].tolist() == [15, 1, 0]
    assert batch["classes"][1].tolist() == [1] + [0] * 15
    assert batch["scores"][1].tolist() == [1] + [0] * 15
    assert not batch["boxes"][2].any()
    assert batch["image_ids"].tolist() == [5, 5, 5]
    assert batch["original_sizes"].tolist() == [[60, 80]] * 3
    assert collate([painted([])])["boxes"].shape == (1, 16, 4)
    assert collate([crowded, painted([(1, 2, 3, 4)] * 3)], multiple=2)["boxes"].shape == (2, 4, 4)


def test_images_of_different_size_are_padded_where_a_network_takes_them():
    samples = [painted([(1, 2, 3, 4)], size=(30, 50)), painted([], size=(40, 20))]
    batch = collate(samples, padded_to=32)
    assert batch["images"].shape == (2, 64, 64, 3) and batch["sizes"].tolist() == [[30, 50], [40, 20]]
    with pytest.raises(DataError, match="end the transforms with Resize"):
        collate(samples)


def test_a_batch_says_how_to_map_predictions_back():
    sample = Resize([30, 20])(painted([(8, 6, 40, 30)]), np.random.default_rng())
    batch = collate([sample])
    back = Placement(*batch["placements"][0]).inverse().boxes(batch["boxes"][0, :1])
    np.testing.assert_allclose(back, [[8, 6, 40, 30]], atol=1e-5)


def test_images_of_different_sizes_are_named():
    with pytest.raises(DataError, match=r"image 5 is uint8 \[50, 80, 3\] but the first of the batch is uint8 \[60, 80"):
        collate([painted([]), painted([], size=(50, 80))])


def test_the_loader_gives_the_same_batches_with_and_without_workers(scenes):
    def batches(workers):
        with DataLoader(
            Augmented(scenes, recipe()),
            4,
            shuffle=True,
            seed=3,
            workers=workers,
            batch_transforms=[RandomShape((32, 64)), Each(Normalize())],
            collate=collate,
        ) as loader:
            return [{name: np.array(value) for name, value in batch.items()} for batch in loader]

    alone, helped = batches(0), batches(1)
    assert len(alone) == 3
    for mine, theirs in zip(alone, helped, strict=True):
        assert mine["images"].dtype == np.float32
        for name, value in mine.items():
            np.testing.assert_array_equal(value, theirs[name])
