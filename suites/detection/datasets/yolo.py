"""YoloDetection: pictures with one text file each, as darknet and Ultralytics write them.

Format: https://docs.ultralytics.com/datasets/detect/, and /datasets/segment/ for polygons.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from framework.errors import ConfigError, DataError
from suites.detection.datasets.annotations import RawAnnotations
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem
from suites.detection.datasets.layout import size_of
from suites.engine.config.yaml_text import parse_text
from suites.engine.data.skipping import MAX_SKIPPED, SetError
from suites.engine.data.sources import Source, open_source
from suites.engine.registry import register
from suites.vision.files import held_out, is_image, listed_classes

_NAMES = ("data.yaml", "dataset.yaml", "data.yml")
_SLACK = 1e-3  # how far beyond the border, in shares of the picture, rounding may put a number


@register("dataset")
class YoloDetection(FileDataset):
    """Lines `class x y w h` (centre and size, shares of the picture), or `class x1 y1 x2 y2 ...`, a polygon.

    Pictures lie in `images/<split>/` and texts of the same name in `labels/<split>/`, or both in `<split>/images` and
    `<split>/labels`, or without splits. A picture without a text, or with an empty one, has no objects.

    Args:
        root: The folder that holds these, a `.zip` of it (read in place), or a folder inside a zip.
        split: "train" or "val", as the folders are called; None where there are none.
        classes: Class names in the order of their numbers. None: `names` of data.yaml in the root, else the lines of
            classes.txt, labels.txt or label_list.txt.
        holdout: For data without splits: every `holdout`-th picture in name order is "val", the rest "train".
        bad_images: "error", or "skip" to leave out, with a count, pictures that are damaged.
        skip_empty: Leaves out images without boxes.
        masks: Reads polygons as the objects' shapes too; every object must be one then.
        max_skipped: Share of the images that may be unusable: a line that is no object, a damaged picture. They are
            left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file and the line: no names of classes, a class beyond them, more unusable images than
            `max_skipped`.
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
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        names = list(classes) if classes is not None else _class_names(source)
        images, labels = _folders(source, None if holdout is not None else split)
        files = [name for name in source.names(images) if is_image(name)]
        if holdout is not None:
            files = held_out(files, split, holdout, "YoloDetection")
        what = f"YoloDetection {root}" + (f" {split}" if split else "")
        intake = Intake(what, bad_images, max_skipped, masks=masks)
        reader = _Reader(intake.raw, source, names)
        texts = set(source.names(labels))
        for file in files:
            text = f"{PurePosixPath(file).stem}.txt"
            with intake.image():
                reader.add(f"{images}/{file}".lstrip("/"), f"{labels}/{text}".lstrip("/") if text in texts else None)
        super().__init__(intake, source.table(intake.raw.files), names, skip_empty=skip_empty)


def _place(key: str) -> tuple[bool, int, str]:
    """Orders the keys of `names`: numbers as numbers, then the rest."""
    is_number = key.isascii() and key.isdigit() and len(key) < 10
    return not is_number, int(key) if is_number else 0, key


def _class_names(source: Source) -> list[str]:
    for file in _NAMES:
        if file in source.names():
            where = f"{source.root}/{file}"
            try:
                document = parse_text(source.read(file, "yaml_bytes").decode("utf-8-sig"), where).plain()
            except ConfigError as error:
                raise DataError(str(error)) from None
            except UnicodeDecodeError as error:
                raise DataError(f"{where}: not UTF-8 text ({error})") from None
            names = document.get("names") if isinstance(document, dict) else None
            if isinstance(names, dict):
                names = [names[key] for key in sorted(names, key=_place)]
            if not isinstance(names, list) or not names or any(isinstance(name, (list, dict)) for name in names):
                raise DataError(f"{where}: has no list `names`, the names of the classes")
            return [str(name) for name in names]
    listed = listed_classes(source)
    if listed is None:
        raise DataError(
            f"{source.root}: no names of classes: neither {', '.join(_NAMES)} nor classes.txt is there; give classes"
        )
    return listed


def _folders(source: Source, split: str | None) -> tuple[str, str]:
    """The folders of pictures and of texts."""
    if split is None:
        ways = [("images", "labels"), ("", "")]
    else:
        ways = [(f"images/{split}", f"labels/{split}"), (f"{split}/images", f"{split}/labels")]
    for images, labels in ways:
        if any(is_image(name) for name in source.names(images)):
            return images, labels
    looked = ", ".join(images or "the root" for images, _ in ways)
    hint = "" if split is None else "; without folders of splits, use holdout: 5 with split train or val"
    raise DataError(f"{source.root}: no pictures in {looked}{hint}")


class _Reader:
    """Turns text files into rows of `RawAnnotations`."""

    def __init__(self, raw: RawAnnotations, source: Source, names: Sequence[str]) -> None:
        self.raw = raw
        self._source, self._names, self._masks = source, names, raw.shapes is not None

    def add(self, image: str, text: str | None) -> None:
        height, width = size_of(self._source, image)
        at = self.raw.add_image(image, (height, width))
        if text is None:
            return
        scale = np.array([width, height], np.float64)
        lines = self._source.read(text, "text_bytes").decode("utf-8", "replace").splitlines()
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self._add_line(at, line.split(), scale, f"{self._source.root}/{text}:{number}")

    def _add_line(self, image: int, words: list[str], scale: np.ndarray, where: str) -> None:
        try:
            label, values = int(words[0]), np.array([float(word) for word in words[1:]])
        except ValueError:
            raise DataError(f"{where}: '{' '.join(words)[:60]}' are not all numbers; a class comes first") from None
        if not 0 <= label < len(self._names):
            raise SetError(
                f"{where}: class {label} is none of the {len(self._names)} classes, 0 to {len(self._names) - 1}"
            )
        if len(values) < 4 or len(values) % 2 or (len(values) == 4 and self._masks):
            wanted = "a polygon of three points or more" if self._masks else "x y w h, or a polygon"
            raise DataError(f"{where}: {len(values)} numbers behind the class; wanted is {wanted}")
        if not (np.isfinite(values).all() and values.min() >= -_SLACK and values.max() <= 1 + _SLACK):
            raise DataError(
                f"{where}: numbers from {values.min():g} to {values.max():g}; places are shares of the picture, 0 to 1"
            )
        points = values.reshape(-1, 2) * scale
        if len(values) == 4:
            low, high = points[0] - points[1] / 2, points[0] + points[1] / 2
        else:
            low, high = points.min(axis=0), points.max(axis=0)
        box = float(low[0]), float(low[1]), float(high[0]), float(high[1])
        self.raw.add_box(image, box, label, shape=(points,) if self._masks else None)
