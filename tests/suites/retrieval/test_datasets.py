"""Folders of classes are divided by class, lists of pairs are LFW's or plain, orders have m of a class."""

import logging

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.retrieval.datasets import ClassFolders, PairList
from suites.vision.ordering import PerClass
from tests.suites.retrieval.helpers import pictures


def test_classes_of_evaluation_are_never_trained_on(tmp_path):
    root = pictures(tmp_path, {"1": 2, "2": 2, "10": 3, "3": 2})
    train, val = (ClassFolders(root, part) for part in ("train", "val"))
    assert (train.class_names, val.class_names) == (("1", "2"), ("3", "10"))
    assert val.class_counts().tolist() == [2, 3] and not set(train.names()) & set(val.names())


def test_folders_of_parts_are_joined_and_deep_folders_are_classes(tmp_path):
    root = pictures(tmp_path / "a", {"train/x": 2, "test/x": 1, "train/y": 2})
    assert ClassFolders(root, "train", unseen=0.0).class_counts().tolist() == [3, 2]
    root = pictures(tmp_path / "b", {"Greek/1": 2, "Greek/2": 2, "Korean/1": 2})
    assert ClassFolders(root, "val", unseen=["Korean/*"]).class_names == ("Korean/1",)
    assert ClassFolders(root, "train", unseen=["Korean/*"]).class_names == ("Greek/1", "Greek/2")


def test_a_class_is_one_in_all_parts_though_these_lie_in_a_folder(tmp_path):
    counts = {"shop/train/apple": 2, "shop/test/apple": 1, "shop/train/pear": 2, "shop/test/pear": 2}
    found = ClassFolders(pictures(tmp_path, counts), "train", unseen=0.0)
    assert found.class_names == ("shop/apple", "shop/pear") and found.class_counts().tolist() == [3, 4]
    only = ClassFolders(pictures(tmp_path / "b", {"train/a": 2, "train/b": 2}), "train", unseen=0.0)
    assert only.class_names == ("a", "b")


def test_what_is_wrong_with_folders_is_said(tmp_path):
    root = pictures(tmp_path / "one", {"a": 1, "b": 1, "c": 3})
    with pytest.raises(DataError, match=r"each class of the part 'train' has one picture; two of a class are needed"):
        ClassFolders(root, "train")
    with pytest.raises(DataError, match=r"no class is like 'Korean/\*'; there are a, b, c"):
        ClassFolders(root, unseen=["Korean/*"])
    with pytest.raises(DataError, match="no class is left for the part 'val': 0 of 3 are unseen"):
        ClassFolders(root, "val", unseen=0.1)
    with pytest.raises(AttributeValueError, match="unseen is 2"):
        ClassFolders(root, unseen=2.0)
    with pytest.raises(DataError, match="1 folders have pictures; expected a folder for each class"):
        ClassFolders(pictures(tmp_path / "single", {"a": 3}))


def lfw(root, folds=2, count=1):
    lines = [f"{folds}\t{count}"]
    for fold in range(folds):
        lines += [f"Ann_{fold}\t1\t2"] * count + [f"Ann_{fold}\t1\tBob\t{fold + 1}"] * count
        pictures(root, {f"Ann_{fold}": 2, "Bob": 2})
    for path in root.glob("*/*.png"):
        path.rename(path.with_name(f"{path.parent.name}_{int(path.stem) + 1:04d}.jpg"))
    (root / "pairs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(root)


def test_the_list_of_lfw_is_read_by_its_folds(tmp_path):
    found = PairList(lfw(tmp_path))
    assert found.pairs.same.tolist() == [True, False, True, False] and found.pairs.fold.tolist() == [0, 0, 1, 1]
    names = [found.name_of(int(i)).rpartition("/")[2] for i in (found.pairs.first[1], found.pairs.second[1])]
    assert names == ["Ann_0_0001.jpg", "Bob_0001.jpg"]
    (tmp_path / "pairs.txt").write_text("2 5\nAnn_0 1 2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"has 1 pairs; its first line says 2 folds of 2 x 5"):
        PairList(str(tmp_path))
    (tmp_path / "pairs.txt").write_text("2 1\nAnn_0 1 2\nAnn_0 1 Bob\nAnn_1 1 2\nAnn_1 1 Bob 2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"pair 2: expects 'NAME i OTHER j', found 'Ann_0 1 Bob'"):
        PairList(str(tmp_path))


def test_a_plain_list_is_dealt_out_to_folds(tmp_path):
    root = pictures(tmp_path, {"a": 2, "b": 2})
    rows = ["a/0.png a/1.png 1", "b/0.png b/1.png 1", "a/0.png b/0.png 0", "a/1.png b/1.png 0"]
    (tmp_path / "list.txt").write_text("\n".join(rows), encoding="utf-8")
    found = PairList(root, "list.txt", folds=2)
    assert found.pairs.fold.tolist() == [0, 1, 0, 1] and len(found) == 4
    with pytest.raises(DataError, match=r"2 pairs of the same and 2 of two; 10 folds need one each"):
        PairList(root, "list.txt")
    (tmp_path / "list.txt").write_text("a/0.png a/1.png same", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1: expects 'PATH PATH 1' or 'PATH PATH 0', found 'a/0.png a/1.png sa"):
        PairList(root, "list.txt", folds=2)
    (tmp_path / "list.txt").write_text("\n".join([*rows, "a/0.png c/0.png 1"]), encoding="utf-8")
    with pytest.raises(DataError, match=r"c/0.png is missing"):
        PairList(root, "list.txt", folds=2)


class Kinds:
    def __init__(self, labels):
        self._labels = labels

    def __len__(self):
        return len(self._labels)

    def classes_of_samples(self):
        return [np.array([label]) for label in self._labels]


def test_an_order_has_m_of_a_class_behind_each_other(caplog):
    labels = np.array([0] * 9 + [1] * 4 + [2] * 3 + [3])
    with caplog.at_level(logging.WARNING):
        sampler = PerClass(4).sampler(Kinds(labels), seed=1)
    assert "1 classes have one sample each and are left out" in caplog.text
    first, second = sampler.order(0), sampler.order(1)
    assert len(first) == len(sampler) == 16  # two groups of the first class, one of the two others each
    for group in first.reshape(-1, 4):
        assert len(set(labels[group])) == 1
    assert len({*first[:12].tolist()}) >= 11 and {*labels[first[:12]]} == {0, 1, 2}  # a round has every class once
    assert first.tolist() != second.tolist() and first.tolist() == sampler.order(0).tolist()
    assert 3 not in labels[first]


def test_an_order_needs_pairs_of_two_classes():
    with pytest.raises(DataError, match="1 classes have two samples or more, 2 have one"):
        PerClass(2).sampler(Kinds(np.array([0, 0, 1, 2])), seed=0)
    with pytest.raises(AttributeValueError, match="m is 1"):
        PerClass(1)
