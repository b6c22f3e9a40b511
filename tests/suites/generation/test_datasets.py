"""Data sets of generation: folders, classes, two kinds, pairs, and what is wrong with them."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.generation import PairedFolders, PictureFolder, SideBySide, TwoFolders
from suites.generation.datasets.base import Unpaired, Whole
from suites.generation.sample import to_array, to_picture
from suites.vision.augmentation.transforms import RandomFlip
from tests.suites.generation.helpers import one_kind, pairs, picture, two_kinds


def test_a_folder_of_classes_has_their_names_and_loose_pictures_are_refused(tmp_path):
    one_kind(tmp_path, classes=("rose", "aster"))
    found = PictureFolder(str(tmp_path), classes=True)
    assert found.class_names == ("aster", "rose") and found.num_classes == 2 and len(found) == 12
    assert {found[at].label for at in range(12) if "rose" in found.name_of(at)} == {1}
    assert PictureFolder(str(tmp_path)).class_names == ("picture",)
    picture(tmp_path / "loose.png", 0)
    with pytest.raises(DataError, match=r"loose.png lies in no folder of a class"):
        PictureFolder(str(tmp_path), classes=True)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"classes need two folders or more; there is none"):
        PictureFolder(str(tmp_path / "none"), classes=True)


def test_a_part_is_held_out_and_the_parts_share_nothing(tmp_path):
    one_kind(tmp_path, count=20)
    parts = [PictureFolder(str(tmp_path), holdout=5, part=part) for part in ("train", "val")]
    names = [{part.name_of(at) for at in range(len(part))} for part in parts]
    assert len(names[0]) + len(names[1]) == 20 and 2 <= len(names[1]) <= 4 and not names[0] & names[1]


def test_two_kinds_are_gone_through_once_and_the_shorter_one_begins_again_without_counting(tmp_path):
    two_kinds(tmp_path, a=5, b=3)
    found = Whole(TwoFolders(str(tmp_path)), [])
    assert len(found) == 5
    assert [found[at].counts for at in range(5)] == [(True, True)] * 3 + [(True, False)] * 2
    np.testing.assert_array_equal(found[3].other, found[0].other)


def test_a_class_has_one_number_in_both_parts_though_one_of_them_has_no_picture_of_it(tmp_path):
    for at, name in enumerate(("apple", "pear", "pear", "pear", "plum")):
        picture(tmp_path / name / f"{at}.png", at)
    train, val = (PictureFolder(str(tmp_path), classes=True, holdout=2, part=part) for part in ("train", "val"))
    assert train.class_names == val.class_names == ("apple", "pear", "plum")
    for part in (train, val):
        for at in range(len(part)):
            assert part.class_names[part[at].label] in part.name_of(at)


def test_training_draws_partners_anew_and_changes_each_picture_by_itself(tmp_path):
    two_kinds(tmp_path, a=4, b=6)
    drawn = Unpaired(TwoFolders(str(tmp_path)), [RandomFlip()])
    samples = [drawn.sample(0, np.random.default_rng(seed)) for seed in range(40)]
    assert len({sample.name for sample in samples}) > 3
    images, others = ({s.image.tobytes() for s in samples}, {s.other.tobytes() for s in samples})
    assert len(images) == 2 and len(others) > 6
    again = drawn.sample(0, np.random.default_rng(7))
    np.testing.assert_array_equal(again.other, samples[7].other)


def test_pairs_go_by_name_and_move_together(tmp_path):
    pairs(tmp_path)
    found = PairedFolders(str(tmp_path))
    flipped = RandomFlip(prob=1.0)(found[2], np.random.default_rng(0))
    np.testing.assert_array_equal(flipped.image, found[2].image[:, ::-1])
    np.testing.assert_array_equal(flipped.other, found[2].other[:, ::-1])
    picture(tmp_path / "A" / "extra.png", 0)
    with pytest.raises(DataError, match=r"1 pictures have no partner of their name: extra"):
        PairedFolders(str(tmp_path))


def test_partners_of_different_sizes_and_names_twice_are_refused(tmp_path):
    pairs(tmp_path)
    picture(tmp_path / "B" / "3.jpg", 3, size=(20, 24))
    with pytest.raises(DataError, match=r"3.png is 16x16 but its partner .*3.jpg is 24x20"):
        PairedFolders(str(tmp_path))[3]
    picture(tmp_path / "B" / "3.png", 3)
    with pytest.raises(DataError, match=r"two pictures in B have one name with different endings"):
        PairedFolders(str(tmp_path))


def test_pictures_side_by_side_are_cut_in_halves(tmp_path):
    for at in range(2):
        (tmp_path / "train").mkdir(exist_ok=True)
        both = np.zeros((8, 16, 3), np.uint8)
        both[:, 8:] = 200
        cv2.imwrite(str(tmp_path / "train" / f"{at}.png"), both)
    right, left = (SideBySide(str(tmp_path), given=given)[0] for given in ("right", "left"))
    assert (
        right.image.max() == 200 and right.other.max() == 0 and left.image.max() == 0 and left.other.shape == (8, 8, 3)
    )
    cv2.imwrite(str(tmp_path / "train" / "0.png"), np.zeros((8, 15, 3), np.uint8))
    with pytest.raises(DataError, match=r"0.png: is 15 pixels wide"):
        SideBySide(str(tmp_path))[0]


@pytest.mark.parametrize("make", [PictureFolder, TwoFolders, PairedFolders, SideBySide])
def test_folders_without_pictures_are_refused(tmp_path, make):
    for folder in ("train", "trainA", "trainB", "A", "B"):
        (tmp_path / folder).mkdir()
    with pytest.raises(DataError, match=r"there are no pictures"):
        make(str(tmp_path))


def test_one_folder_is_no_two_kinds(tmp_path):
    with pytest.raises(DataError, match="a and b are both trainA"):
        TwoFolders(str(tmp_path), b="trainA")


def test_pictures_come_back_from_floats_without_a_change():
    values = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(to_picture(to_array(values)), values)
    assert to_picture(np.array([-3.0, 3.0])).tolist() == [0, 255]


def test_sets_may_lie_in_the_one_folder_of_a_folder(tmp_path):
    two_kinds(tmp_path / "two" / "red2blue")
    assert len(TwoFolders(str(tmp_path / "two")).b) == 6
    pairs(tmp_path / "pairs" / "squares")
    assert len(PairedFolders(str(tmp_path / "pairs"))) == 8
    one_kind(tmp_path / "one" / "squares", classes=("blue", "red"))
    assert PictureFolder(str(tmp_path / "one"), classes=True).class_names == ("blue", "red")
