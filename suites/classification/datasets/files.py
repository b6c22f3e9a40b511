"""Image files with labels: ImageFolder (the folder says the class), ImageList (a file of `path label` lines), ImageNet.

All read folders and zips in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.contract.recognising import filled_folders
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import expect_samples
from suites.engine.data.skipping import MAX_SKIPPED, SetError
from suites.engine.data.sources import open_source
from suites.engine.names import listing
from suites.engine.registry import register, register_role
from suites.engine.reporting import Tally
from suites.vision.files import held_out, listed_file, pictures_below, read_lines, read_list
from suites.vision.pictures.images import IMAGE_SUFFIXES
from suites.vision.recognition.datasets import (
    RecognitionDataset,
    path_and_labels,
    path_and_numbers,
    read_classes,
    read_labels,
)
from suites.vision.recognition.files import ImageFiles
from suites.vision.recognition.sample import LabelledImage

register_role("dataset", RecognitionDataset, doc="images with labels, by index")

_SOLUTION = "LOC_val_solution.csv"


@register("dataset", needs={"split": "holdout"})
class ImageFolder(ImageFiles):
    """A folder (or zip) with one folder of images for each class, which may have folders of its own.

    The classes are the folders' names, in the order of their numbers: `2` before `10`.

    Args:
        root: the folder, the zip or a folder inside a zip, such as data/flowers/train.
        holdout: with 5, every fifth image of each class, by name, is for evaluation; null where there are two folders.
        split: with `holdout`, which part: "train" or "val".
        classes: names in label order, for a part that may lack some; null for the folders' names.
    """

    def __init__(
        self,
        root: str,
        holdout: int | None = None,
        split: Literal["train", "val"] = "train",
        classes: list[str] | None = None,
    ) -> None:
        if holdout is not None and holdout < 2:
            raise AttributeValueError(f"ImageFolder: holdout is {holdout}; it must be 2 or more, or null")
        source = open_source(root)
        folders = filled_folders(source)
        classes = folders if classes is None else classes
        strange = [name for name in folders if name not in classes]
        if strange:
            raise SetError(f"ImageFolder {root}: the folder {strange[0]} is none of the classes {listing(classes)}")
        names: list[str] = []
        labels: list[int] = []
        found = 0
        for label, folder in enumerate(classes):
            images = _images_below(source, folder)
            found += len(images)
            if holdout is not None:
                images = held_out(source, images, split, holdout, "ImageFolder")
            names += images
            labels += [label] * len(images)
        if found and holdout is not None:
            expect_samples(len(names), split, holdout, f"ImageFolder {root}")
        if not names:
            raise DataError(
                f"ImageFolder {root}: no images; expected one folder a class with files "
                f"{' '.join(IMAGE_SUFFIXES)}, found the folders: {', '.join(classes[:8]) or 'none'}"
            )
        super().__init__(f"ImageFolder {root}", source, names, np.array(labels, np.int64), classes)


def _images_below(source: Source, folder: str) -> list[str]:
    """Paths of all image files in a folder and those below it."""
    return [f"{folder}/{name}" for name in pictures_below(source, folder)]


@register("dataset")
class ImageList(ImageFiles):
    """Images listed in a file, a line each: `path label`, paths relative to the root, labels from 0.

    With `multi_label` a line is `path 0,3,5`, or `path -` for an image of no class.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
        multi_label: images have any number of classes; the loss is then BinaryCrossEntropy.
        max_skipped: share of the lines that may be wrong or name an image that is not there; they are left out and
            logged. 0: the first one is an error.
    """

    def __init__(
        self,
        root: str,
        annotations: str,
        classes: str | list[str] | None = None,
        multi_label: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        self.multi_label = multi_label
        self._skipped = Tally()

        def read(line: str) -> tuple[str, list[int]]:
            path, labels = path_and_labels(line) if multi_label else _one_label(line)
            return listed_file(source, path), labels

        lists = read_list(source, annotations, read, max_skipped, self._skipped)
        rows = [[path, str(max(labels, default=0))] for path, labels in lists]
        class_names = read_classes(source, classes, rows)
        labels = read_labels(source, annotations, rows, class_names)
        if multi_label:
            self._lists = [np.array(labels, np.int64) for _, labels in lists]
            labels = np.array([own[0] if len(own) else -1 for own in self._lists], np.int64)
        super().__init__(f"ImageList {root} {annotations}", source, [row[0] for row in rows], labels, class_names)

    def class_counts(self) -> np.ndarray:
        """int64 [K]: images of each class."""
        every = np.concatenate(self._lists) if self.multi_label else self.labels
        return np.bincount(every, minlength=self.num_classes)

    def labels_of(self, index: int) -> np.ndarray:
        """Classes of image `index`, int64 [L]."""
        return self._lists[index] if self.multi_label else super().labels_of(index)

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledImage:
        """Image `index`."""
        image = super().load(index, rng)
        if not self.multi_label:
            return image
        own = self.labels_of(index)
        return replace(image, labels=own, weights=np.ones(len(own), np.float32))


def _one_label(line: str) -> tuple[str, list[int]]:
    path, label = path_and_numbers(line, 2)
    return path, [int(label)]


@register("dataset")
class ImageNet(ImageFiles):
    """ImageNet-1k (ILSVRC 2012) as it is unpacked: `train` and `val` with a folder for each of 1,000 WordNet ids.

    The validation images may also lie in `val` directly, with `LOC_val_solution.csv` saying what they show; and both
    folders below `ILSVRC/Data/CLS-LOC`, as in Kaggle's archive. Classes are in the order of their ids, as in published
    weights; with `LOC_synset_mapping.txt` or `synset_words.txt` they have the words for names, else the ids.

    Args:
        root: the folder or zip.
        split: "train" or "val".
    """

    def __init__(self, root: str, split: Literal["train", "val"] = "train") -> None:
        source = open_source(root)
        places = (split, f"ILSVRC/Data/CLS-LOC/{split}")
        at = next((place for place in places if source.folders(place) or source.names(place)), None)
        if at is None:
            raise DataError(f"ImageNet {root}: there is no folder {' or '.join(places)} with images in it")
        train = at.removesuffix(split) + "train"
        words = _words(source)
        ids = sorted(words or (source.folders(at) or source.folders(train)))
        numbers = {wordnet: k for k, wordnet in enumerate(ids)}
        labelled: list[tuple[str, str]] = []
        if source.folders(at):
            labelled = [
                (name, name.split("/")[-2])
                for wordnet in source.folders(at)
                for name in _images_below(source, f"{at}/{wordnet}")
            ]
        elif source.exists(_SOLUTION):
            labelled = [(f"{at}/{name}.JPEG", wordnet) for name, wordnet in _solution(source)]
        strange = sorted({wordnet for _, wordnet in labelled if wordnet not in numbers})
        if not labelled or strange:
            found = (
                f"folders of no known class: {', '.join(strange[:5])}" if strange else f"no folders and no {_SOLUTION}"
            )
            raise DataError(f"ImageNet {root}: {at} has {found}; expected a folder for each WordNet id")
        names = [name for name, _ in labelled]
        labels = np.array([numbers[wordnet] for _, wordnet in labelled], np.int64)
        super().__init__(f"ImageNet {split}", source, names, labels, [words.get(i, i) for i in ids])


def _words(source: Source) -> dict[str, str]:
    """What WordNet ids mean, where a file says it: the first word of each."""
    for name in ("LOC_synset_mapping.txt", "synset_words.txt"):
        if source.exists(name):
            pairs = (line.split(None, 1) for line in read_lines(source, name) if " " in line or "\t" in line)
            return {wordnet: words.split(",")[0].strip() for wordnet, words in pairs}
    return {}


def _solution(source: Source) -> Iterator[tuple[str, str]]:
    """Image and WordNet id of each line `IMAGE,ID x y x y ...` of Kaggle's file."""
    for line in read_lines(source, _SOLUTION)[1:]:
        name, _, boxes = line.partition(",")
        if boxes.split():
            yield name, boxes.split()[0]
