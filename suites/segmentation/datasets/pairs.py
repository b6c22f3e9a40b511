"""ImageLabelPairs: your own data, as two folders or as lists of `image label` lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from framework.errors import AttributeValueError, DataError
from suites.engine.registry import register
from suites.engine.sources import Source, open_source
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Binary, Colour, Colours, Ids, LabelReader
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

    Raises:
        DataError: Names the file, and the line where there is one: no folder, no list, an image without labels.
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
    ) -> None:
        source = open_source(root)
        if kind != "ids" and reduce_zero:
            raise AttributeValueError(f"reduce_zero: is about numbers, but the label maps are of the kind '{kind}'")
        names = _BINARY if classes is None and kind == "binary" else classes
        names = _class_names(source) if names is None else names
        files = _listed(source, pairs) if pairs is not None else _beside(source, images, labels, label_suffix)
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


def _beside(source: Source, images: str, labels: str, suffix: str) -> list[tuple[str, str]]:
    """Images of one folder with the label maps of the same name in another."""
    names = [name for name in source.names(images) if PurePosixPath(name).suffix.lower() in IMAGE_SUFFIXES]
    if not names:
        raise DataError(f"{source.root}: no images in the folder '{images}' (kinds: {' '.join(IMAGE_SUFFIXES)})")
    known = set(source.names(labels))
    wanted = [PurePosixPath(name).stem + suffix for name in names]
    missing = [label for label in wanted if label not in known]
    if missing:
        raise DataError(
            f"{source.root}: {len(missing)} of {len(names)} images have no label map, the first is "
            f"{labels}/{missing[0]}; put them there, or set label_suffix"
        )
    return [(f"{images}/{name}", f"{labels}/{label}") for name, label in zip(names, wanted, strict=True)]


def _listed(source: Source, name: str) -> list[tuple[str, str]]:
    """The pairs of a list."""
    pairs = []
    for number, line in enumerate(_lines(source, name), start=1):
        words = line.replace(",", " ").split()
        if not words:
            continue
        if len(words) != 2:
            raise DataError(f"{source.root}/{name}:{number}: expects 'image label', found {line.strip()!r}")
        pairs.append((words[0], words[1]))
    if not pairs:
        raise DataError(f"{source.root}/{name}: names no images; write lines 'image label'")
    missing = next((path for pair in pairs for path in pair if not source.exists(path)), None)
    if missing is not None:
        raise DataError(f"{source.root}/{name}: names {missing}, which is not there")
    return pairs


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
