"""CocoDetection: images and boxes from one JSON file in COCO's format (https://cocodataset.org/#format-data)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.annotations import RawAnnotations, clean_boxes
from suites.detection.datasets.base import FileDataset, OnProblem
from suites.detection.datasets.shapes import Shape, read_shape
from suites.detection.sample import GroundTruth
from suites.engine.names import did_you_mean
from suites.engine.registry import register
from suites.engine.sources import Source, open_source, read_file


@register("dataset")
class CocoDetection(FileDataset):
    """Boxes of a COCO JSON file, which may lie in a zip, and the images they belong to.

    Category ids may have gaps; labels count from 0 in the order of `classes`, and the ids are kept for
    submissions (`ground_truth().category_ids`). Crowd regions stay in samples and in the ground truth,
    marked; `collate` never makes them training targets.

    Args:
        annotations: The JSON file (`data/nuclei.zip/instances_train.json` reads from a zip).
        images: Folder of the images, or a folder inside a zip.
        classes: Category names in label order, a subset if wished; None takes all, by category id.
        unknown_class: What a box of a category outside `classes` is: an "error", or left out and counted
            ("skip").
        bad_images: "error", or "skip" to decode all images at the start and leave out, with a count, those
            that are missing, damaged, or not of the size the file says.
        skip_empty: Leaves out images without boxes.
        masks: Reads the objects' shapes too; every object must have one then.

    Raises:
        DataError: Names the file, and line and column of JSON that is cut off: keys that are missing, an
            annotation of an unknown image or category, a missing image, no images at all.
    """

    def __init__(
        self,
        annotations: str | Path,
        images: str | Path,
        *,
        classes: Sequence[str] | None = None,
        unknown_class: OnProblem = "error",
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        masks: bool = False,
    ) -> None:
        source = open_source(images)
        reader = _Reader(annotations, classes, unknown_class, masks)
        reader.read(_Presence(source))
        super().__init__(
            f"CocoDetection {annotations}",
            reader.raw,
            source.table(reader.raw.files),
            reader.class_names,
            category_ids=reader.category_ids,
            missing=[f"{source.root}/{name}" for name in reader.missing],
            unknown_boxes=reader.unknown,
            bad_images=bad_images,
            skip_empty=skip_empty,
        )


def read_coco_ground_truth(annotations: str | Path, *, masks: bool = False) -> GroundTruth:
    """The boxes, and `masks` if wanted, of a COCO JSON file without its images, to evaluate a file of results."""
    reader = _Reader(annotations, None, "error", masks)
    reader.read(None)
    raw, sizes = reader.raw, np.asarray(reader.raw.sizes, np.int32).reshape(-1, 2)
    table = clean_boxes(raw, sizes, raw.files.__getitem__)
    ids = np.asarray(raw.image_ids, np.int64), sizes, np.asarray(reader.category_ids, np.int64)
    return table.ground_truth(np.arange(len(sizes)), reader.class_names, *ids)


def read_json(path: str | Path) -> Any:
    """Parses a JSON file (also inside a zip); a DataError names file, line and column where it is cut off."""
    data = read_file(path)
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}:{error.colno}: the JSON is cut off or malformed ({error.msg}; {len(data)} bytes)"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a JSON file ({len(data)} bytes that are no text)") from None
    except RecursionError:
        raise DataError(f"{path}: its lists or objects lie too deep in each other") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DataError(f"{path}: is no JSON that can be read ({error})") from None


class _Presence:
    """Whether an image is there; folders are listed once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._folders: dict[str, set[str]] = {}

    def __contains__(self, name: str) -> bool:
        folder, _, file = name.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = set(self._source.names(folder))
        return file in self._folders[folder]


class _Reader:
    """Turns a COCO document into `RawAnnotations`, with the classes and what was left out."""

    def __init__(
        self, path: str | Path, classes: Sequence[str] | None, unknown_class: OnProblem, masks: bool = False
    ) -> None:
        self.raw = RawAnnotations(shapes=[] if masks else None)
        self.missing: list[str] = []
        self.unknown = 0
        self._path = path
        self._masks = masks
        self._skip_unknown = unknown_class == "skip"
        document = read_json(path)
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise DataError(f"{path}: holds a {kind}; COCO needs images, annotations and categories in an object")
        absent = [k for k in ("images", "annotations", "categories") if k not in document]
        if absent:
            raise DataError(f"{path}: no {absent[0]!r} in it; COCO needs images, annotations and categories")
        self._document = document
        self._choose_classes(classes)

    def read(self, present: _Presence | None) -> None:
        """Collects images and boxes; with `present`, leaves out images that are not there (`missing`)."""
        index_of: dict[int, int | None] = {}
        for image in self._document["images"]:
            image_id = self._get(image, "id", "an image")
            if image_id in index_of:
                raise DataError(f"{self._path}: two images have the id {image_id}; ids must be unique")
            file = str(image.get("file_name", ""))
            if present is not None and file not in present:
                self.missing.append(file)
                index_of[image_id] = None
            else:
                size = int(image.get("height") or 0), int(image.get("width") or 0)
                index_of[image_id] = self.raw.add_image(file, size, image_id)
        for annotation in self._document["annotations"]:
            self._add(annotation, index_of)

    def _add(self, annotation: dict[str, Any], index_of: dict[int, int | None]) -> None:
        who = f"annotation {annotation.get('id')}"
        image_id = self._get(annotation, "image_id", who)
        if image_id not in index_of:
            raise DataError(f"{self._path}: {who} is of image {image_id}, which is not among the images")
        at, label = index_of[image_id], self._label(annotation, who)
        if at is None or label is None:
            return
        box = self._get(annotation, "bbox", who)
        try:
            x, y, width, height = map(float, box)
        except (TypeError, ValueError):
            raise DataError(f"{self._path}: {who}: bbox is {box!r}; it must be [x, y, width, height]") from None
        area = float(annotation.get("area", "nan"))
        crowd = bool(annotation.get("iscrowd", 0))
        shape = self._shape(annotation, at, who) if self._masks else None
        self.raw.add_box(at, (x, y, x + width, y + height), label, area, crowd=crowd, shape=shape)

    def _shape(self, annotation: dict[str, Any], image: int, who: str) -> Shape:
        segmentation = self._get(annotation, "segmentation", who)
        who = f"{self._path}: {who}"
        shape = read_shape(segmentation, who)
        if not isinstance(shape, dict):
            return shape
        height, width = shape["size"]
        stated = self.raw.sizes[image]
        if stated == (0, 0):
            self.raw.sizes[image] = height, width
        elif (height, width) != stated:
            raise DataError(
                f"{who}: its run-length code is of a picture of {width}x{height}, but image "
                f"{self.raw.image_ids[image]} is {stated[1]}x{stated[0]} (width x height)"
            )
        return shape

    def _label(self, annotation: dict[str, Any], who: str) -> int | None:
        category = self._get(annotation, "category_id", who)
        if category in self._labels:
            return self._labels[category]
        if category not in self._names:
            raise DataError(
                f"{self._path}: {who} has category_id {category}, which is not among the categories "
                f"{sorted(self._names)[:20]}"
            )
        if not self._skip_unknown:
            raise DataError(
                f"{self._path}: {who}: class {self._names[category]!r} is not among the "
                f'{len(self.class_names)} classes given. Set unknown_class: "skip" to leave such boxes out'
            )
        self.unknown += 1
        return None

    def _choose_classes(self, classes: Sequence[str] | None) -> None:
        rows = [(self._get(c, "id", "a category"), str(c.get("name"))) for c in self._document["categories"]]
        self._names = dict(sorted(rows))
        ids = {name: category for category, name in self._names.items()}
        self.class_names = list(self._names.values() if classes is None else classes)
        for name in self.class_names:
            if name not in ids:
                raise DataError(
                    f"{self._path}: has no category {name!r}{did_you_mean(name, ids)} It has {', '.join(ids)}"
                )
        self.category_ids = [ids[name] for name in self.class_names]
        self._labels = {category: label for label, category in enumerate(self.category_ids)}

    def _get(self, entry: dict[str, Any], key: str, who: str) -> Any:
        if key not in entry:
            raise DataError(f"{self._path}: {who} has no {key!r}")
        return entry[key]
