"""ImageLabelPairs: your own data, as two folders or as lists of `image label` lines."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import Source, open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Binary, Colour, Colours, Ids, LabelReader
from suites.vision.files import read_list
from suites.vision.images import IMAGE_SUFFIXES

_BINARY = ("background", "object")
_CLASS_FILES = ("classes.txt", "labels.txt")


@register("dataset")
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
        ignore_labels: Numbers in the label maps that are neither learnt nor counted; 255 is always one.
        label_suffix: What the name of a label map has in place of the image's suffix.
        palette: RGB (0 to 255) of each class in pictures; None chooses.
        kind: What the pixels of label maps are: "ids", "colours" (of `palette`; black is void unless it is a class), or
            "binary" (what is not 0 is class 1; the classes are then background and object, unless named).
        reduce_zero: The number 0 is void and the first class is 1, as in ADE20K.
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
        kind: Literal["ids", "colours", "binary"] = "ids",
        reduce_zero: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        if kind != "ids" and reduce_zero:
            raise AttributeValueError(f"reduce_zero: is about numbers, but the label maps are of the kind '{kind}'")
        names = _BINARY if classes is None and kind == "binary" else classes
        names = _class_names(source) if names is None else names
        self._skipped = Tally()
        if pairs is None:
            beside = partial(_beside, source, images, labels, set(source.names(labels)), label_suffix)
            what, found = f"ImageLabelPairs {root} {images}", _images(source, images)
            files = [pair for _, pair in usable(what, found, beside, max_skipped, self._skipped, "images")]
        else:
            files = read_list(source, pairs, partial(_listed, source), max_skipped, self._skipped)
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
        raise AttributeValueError(f"classes: binary masks tell 2 classes apart, not {len(names)}")
    return Binary()


def _images(source: Source, folder: str) -> list[str]:
    names = [name for name in source.names(folder) if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES]
    if not names:
        raise DataError(f"{source.root}: no images in the folder '{folder}' (kinds: {' '.join(IMAGE_SUFFIXES)})")
    return names


def _beside(source: Source, images: str, labels: str, known: Container[str], suffix: str, name: str) -> tuple[str, str]:
    """An image of one folder with the label map of the same name, which is `known`, in another."""
    label = PurePosixPath(name).stem + suffix
    if label not in known:
        raise DataError(
            f"{source.root}: {images}/{name} has no label map {labels}/{label}; put it there, or set label_suffix"
        )
    return f"{images}/{name}", f"{labels}/{label}"


def _listed(source: Source, line: str) -> tuple[str, str]:
    """The pair of a line of a list."""
    words = line.replace(",", " ").split()
    if len(words) != 2:
        raise DataError(f"expects 'image label', found {line!r}")
    for path in words:
        if not source.exists(path):
            raise DataError(f"names {path}, which is not there")
    return words[0], words[1]


def _class_names(source: Source) -> list[str]:
    there = [name for name in _CLASS_FILES if name in source.names()]
    if not there:
        raise DataError(f"{source.root}: no {' or '.join(_CLASS_FILES)} with the names of the classes; set classes")
    names = (line.partition("#")[0].strip() for line in _lines(source, there[0]))
    return [name for name in names if name]


def _lines(source: Source, name: str) -> list[str]:
    try:
        return source.read(name).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{source.root}/{name}: is no UTF-8 text ({error})") from None
