"""MVTec's layout and folders of good and bad pictures, and what is wrong with them."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.anomaly.datasets import GoodBad, MvtecFolder
from suites.anomaly.datasets.base import marked
from suites.engine.data.skipping import SetError
from tests.suites.anomaly.helpers import AT, SIDE, mask, mvtec, picture


def test_mvtecs_layout_has_good_pictures_to_learn_from_and_kinds_with_masks(tmp_path):
    root = mvtec(tmp_path, good=3, test=2, kinds=("crack", "scratch"))
    train, test = MvtecFolder(root), MvtecFolder(root, "test")
    assert train.kinds == ("good",) * 3 and not train.masks and not train[0].mask.any()
    assert test.kinds == ("crack", "crack", "good", "good", "scratch", "scratch") and test.masks
    expected = np.zeros((SIDE, SIDE), np.uint8)
    expected[AT, AT] = 1
    assert np.array_equal(test[0].mask, expected) and not test[2].mask.any()
    assert test.labels.tolist() == [1, 1, 0, 0, 1, 1] and test[5].number == 5 and test[5].original == (SIDE, SIDE)
    assert not MvtecFolder(mvtec(tmp_path / "b", masks=False), "test").masks


def test_masks_and_pictures_that_have_no_other_are_named(tmp_path):
    root = mvtec(tmp_path)
    mask(tmp_path / "ground_truth" / "scratch" / "009_mask.png")
    with pytest.raises(SetError, match=r"1 masks have no picture of their name: ground_truth/scratch/009_mask.png"):
        MvtecFolder(root, "test")
    picture(tmp_path / "test" / "scratch" / "008.png", 0)
    with pytest.raises(SetError, match=r"1 pictures of defects have no mask of their name: test/scratch/008.png"):
        MvtecFolder(root, "test")


def test_kinds_of_which_masks_or_pictures_lack_are_named(tmp_path):
    root = mvtec(tmp_path)
    picture(tmp_path / "test" / "hole" / "0.png", 0, bad=True)
    with pytest.raises(SetError, match="no masks of hole, but of other kinds there are"):
        MvtecFolder(root, "test")
    mask(tmp_path / "ground_truth" / "dent" / "0_mask.png")
    with pytest.raises(SetError, match="ground_truth has masks of dent, of which test has no pictures"):
        MvtecFolder(root, "test")
    with pytest.raises(SetError, match="there is no folder train/good"):
        MvtecFolder(str(tmp_path / "test"))


def test_a_mask_of_another_size_names_both_files(tmp_path):
    root = mvtec(tmp_path)
    mask(tmp_path / "ground_truth" / "scratch" / "000_mask.png", side=40)
    with pytest.raises(DataError, match=r"000_mask.png: is 40x40 but its picture .*000.png is 64x64"):
        MvtecFolder(root, "test")[4]


def test_folders_of_good_and_bad_are_divided(tmp_path):
    for at in range(10):
        picture(tmp_path / "good" / f"{at}.png", at)
    picture(tmp_path / "bad" / "a.png", 20, bad=True)
    picture(tmp_path / "bad" / "dents" / "b.png", 21, bad=True)
    picture(tmp_path / "bad" / "holes" / "c.png", 22, bad=True)
    train, val = GoodBad(str(tmp_path)), GoodBad(str(tmp_path), "val")
    assert len(train) == 8 and val.kinds.count("good") == 2 and set(val.kinds) == {"good", "defect", "dents", "holes"}
    assert not {*train.names()} & {*val.names()} and not val.masks
    mask(tmp_path / "masks" / "a.png")
    with pytest.raises(SetError, match="2 pictures of defects have no mask"):
        GoodBad(str(tmp_path), "val", masks="masks")
    whole = GoodBad(str(tmp_path), "val", bad=None, holdout=None)
    assert len(whole) == 10 and not whole.labels.any()
    with pytest.raises(SetError, match="the folder fine has no pictures"):
        GoodBad(str(tmp_path), good="fine")


@pytest.mark.parametrize("name", ["good", "OK", "fine"])
def test_good_pictures_below_the_bad_ones_are_never_called_defects(tmp_path, name):
    for at in range(3):
        picture(tmp_path / "train" / "fine" / f"{at}.png", at)
        picture(tmp_path / "test" / name / f"{at}.png", 10 + at)
        picture(tmp_path / "test" / "hole" / f"{at}.png", 20 + at, bad=True)
    with pytest.raises(SetError, match=rf"test/{name} has 3 pictures, which would be called defects"):
        GoodBad(str(tmp_path), "val", good="train/fine", bad="test", holdout=None)
    assert len(GoodBad(str(tmp_path), "val", good="train/fine", bad="test/hole", holdout=None)) == 6


def test_good_pictures_of_mvtecs_test_under_another_name_are_refused(tmp_path):
    root = mvtec(tmp_path)
    picture(tmp_path / "test" / "OK" / "0.png", 0)
    with pytest.raises(SetError, match="test/OK would be a kind of defect; call the folder of good pictures good"):
        MvtecFolder(root, "test")
    assert MvtecFolder(root).kinds == ("good",) * 10


def test_pictures_of_one_name_in_two_kinds_have_each_the_mask_of_its_kind(tmp_path):
    picture(tmp_path / "good" / "0.png", 0)
    for kind, side in (("crack", 32), ("hole", 48)):
        picture(tmp_path / "bad" / kind / "0.png", 1, bad=True, side=side)
        mask(tmp_path / "masks" / kind / "0_mask.png", side=side)
    found = GoodBad(str(tmp_path), "val", masks="masks", holdout=None)
    assert [found[at].mask.shape for at in (1, 2)] == [(32, 32), (48, 48)]  # one of another size would be an error
    (tmp_path / "masks" / "hole" / "0_mask.png").unlink()
    with pytest.raises(SetError, match=r"masks/crack/0_mask.png is the mask of crack/0.png and of hole/0.png"):
        GoodBad(str(tmp_path), "val", masks="masks", holdout=None)


def test_all_kinds_of_defects_in_a_mask_count_whatever_their_numbers_and_blurred_borders_do_not():
    numbers = np.array([[0, 1, 2], [3, 4, 0]], np.uint8)  # VisA's masks
    assert marked(numbers, lossy=False).tolist() == [[0, 1, 1], [1, 1, 0]]
    assert marked(np.array([[0, 2, 255]], np.uint8), lossy=True).tolist() == [[0, 0, 1]]
    blurred = np.arange(256, dtype=np.uint8)[None]
    assert marked(blurred, lossy=False).sum() == 128 and not marked(np.zeros((2, 2), np.uint8), lossy=False).any()
