"""Data sets of picture files: a folder, folders of classes, two folders, pairs."""

from __future__ import annotations

from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.dividing import copies_of, divided
from suites.engine.data.intake.naming import stem
from suites.engine.data.skipping import SetError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.generation.datasets.base import OneKind, Pairs, TwoKinds, expect_equal, opened_files, read
from suites.generation.sample import Picture
from suites.vision.files import pictures_below

_NAMED = 5  # in a message


def _first(folder: str) -> str:
    """The folder at the top of a path."""
    return folder.split("/")[0]


@register("dataset", needs={"part": "holdout"})
class PictureFolder(OneKind):
    """All pictures in a folder and below.

    Args:
        root: the folder or zip.
        folder: in it; "" for all.
        classes: whether the folders in `folder` are classes; pictures outside of them are an error.
        holdout: every how manyth picture is for "val"; null for all in both parts, as usual where samples are compared
            with what was learnt.
        part: "train" or "val", where `holdout` is given.

    Raises:
        SetError: fewer than two pictures, or with `classes` fewer than two folders.
    """

    def __init__(
        self,
        root: str,
        folder: str = "",
        classes: bool = False,
        holdout: int | None = None,
        part: Literal["train", "val"] = "train",
    ) -> None:
        self.is_compared_whole = holdout is None
        source, what = open_set(root, holding=[_first(folder)]), f"PictureFolder {root} {folder}".rstrip()
        names = whole = pictures_below(source, folder)
        if holdout is not None:
            paths = [f"{folder}/{name}".lstrip("/") for name in names]
            names = divided(names, part, holdout, "PictureFolder", copies_of(source, paths))
        paths = [f"{folder}/{name}".lstrip("/") for name in names]
        if not classes:
            super().__init__(what, source, paths)
            return
        loose = [name for name in whole if "/" not in name]
        if loose:
            raise SetError(f"{what}: {loose[0]} lies in no folder of a class; move it into one, or take classes: false")
        found = list(dict.fromkeys(name.split("/")[0] for name in whole))  # of both parts, so that numbers are the same
        if len(found) < 2:
            raise SetError(f"{what}: classes need two folders or more; there is {', '.join(found) or 'none'}")
        super().__init__(what, source, paths, [found.index(name.split("/")[0]) for name in names], found)


@register("dataset")
class TwoFolders(TwoKinds):
    """Two folders of pictures without partners, as CycleGAN's sets have them.

    Args:
        root: the folder or zip in which both lie.
        a, b: the folders; `trainA` and `trainB`, or `testA` and `testB`, of CycleGAN's sets.

    Raises:
        SetError: a folder has fewer than two pictures.
    """

    def __init__(self, root: str, a: str = "trainA", b: str = "trainB") -> None:
        if a == b:
            raise SetError(f"TwoFolders {root}: a and b are both {a}; name two folders")
        super().__init__(*(PictureFolder(root, folder) for folder in (a, b)))


@register("dataset")
class PairedFolders(Pairs):
    """Pairs: a picture of one folder and that of the same name in another, with whatever ending.

    Args:
        root: the folder or zip in which both lie.
        a: folder of what is given.
        b: folder of what is to be drawn.

    Raises:
        SetError: fewer than two pairs, or a picture without a partner.
        DataError: when a pair is read whose pictures differ in size.
    """

    def __init__(self, root: str, a: str = "A", b: str = "B") -> None:
        source, what = open_set(root, holding=[_first(a), _first(b)]), f"PairedFolders {root} {a} {b}"
        names = {folder: pictures_below(source, folder) for folder in (a, b)}
        by_stem = {folder: {stem(name): name for name in listed} for folder, listed in names.items()}
        for folder, listed in names.items():
            if len(by_stem[folder]) != len(listed):
                raise SetError(f"{what}: two pictures in {folder} have one name with different endings")
        lonely = sorted(by_stem[a].keys() ^ by_stem[b].keys())
        if lonely:
            shown = ", ".join(lonely[:_NAMED]) + (" ..." if len(lonely) > _NAMED else "")
            raise SetError(f"{what}: {len(lonely)} pictures have no partner of their name: {shown}")
        self._a = opened_files(f"{what} ({a})", source, [f"{a}/{name}" for name in names[a]])
        self._b = opened_files(f"{what} ({b})", source, [f"{b}/{by_stem[b][stem(name)]}" for name in names[a]])
        self.passed = source.passed

    def __len__(self) -> int:
        return len(self._a)

    def __getitem__(self, index: int) -> Picture:
        image, other = read(self._a, index), read(self._b, index)
        expect_equal(image, other, self._a.full_name(index), self._b.full_name(index))
        return Picture(image=image, other=other, number=index, name=self.name_of(index))

    def name_of(self, index: int) -> str:
        """The given picture's file."""
        return self._a.full_name(index)


@register("dataset")
class SideBySide(Pairs):
    """Pairs whose two pictures stand side by side in one file, as those of pix2pix's sets.

    Args:
        root: the folder or zip.
        folder: in it, such as `train`.
        given: which half is given; the other one is to be drawn. "right" of facades and cityscapes, "left" of maps and
            edges2shoes, as in the paper.

    Raises:
        SetError: fewer than two pictures.
        DataError: when a picture of odd width is read.
    """

    def __init__(self, root: str, folder: str = "train", given: Literal["left", "right"] = "right") -> None:
        source, what = open_set(root, holding=[_first(folder)]), f"SideBySide {root} {folder}"
        paths = [f"{folder}/{name}".lstrip("/") for name in pictures_below(source, folder)]
        self._files, self._given = opened_files(what, source, paths), given
        self.passed = source.passed

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Picture:
        both = read(self._files, index)
        if both.shape[1] % 2:
            raise DataError(f"{self.name_of(index)}: is {both.shape[1]} pixels wide, which are no two halves")
        left, right = (np.ascontiguousarray(half) for half in np.split(both, 2, axis=1))
        image, other = (left, right) if self._given == "left" else (right, left)
        return Picture(image=image, other=other, number=index, name=self.name_of(index))

    def name_of(self, index: int) -> str:
        """The file."""
        return self._files.full_name(index)
