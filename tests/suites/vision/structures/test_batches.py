"""Pictures and sequences of different size share a batch without losing their size."""

import numpy as np
import pytest

from framework.errors import DataError, ShapeError
from suites.vision.structures import Features, ImageList, ragged


def test_pictures_lie_at_the_top_left_and_keep_their_sizes():
    one, two = np.full((3, 5, 3), 7, np.uint8), np.full((6, 2, 3), 9, np.uint8)
    batch = ImageList.of([one, two], multiple=4)
    assert batch.images.shape == (2, 8, 8, 3) and batch.images.dtype == np.uint8
    assert batch.sizes.tolist() == [[3, 5], [6, 2]]
    assert (batch.images[0, :3, :5] == 7).all() and batch.images[0].sum() == one.sum()
    assert (batch.images[1, :6, :2] == 9).all() and batch.images[1].sum() == two.sum()


def test_pictures_of_one_size_are_stacked_as_they_are():
    pictures = [np.random.default_rng(i).random((4, 8, 3), np.float32) for i in range(3)]
    np.testing.assert_array_equal(ImageList.of(pictures, 4).images, np.stack(pictures))


def test_pictures_of_different_type_are_refused():
    with pytest.raises(DataError, match="the pictures of a batch are float32 and uint8"):
        ImageList.of([np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1, 3), np.float32)])


def test_sequences_of_vectors_are_joined_without_padding():
    first, second = (Features({"rgb": np.full((t, 3), t), "audio": np.full((t, 2), -t)}) for t in (2, 5))
    batch = ragged([first, second])
    assert batch["offsets"].tolist() == [0, 2, 7] and batch["rgb"].shape == (7, 3) and batch["audio"].shape == (7, 2)
    assert len(second[1:3]) == 2
    with pytest.raises(DataError, match="sequence 1 has rgb, the first rgb, audio"):
        ragged([first, Features({"rgb": np.zeros((1, 3))})])


def test_sequences_of_one_thing_have_one_length():
    with pytest.raises(ShapeError, match="differ in length"):
        Features({"rgb": np.zeros((2, 3)), "audio": np.zeros((3, 3))})
    with pytest.raises(ShapeError, match=r"each must be \[T, D\]"):
        Features({"rgb": np.zeros(3)})
