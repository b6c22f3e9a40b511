"""SegmentationFolder: images with label maps as people have them; folders, parts and what pixels mean are found."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suites.engine.contract.recognising import Recognised, part_folders, recogniser
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import EVERY, Part
from suites.engine.data.intake.naming import Finder, stem
from suites.engine.data.skipping import MAX_SKIPPED, OtherKindError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.segmentation.datasets.base import SegmentationDataset
from suites.segmentation.datasets.labelme import LabelmeSegmentation
from suites.segmentation.datasets.pairs import CLASS_FILES, ImageLabelPairs
from suites.segmentation.labels import decode_labels
from suites.segmentation.sample import IGNORE
from suites.vision.pictures.images import IMAGE_SUFFIXES

_log = logging.getLogger(__name__)
_IMAGES = ("images", "image", "imgs", "img", "JPEGImages")
_LABELS = ("labels", "label", "masks", "mask", "annotations", "SegmentationClass", "gt", "groundtruth", "labelmaps")
_SUFFIXES = (".png", "_mask.png", "_label.png", "_gt.png", "-mask.png", ".bmp", ".tif")
_SURE = 0.9  # share of images that have a label map, for two folders to be taken for pairs


@dataclass(frozen=True)
class Layout:
    """What a folder is.

    Attributes:
        what: format and counts, for people.
        make: the class of the data set.
        parts: its arguments by part, "train" and "val".
        common: arguments of all parts.
    """

    what: str
    make: type[SegmentationDataset]
    parts: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)


@register("dataset")
def SegmentationFolder(
    root: str, part: Part = "train", classes: Sequence[str] | None = None, max_skipped: float = MAX_SKIPPED
) -> SegmentationDataset:
    """Images with label maps in a folder or zip: two folders of files of one name, or labelme's files.

    Label maps hold class ids, or two values, of which the one above 0 is the object. Names of classes are in
    classes.txt or labels.txt; without one they are the numbers in the label maps.

    Args:
        root: the folder that holds all, or a zip of it.
        part: "train" or "val". Where no folders say which image is which, every fifth is "val".
        classes: names in label order; null to find them.
        max_skipped: share of the images that may be unusable.

    Raises:
        DataError: there are no images, or no label maps beside them.
    """
    layout = layout_of(open_set(root), classes)
    _log.info("%s: %s", root, layout.what)
    options: dict[str, Any] = {**layout.common, **layout.parts[part], "max_skipped": max_skipped}
    if classes is not None:
        options["classes"] = list(classes)
    return layout.make(**options)


@register("recogniser", "segmentation")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip of images with label maps is, and the command that trains on it."""
    layout = layout_of(open_set(path), None)
    # Labelme's shapes are boxes too: the detection suite knows such folders as well.
    certainty = 95 if layout.make is ImageLabelPairs else 50
    return Recognised(layout.what, "segmentation/photos", (f"data.root={path}",), certainty)


def layout_of(source: Source, classes: Sequence[str] | None) -> Layout:
    """The folders, the parts and the kind of label maps; DataError where there are none."""
    pairs = _pairs(source)
    if not pairs:
        labelme = _labelme(source)
        if labelme is not None:
            return labelme
        raise OtherKindError(
            f"{source.root}: no folder of images beside a folder of label maps of the same names (such as images and "
            "labels), and no files of labelme"
        )
    common = _reading(source, list(pairs.values()), classes)
    if "train" in pairs and ("val" in pairs or "test" in pairs):
        held = pairs.get("val") or pairs["test"]
        parts = {"train": pairs["train"].arguments(source), "val": held.arguments(source)}
        said = "in parts for training and evaluation"
    else:
        whole = next(iter(pairs.values())).arguments(source)
        parts = {part: {**whole, "holdout": EVERY, "split": part} for part in ("train", "val")}
        said = "without parts, so every fifth image is for evaluation"
    count = sum(each.count for each in pairs.values())
    kind = "masks of two values" if common.get("kind") == "binary" else "label maps of class ids"
    return Layout(f"{count} images with {kind}, {said}", ImageLabelPairs, parts, common)


@dataclass(frozen=True)
class _Pair:
    """A folder of images and one of label maps, whose names end in `suffix`."""

    images: str
    labels: str
    suffix: str
    count: int

    def arguments(self, source: Source) -> dict[str, Any]:
        return {"root": source.root, "images": self.images, "labels": self.labels, "label_suffix": self.suffix}


def _pairs(source: Source) -> dict[str, _Pair]:
    """The pairs of folders by part; under "" those of a set without parts."""
    found: dict[str, _Pair] = {}
    for part, folder in part_folders(source).items():  # train/images, train/labels
        pair = _pair(source, *_two(source, folder))
        if pair is not None:
            found[part] = pair
    if found:
        return found
    images, labels = _two(source, "")
    if not images or not labels:
        return {}
    below = part_folders(source, images), part_folders(source, labels)  # images/train, labels/train
    for part, folder in below[0].items():
        pair = _pair(source, folder, below[1].get(part, ""))
        if pair is not None:
            found[part] = pair
    whole = None if found else _pair(source, images, labels)
    return found or ({} if whole is None else {"": whole})


def _two(source: Source, folder: str) -> tuple[str, str]:
    """The folders of images and of label maps in a folder; "" for one that is not there."""
    names = {name.lower(): f"{folder}/{name}" if folder else name for name in source.folders(folder)}
    images, labels = (
        next((names[name.lower()] for name in known if name.lower() in names), "") for known in (_IMAGES, _LABELS)
    )
    return images, labels


def _pair(source: Source, images: str, labels: str) -> _Pair | None:
    if not images or not labels:
        return None
    pictures = source.having(images, IMAGE_SUFFIXES)
    known = Finder(source.below(labels))
    for suffix in _SUFFIXES:
        count = sum(known.find(stem(name) + suffix) is not None for name in pictures)
        if pictures and count >= _SURE * len(pictures):
            return _Pair(images, labels, suffix, len(pictures))
    return None


def _reading(source: Source, pairs: Sequence[_Pair], classes: Sequence[str] | None) -> dict[str, Any]:
    """How label maps are read: names of classes from a file, a mask of two values, or the numbers as names."""
    if classes is not None or any(name in CLASS_FILES for name in source.names()):
        return {}
    values: set[int] = set()
    for pair in pairs:
        for name in source.below(pair.labels):
            if name.lower().endswith(pair.suffix):
                path = f"{pair.labels}/{name}"
                values |= set(np.unique(decode_labels(source.read(path), f"{source.root}/{path}")).tolist())
    if len(values) == 2 and min(values) == 0:
        return {"kind": "binary"}
    most = max(values - {IGNORE}, default=0)
    return {"classes": [str(number) for number in range(most + 1)]}


def _labelme(source: Source) -> Layout | None:
    files = source.having("", (".json",))
    if not any(b'"shapes"' in source.read(name, "text_bytes") for name in files[:4]):
        return None
    folders = part_folders(source)
    parts: dict[str, dict[str, Any]]
    if "train" in folders and len(folders) > 1:
        roots = {part: {"root": f"{source.root}/{folder}"} for part, folder in folders.items()}
        names = sorted({name for each in roots.values() for name in LabelmeSegmentation(each["root"]).class_names[1:]})
        parts = {"train": roots["train"], "val": roots.get("val") or roots["test"]}
        return Layout(f"labelme: {len(files)} files, in parts", LabelmeSegmentation, parts, {"classes": names})
    parts = {part: {"root": source.root, "holdout": EVERY, "split": part} for part in ("train", "val")}
    what = f"labelme: {len(files)} files, without parts, so every fifth image is for evaluation"
    return Layout(what, LabelmeSegmentation, parts)
