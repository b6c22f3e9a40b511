"""Image files with labels: ImageFolder (the folder says the class) and ImageList (a file of `path label` lines).

Both read folders and zips in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register, register_role
from suites.engine.sources import Source, open_source
from suites.vision.images import IMAGE_SUFFIXES, decode_image
from suites.vision.recognition.datasets import RecognitionDataset, read_classes, read_labels, read_rows
from suites.vision.recognition.sample import LabelledImage

register_role("dataset", RecognitionDataset, doc="images with labels, by index")


class _ImageFiles(RecognitionDataset):
    """Image files of a folder or zip, with their labels."""

    def __init__(
        self, what: str, source: Source, names: Sequence[str], labels: np.ndarray, classes: Sequence[str]
    ) -> None:
        """Args: words for messages, where the files lie, their names, int64 labels, names of the classes."""
        self.class_names = tuple(classes)
        self.labels = labels
        self._files = source.table(names)
        self.say(what)

    def load(self, index: int, rng: np.random.Generator | None = None) -> LabelledImage:
        """Image `index`."""
        name = self.name_of(index)
        return LabelledImage.of(decode_image(self._files.read(index), name), int(self.labels[index]), name)

    def name_of(self, index: int) -> str:
        """The image file."""
        return self._files.full_name(index)


@register("dataset")
class ImageFolder(_ImageFiles):
    """A folder (or zip) with one folder of images for each class; the classes are the folders' names, sorted.

    Args:
        root: the folder, the zip or a folder inside a zip, such as data/flowers/train.
        holdout: with 5, every fifth image of each class, by name, is for evaluation; null where there are two folders.
        split: with `holdout`, which part: "train" or "val".
    """

    def __init__(self, root: str, holdout: int | None = None, split: Literal["train", "val"] = "train") -> None:
        if holdout is not None and holdout < 2:
            raise AttributeValueError(f"ImageFolder: holdout is {holdout}; it must be 2 or more, or null")
        source = open_source(root)
        classes = source.folders()
        names: list[str] = []
        labels: list[int] = []
        for label, folder in enumerate(classes):
            images = [name for name in source.names(folder) if name.lower().endswith(IMAGE_SUFFIXES)]
            if holdout is not None:
                images = [n for i, n in enumerate(images) if (i % holdout == holdout - 1) == (split == "val")]
            names += [f"{folder}/{name}" for name in images]
            labels += [label] * len(images)
        if not names:
            raise DataError(
                f"ImageFolder {root}: no images; expected one folder a class with files "
                f"{' '.join(IMAGE_SUFFIXES)}, found the folders: {', '.join(classes[:8]) or 'none'}"
            )
        super().__init__(f"ImageFolder {root}", source, names, np.array(labels, np.int64), classes)


@register("dataset")
class ImageList(_ImageFiles):
    """Images listed in a file, a line each: `path label`, paths relative to the root, labels from 0.

    Args:
        root: folder, zip or folder inside a zip.
        annotations: the list, relative to the root.
        classes: names of the classes, or a file under the root with a name a line; null for the labels' numbers.
    """

    def __init__(self, root: str, annotations: str, classes: str | list[str] | None = None) -> None:
        source = open_source(root)
        rows = read_rows(source, annotations, 2)
        class_names = read_classes(source, classes, rows)
        labels = read_labels(source, annotations, rows, class_names)
        missing = [row[0] for row in rows if not source.exists(row[0])]
        if missing:
            raise DataError(
                f"{source.root}/{annotations}: {len(missing)} of {len(rows)} images are missing, "
                f"the first is {missing[0]}"
            )
        super().__init__(f"ImageList {root} {annotations}", source, [row[0] for row in rows], labels, class_names)
