"""YoloDetection: pictures with one text file each, as darknet and Ultralytics write them.

Format: https://docs.ultralytics.com/datasets/detect/; /segment/, /obb/ and /pose/ beside it for polygons, oriented
boxes and keypoints.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from framework.errors import ConfigError, DataError
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem
from suites.detection.datasets.layout import size_of
from suites.detection.datasets.yolo_lines import Keypoints, Line, keypoints_in, outline, parsed
from suites.engine.config.tree.yaml_text import parse_text
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import Finder, as_written, by_number, ending, stem
from suites.engine.data.intake.tables import repeated
from suites.engine.data.intake.texts import decoded, lines_of
from suites.engine.data.skipping import MAX_SKIPPED, SetError
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.vision.files import CLASS_FILES, held_out, listed_classes, pictures_below, read_lines, say_shared

_log = logging.getLogger(__name__)
NAMES = ("data.yaml", "dataset.yaml", "data.yml", "dataset.yml")
_SAME = {"val": ("val", "valid", "validation"), "train": ("train", "training"), "test": ("test", "testing")}
_BESIDE = (*CLASS_FILES, "train.txt", "val.txt", "valid.txt", "test.txt", "notes.json", "readme.txt")


@register("dataset")
class YoloDetection(FileDataset):
    """Lines `class x y w h` (centre and size, shares of the picture), or `class x1 y1 x2 y2 ...`, a polygon.

    Oriented boxes are polygons of four points. Keypoints (`class x y w h` and two or three numbers each) are known by
    `kpt_shape` of data.yaml, or by what all lines hold; they are left out. So is a confidence at the end of a line.

    Pictures lie in `images/<split>/` and texts of the same name in `labels/<split>/`, or both in `<split>/images` and
    `<split>/labels`, or where data.yaml says, or without splits; and in folders below these. A picture without a text,
    or with an empty one, has no objects.

    Args:
        root: The folder that holds these, a `.zip` of it (read in place), or a folder inside a zip.
        split: "train" or "val", as the folders are called ("valid" is "val"); None where there are none.
        classes: Class names in the order of their numbers. None: `names` of data.yaml in the root, else the lines of
            classes.txt, labels.txt or label_list.txt.
        holdout: For data without splits: every `holdout`-th picture in name order is "val", the rest "train".
        bad_images: "error", or "skip" to leave out, with a count, pictures that are damaged.
        skip_empty: Leaves out images without boxes.
        masks: Reads polygons as the objects' shapes too; every object must be one then.
        lines: What lines of more than a box hold: "polygons", "keypoints", or "auto" to tell by all lines.
        max_skipped: Share of the images that may be unusable: a line that is no object, a damaged picture. They are
            left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file and the line: no names of classes, a class beyond them, lines that may be polygons or
            keypoints, more unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | None = None,
        holdout: int | None = None,
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        masks: bool = False,
        lines: Literal["auto", "polygons", "keypoints"] = "auto",
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        document = _document(source)
        names = list(classes) if classes is not None else _class_names(source, document)
        files = _pictures(source, None if holdout is not None else split, document)
        if holdout is not None:
            files = held_out(source, files, split, holdout, "YoloDetection")
        what = f"YoloDetection {root}" + (f" {split}" if split else "")
        intake = Intake(what, bad_images, max_skipped, masks=masks)
        reader = _Reader(intake, source, names)
        both = list(_with_texts(source, files))
        say_shared(what, both, "texts")
        for image, text in both:
            reader.read(image, text)
        reader.add(_keypoints(lines, document, reader, source.root))
        self.passed = source.passed
        super().__init__(intake, source.table(intake.raw.files), names, skip_empty=skip_empty)

    @staticmethod
    def pictures(source: Source, split: str | None) -> list[str]:
        """Paths of the pictures of a split; DataError where there are none."""
        return _pictures(source, split, _document(source))


def _document(source: Source) -> dict[str, Any]:
    """What data.yaml says; nothing where there is none."""
    for file in NAMES:
        if file in source.names():
            where = f"{source.root}/{file}"
            try:
                document = parse_text(decoded(source.read(file, "yaml_bytes"), where), where).plain()
            except ConfigError as error:
                raise DataError(str(error)) from None
            if not isinstance(document, dict):
                raise DataError(f"{where}: holds no keys such as names")
            return {**document, _FILE: where}
    return {}


_FILE = "."  # key of the document's own place, which no YAML of YOLO has


def _class_names(source: Source, document: dict[str, Any]) -> list[str]:
    if document:
        names = document.get("names")
        if isinstance(names, dict):
            keys = sorted(names, key=lambda key: by_number(str(key)))
            if [str(key) for key in keys] != [str(at) for at in range(len(keys))]:
                raise DataError(f"{document[_FILE]}: the numbers of `names` are not 0 to {len(keys) - 1}, each once")
            names = [names[key] for key in keys]
        if not isinstance(names, list) or not names or any(isinstance(name, (list, dict)) for name in names):
            raise DataError(f"{document[_FILE]}: has no list `names`, the names of the classes")
        if twice := repeated([str(name) for name in names]):
            raise DataError(f"{document[_FILE]}: the class {twice[0]!r} stands twice in `names`; take one out")
        return [str(name) for name in names]
    listed = listed_classes(source)
    if listed is None:
        raise DataError(
            f"{source.root}: no names of classes: neither {', '.join(NAMES)} nor classes.txt is there; give classes"
        )
    return listed


def _pictures(source: Source, split: str | None, document: dict[str, Any]) -> list[str]:
    """Paths of the pictures of a split."""
    if split is None:
        ways = ["images", ""]
    else:
        own = _SAME.get(split, (split,))
        ways = [way for name in own for way in (f"images/{name}", f"{name}/images")]
    for folder in ways:
        found = pictures_below(source, folder)
        if found:
            return [f"{folder}/{name}" if folder else name for name in found]
    named = [] if split is None else list(_named(source, split, document))
    if named:
        return named
    looked = ", ".join(folder or "the root" for folder in ways)
    hint = "" if split is None else "; without folders of splits, use holdout: 5 with split train or val"
    raise DataError(f"{source.root}: no pictures in {looked}{hint}")


def _named(source: Source, split: str, document: dict[str, Any]) -> Iterator[str]:
    """The pictures of the folders, or of the lists, that data.yaml names for a split."""
    said = next((document[name] for name in _SAME.get(split, (split,)) if name in document), None)
    base = as_written(str(document.get("path") or ""))
    for place in said if isinstance(said, list) else [said] if isinstance(said, str) else []:
        for path in dict.fromkeys((as_written(place), f"{base}/{as_written(place)}", _below(place))):
            listed = source.find(path) if ending(path) == ".txt" else None
            if listed is not None:
                yield from filter(None, map(source.find, map(as_written, read_lines(source, listed))))
                break
            found = pictures_below(source, path)
            if found:
                yield from (f"{path}/{name}" for name in found)
                break


def _below(place: str) -> str:
    """A place without the `../` that Roboflow writes before it."""
    return "/".join(part for part in as_written(place).split("/") if part != "..")


def _with_texts(source: Source, files: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each picture with its text; what texts have no picture is noted."""
    texts = Finder(name for name in source.below() if ending(name) == ".txt")
    for file in files:
        folders = file.split("/")[:-1]
        at = max((i for i, name in enumerate(folders) if name == "images"), default=None)
        other = file if at is None else "/".join([*folders[:at], "labels", *file.split("/")[at + 1 :]])
        yield file, texts.find(f"{stem(other)}.txt") or texts.find(f"{stem(file)}.txt")


def _keypoints(lines: str, document: dict[str, Any], reader: _Reader, root: str) -> Keypoints | None:
    shape = document.get("kpt_shape")
    if lines == "polygons" or (lines == "auto" and shape is None and not reader.lines):
        return None
    if shape is not None:
        if not (isinstance(shape, list) and len(shape) == 2 and type(shape[0]) is int and shape[1] in (2, 3)):
            raise DataError(f"{document[_FILE]}: kpt_shape is {shape!r}; it must be [keypoints, 2] or [keypoints, 3]")
        return Keypoints(shape[0], shape[1])
    found = None
    try:
        found = keypoints_in(reader.lines, root)
    except DataError:
        if lines == "auto":
            raise
    if found is None and lines == "keypoints":
        longest = max((len(line.values) for line in reader.lines), default=4)
        found = Keypoints((longest - 4) // 2, 2)
    if found is not None:
        _log.info(
            "%s: each line holds a box and %d keypoints of %d numbers; they are left out",
            root,
            found.count,
            found.numbers,
        )
    return found


class _Reader:
    """Reads the texts of all pictures, then takes their objects in by what the lines hold."""

    def __init__(self, intake: Intake, source: Source, names: Sequence[str]) -> None:
        self.lines: list[Line] = []
        self._intake, self._source, self._names = intake, source, names
        self._images: list[tuple[str, str | None, list[Line], DataError | None]] = []
        self._masks = intake.raw.shapes is not None

    def read(self, image: str, text: str | None) -> None:
        """Parses the text of a picture; what is wrong with it is told when the picture is taken in."""
        found: list[Line] = []
        problem = None
        try:
            if text is not None:
                where = f"{self._source.root}/{text}"
                lines = enumerate(lines_of(decoded(self._source.read(text, "text_bytes"), where)), start=1)
                found = [parsed(line, f"{where}:{number}") for number, line in lines if line.strip()]
        except DataError as error:
            problem = error
        self.lines += found
        self._images.append((image, text, found, problem))

    def add(self, keypoints: Keypoints | None) -> None:
        """Takes all pictures in."""
        sure = 0
        for image, _, lines, problem in self._images:
            with self._intake.image():
                if problem is not None:
                    raise problem
                height, width = size_of(self._source, image)
                at = self._intake.raw.add_image(image, (height, width), image)
                sure += sum([self._add_line(at, line, keypoints, (width, height)) for line in lines])
        if sure:
            _log.info("%s: %d lines end with a confidence, which is left out", self._source.root, sure)

    def _add_line(self, image: int, line: Line, keypoints: Keypoints | None, scale: tuple[int, int]) -> bool:
        """Adds an object; returns whether its line ends with a confidence."""
        if not 0 <= line.label < len(self._names):
            raise SetError(
                f"{line.where}: class {line.label} is none of the {len(self._names)} classes, 0 to "
                f"{len(self._names) - 1}"
            )
        shares, is_box, sure = outline(line, keypoints)
        if self._masks and is_box:
            raise DataError(f"{line.where}: is a box; for masks a polygon of three points or more is needed")
        points = shares * scale
        low, high = (
            (points[0] - points[1] / 2, points[0] + points[1] / 2)
            if is_box
            else (points.min(axis=0), points.max(axis=0))
        )
        box = float(low[0]), float(low[1]), float(high[0]), float(high[1])
        self._intake.raw.add_box(image, box, line.label, shape=(points,) if self._masks else None)
        return sure
