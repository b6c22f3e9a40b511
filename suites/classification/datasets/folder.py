"""PhotoFolder: a folder of photos for each class, in parts or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suites.classification.datasets.files import ImageFolder
from suites.engine.contract.recognising import Recognised, class_folders, classes_in, recogniser
from suites.engine.data.intake.dividing import EVERY, Part
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.vision.files import is_image
from suites.vision.pictures.images import IMAGE_SUFFIXES
from suites.vision.recognition.datasets import RecognitionDataset


@register("dataset")
def PhotoFolder(root: str, part: Part = "train", classes: Sequence[str] | None = None) -> RecognitionDataset:
    """A folder or zip with one folder of photos for each class; or with folders train and val that hold these.

    Args:
        root: the folder that holds all, or a zip of it.
        part: "train" or "val". Without folders of parts every fifth photo of a class is "val"; copies stay together.
        classes: names in label order; null for the names of the folders.

    Raises:
        DataError: there are no folders of photos.
    """
    source = open_set(root)
    folder, names, whole = class_folders(source, part, classes)
    if whole:
        return ImageFolder(source.root, holdout=EVERY, split=part, classes=names)
    return ImageFolder(f"{source.root}/{folder}", classes=names)


@register("recogniser", "classification")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip with folders of photos is, and the command that trains on it."""
    source, folders, said = classes_in(path)
    counts = [count for folder in folders if (count := len(source.having(folder, IMAGE_SUFFIXES)))]
    if len(counts) < 2 or any(map(is_image, source.names(folders[0].rpartition("/")[0]))):
        return None
    what = f"{sum(counts)} photos in {len(counts)} folders, one for each class, {said}"
    return Recognised(what, "classification/photos", (f"data.root={path}",), 60)
