"""ImageLabelPairs: your own data, as two folders or as lists of `image label` lines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from framework.errors import AttributeValueError, DataError
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import Finder, stem
from suites.engine.data.intake.texts import classes_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Binary, Colour, Colours, Ids, LabelReader, Soft
from suites.vision.files import held_out, pictures_below, read_list, say_shared
from suites.vision.pictures.images import IMAGE_SUFFIXES

_BINARY = ("background", "object")
CLASS_FILES = ("classes.txt", "labels.txt")


@register(
    "dataset",
    exclusive=(("pairs", "holdout", "split"),),
    needs={"split": "holdout", "ignore_labels": ("kind", "ids"), "reduce_zero": ("kind", "ids")},
)
class ImageLabelPairs(PairDataset):
    """Images and label maps from two folders, file by file of the same name, or from a list.

    A label map is a PNG whose pixels are class ids (grey, or with a palette), a picture in the classes' colours, or a
    mask of two values, as `kind` says.

    Args:
        root: The folder that holds all, a `.zip` of it (read in place), or a folder inside a zip.
        images: Folder of the images.
        labels: Folder of the label maps; `a/b.jpg` belongs to `a/b.png`.
        pairs: A file of lines `image label`, two paths below `root` with a blank, tab or comma between; then the
            folders are not looked at.
        classes: Class names in label order. None: the lines of classes.txt or labels.txt in the root; what follows
            a `#` is a remark.
        ignore_labels: Numbers in label maps of ids that are neither learnt nor counted; 255 is always one.
        label_suffix: What the name of a label map has in place of the image's suffix.
        palette: RGB (0 to 255) of each class in pictures; None chooses.
        kind: What the pixels of label maps are: "ids", "colours" (of `palette`; black is void unless it is a class),
            "binary" (what is not 0 is class 1) or "soft" (grey maps: 128 and more is class 1, as of edges that several
            people drew). The classes of these two are background and object, unless named.
        reduce_zero: The number 0 is void and the first class is 1, as in ADE20K.
        holdout: For one folder of all images: every `holdout`-th is "val", the rest "train"; copies stay together.
        split: With `holdout`, which part.
        max_skipped: Share of the images that may be unusable: without a label map, a line of the list that is no pair
            or names a file that is not there. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file, and the line where there is one: no folder, no list, more unusable images than
            `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        images: str = "images",
        labels: str = "labels",
        pairs: str | None = None,
        classes: Sequence[str] | None = None,
        ignore_labels: Sequence[int] = (255,),
        label_suffix: str = ".png",
        palette: Sequence[Colour] | None = None,
        kind: Literal["ids", "colours", "binary", "soft"] = "ids",
        reduce_zero: bool = False,
        max_skipped: float = MAX_SKIPPED,
        holdout: int | None = None,
        split: Literal["train", "val"] | None = None,
    ) -> None:
        source = open_source(root)
        names = _BINARY if classes is None and kind in ("binary", "soft") else classes
        names = _class_names(source) if names is None else names
        self._skipped = Tally()
        if pairs is None:
            known = Finder(source.below(labels))
            beside = partial(_beside, source, images, labels, known, label_suffix)
            what, found = f"ImageLabelPairs {root} {images}", _images(source, images)
            if holdout is not None:
                pictures = [f"{images}/{name}".lstrip("/") for name in found]
                found = held_out(source, found, split, holdout, "ImageLabelPairs", pictures)
            files = [pair for _, pair in usable(what, found, beside, max_skipped, self._skipped, "images")]
        else:
            files = read_list(source, pairs, partial(_listed, source), max_skipped, self._skipped)
        self.passed = source.passed
        self.passed.say(f"ImageLabelPairs {root}")
        say_shared(f"ImageLabelPairs {root}", files, "label maps")
        super().__init__(
            source.table([image for image, _ in files]),
            source.table([label for _, label in files]),
            names,
            _reader(kind, names, ignore_labels, palette, reduce_zero),
            palette,
        )


def _reader(
    kind: str, names: Sequence[str], ignore: Sequence[int], palette: Sequence[Colour] | None, reduce_zero: bool
) -> LabelReader:
    if kind == "ids":
        return Ids(len(names), ignore, reduce_zero=reduce_zero)
    if kind == "colours":
        if palette is None or len(palette) != len(names):
            raise AttributeValueError(f"palette: label maps in colours need one of each of the {len(names)} classes")
        return Colours(palette)
    if len(names) != 2:
        raise AttributeValueError(f"classes: {kind} masks tell 2 classes apart, not {len(names)}")
    return Soft() if kind == "soft" else Binary()


def _images(source: Source, folder: str) -> list[str]:
    names = pictures_below(source, folder)
    if not names:
        raise DataError(f"{source.root}: no images in the folder '{folder}' (kinds: {' '.join(IMAGE_SUFFIXES)})")
    return names


def _beside(source: Source, images: str, labels: str, known: Finder, suffix: str, name: str) -> tuple[str, str]:
    """An image of one folder with the label map of the same name, which is `known`, in another."""
    label = stem(name) + suffix
    found = known.find(label)
    if found is None:
        raise DataError(
            f"{source.root}: {images}/{name} has no label map {labels}/{label}; put it there, or set label_suffix"
        )
    return f"{images}/{name}", f"{labels}/{found}"


def _listed(source: Source, line: str) -> tuple[str, str]:
    """The pair of a line of a list."""
    for mark in ("\t", ",", " "):
        words = line.split(mark)
        ways = ((mark.join(words[:at]).strip(), mark.join(words[at:]).strip()) for at in range(1, len(words)))
        for image, label in ways:  # names may hold the mark too
            found = source.find(image), source.find(label)
            if found[0] is not None and found[1] is not None:
                return found[0], found[1]
    words = line.replace(",", " ").split()
    if len(words) != 2:
        raise DataError(f"expects 'image label', found {line!r}, in which no two files are named")
    missing = next(word for word in words if source.find(word) is None)
    raise DataError(f"names {missing}, which is not there")


def _class_names(source: Source) -> list[str]:
    there = [name for name in CLASS_FILES if name in source.names()]
    if not there:
        raise DataError(f"{source.root}: no {' or '.join(CLASS_FILES)} with the names of the classes; set classes")
    return classes_in(source.read(there[0], "text_bytes"), f"{source.root}/{there[0]}", remark="#")
