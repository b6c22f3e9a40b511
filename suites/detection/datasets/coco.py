"""CocoDetection: images and boxes from one JSON file in COCO's format (https://cocodataset.org/#format-data)."""

from __future__ import annotations

import glob
import logging
import math
from collections import Counter
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets.annotations import clean_boxes
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem, missing_picture
from suites.detection.datasets.shapes import Shape, lies_inside, read_shape
from suites.detection.sample import GroundTruth
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import as_written
from suites.engine.data.intake.texts import json_in
from suites.engine.data.intake.written import is_plain, number_in
from suites.engine.data.skipping import MAX_SKIPPED, SetError
from suites.engine.data.sources import find_data, open_source, read_file
from suites.engine.names import did_you_mean
from suites.engine.registry import register
from suites.vision.files import flag, held_out
from suites.vision.pose import pose_of_category, say_sides

_log = logging.getLogger(__name__)
_MOST_FILES = 8  # beside an annotation file that are looked into


@register("dataset", needs={"split": "holdout", "point_pairs": "keypoints"})
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
        holdout: For one file of all images: every `holdout`-th of them is "val", the rest "train".
        split: With `holdout`, which part.
        first_id: With a number, labels are the category ids less it, up to the largest; an id without a category is a
            class too, "category 12". torchvision's weights of COCO count so, from 1, or from 0 in its RetinaNet.
        masks: Reads the objects' shapes too; every object must have one then.
        keypoints: Reads the objects' points too. Every category must name as many; an object without has none to see.
        point_pairs: With `keypoints`, pairs of names of points that change places in a mirror, where the names do not
            say it: "left_eye" and "right_eye" do.
        max_skipped: Share of the images that may be unusable: an entry, or an annotation, that is malformed or
            contradicts the file, or no picture. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file, and line and column of JSON that is cut off: keys that are missing, a class that
            is not among `classes`, no images at all, more unusable images than `max_skipped`.
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
        keypoints: bool = False,
        point_pairs: Sequence[tuple[str, str]] | None = None,
        max_skipped: float = MAX_SKIPPED,
        holdout: int | None = None,
        split: Literal["train", "val"] | None = None,
        first_id: int | None = None,
    ) -> None:
        if first_id is not None and classes is not None:
            raise AttributeValueError("CocoDetection: classes and first_id both say which labels there are; give one")
        source = open_source(images)
        intake = Intake(f"CocoDetection {annotations}", bad_images, max_skipped, masks=masks)
        reader = _Reader(intake, annotations, classes, unknown_class)
        if keypoints:
            reader.read_points(point_pairs)
        if first_id is not None:
            reader.count_from(first_id)
        if holdout is not None:
            reader.hold_out(source, split, holdout)
        reader.read(source)
        self.passed = source.passed
        reader.tell()
        super().__init__(
            intake,
            source.table(intake.raw.files),
            reader.class_names,
            category_ids=reader.category_ids,
            unknown_boxes=reader.unknown,
            skip_empty=skip_empty,
        )


def read_coco_ground_truth(annotations: str | Path, *, masks: bool = False) -> GroundTruth:
    """The boxes, and `masks` if wanted, of a COCO JSON file without its images, to evaluate a file of results."""
    intake = Intake(str(annotations), masks=masks)
    reader = _Reader(intake, annotations, None, "error")
    reader.read(None)
    raw, sizes = intake.raw, np.asarray(intake.raw.sizes, np.int32).reshape(-1, 2)
    table = clean_boxes(raw, sizes)
    ids = np.asarray(raw.image_ids, np.int64), sizes, np.asarray(reader.category_ids, np.int64)
    return table.ground_truth(np.arange(len(sizes)), reader.class_names, *ids)


def read_json(path: str | Path) -> Any:
    """Parses a JSON file (also inside a zip); a DataError names file, line and column where it is cut off."""
    return json_in(read_file(path), str(path))


class _Pictures:
    """Finds images by the names in a document; folders are listed once."""

    def __init__(self, source: Source) -> None:
        self.root = source.root
        self._source = source
        self._folders: dict[str, set[str]] = {}

    def find(self, name: str) -> str | None:
        """The file of an image: of the name that the document gives, else of the last part of it."""
        folder, _, file = name.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = set(self._source.names(folder))
        if file in self._folders[folder]:
            return name
        return self._source.find(name) or self._source.find(as_written(name).rpartition("/")[2])


class _Reader:
    """Takes the images of a COCO document in, with the classes and what was left out."""

    def __init__(
        self, intake: Intake, path: str | Path, classes: Sequence[str] | None, unknown_class: OnProblem
    ) -> None:
        self.unknown = 0
        self._intake, self._raw = intake, intake.raw
        self._path = path
        self._points = 0  # of each object, where they are read
        self._inner: list[str] = []  # objects of which a polygon lies inside another
        self._skip_unknown = unknown_class == "skip"
        document = read_json(path)
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise DataError(f"{path}: holds a {kind}; COCO needs images, annotations and categories in an object")
        for key in ("images", "annotations", "categories"):
            if key not in document:
                raise DataError(f"{path}: no {key!r} in it; COCO needs images, annotations and categories")
            if not isinstance(document[key], list):
                raise DataError(f"{path}: {key!r} is a {type(document[key]).__name__}; COCO needs a list")
        self._document = document
        self._choose_classes(classes)

    def tell(self) -> None:
        """Say what of the shapes is read otherwise than it may be meant."""
        if self._inner:
            _log.warning(
                "%s: of %d objects one polygon lies inside another (the first: %s); polygons of COCO have no holes, so "
                "both are filled. Write such objects as run-length codes",
                *(self._path, len(self._inner), self._inner[0].removeprefix(f"{self._path}: ")),
            )

    def read_points(self, pairs: Sequence[tuple[str, str]] | None) -> None:
        """Reads keypoints too, as many as each of the chosen categories names."""
        rows = {_whole(row["id"]): row for row in self._document["categories"]}
        chosen = [rows.get(category, {}) for category in self.category_ids]
        counts = {len(row["keypoints"]) if isinstance(row.get("keypoints"), list) else 0 for row in chosen}
        if len(counts) != 1 or 0 in counts:
            raise DataError(
                f"{self._path}: keypoints: its categories name {sorted(counts)} points; each must have a list "
                "'keypoints' of names, all of one length"
            )
        (self._points,) = counts
        self._raw.points = []
        try:
            poses = {pose_of_category(row) if pairs is None else pose_of_category(row).paired(pairs) for row in chosen}
        except (DataError, AttributeValueError) as error:
            raise DataError(f"{self._path}: keypoints: {error}") from None
        self._raw.pose = poses.pop() if len(poses) == 1 else None
        if self._raw.pose is not None:
            say_sides(str(self._path), self._raw.pose)

    def hold_out(self, source: Source, split: str | None, holdout: int) -> None:
        """Keeps the images of a part; annotations of the others go with them."""
        images = [image for image in self._document["images"] if isinstance(image, dict)]
        pictures = _Pictures(source)
        said = [str(image.get("file_name", "")) for image in images]
        files = [pictures.find(name) or name for name in said]
        places = list(map(str, range(len(images))))
        kept = {int(at) for at in held_out(source, places, split, holdout, "CocoDetection", files)}
        left = [_whole(image.get("id")) for at, image in enumerate(images) if at not in kept]
        self._document["images"] = [image for at, image in enumerate(images) if at in kept]
        self._document["annotations"] = [
            each for each in self._document["annotations"] if _whole(_value(each, "image_id")) not in {*left}
        ]

    def read(self, source: Source | None) -> None:
        """Takes in images with their boxes; with `source`, their pictures must be there."""
        present = None if source is None else _Pictures(source)
        images = [(_whole(_value(image, "id")), image) for image in self._document["images"]]
        times = Counter(image_id for image_id, _ in images)
        annotations: dict[int | None, list[Any]] = {}
        for annotation in self._document["annotations"]:
            annotations.setdefault(_whole(_value(annotation, "image_id")), []).append(annotation)
        for image_id, image in images:
            with self._intake.image():
                if image_id is None:
                    self._get(image, "id", "an image")
                    raise DataError(f"{self._path}: the id of an image is {image['id']!r}; it must be a whole number")
                if times[image_id] > 1:
                    raise DataError(f"{self._path}: two images have the id {image_id}; ids must be unique")
                said = str(image.get("file_name", ""))
                file = said if present is None else present.find(said)
                if present is not None and file is None:
                    raise missing_picture(f"{present.root}/{said}")
                at = self._raw.add_image(str(file), self._size(image, image_id), f"image {image_id}", image_id)
                for annotation in annotations.get(image_id, ()):
                    self._add(annotation, at)
        self._refuse_strays(annotations, times)

    def _refuse_strays(self, annotations: dict[int | None, list[Any]], known: Container[int | None]) -> None:
        """Annotations of no image: all of one number count as one image, as do each of those without a number."""
        for image_id, strays in annotations.items():
            for annotation in strays if image_id is None else strays[:1] if image_id not in known else ():
                with self._intake.image():
                    who = self._who(annotation)
                    value = self._get(annotation, "image_id", who)
                    raise DataError(f"{self._path}: {who} is of image {value!r}, which is not among the images")

    def _size(self, image: dict[str, Any], image_id: int) -> tuple[int, int]:
        """(H, W) as the file says; 0 where it does not."""
        sides = [_whole(image.get(side) or 0) for side in ("height", "width")]
        if sides[0] is None or sides[1] is None:
            stated = f"{image.get('width')!r} x {image.get('height')!r}"
            raise DataError(f"{self._path}: image {image_id} is {stated} (width x height); whole numbers are needed")
        return sides[0], sides[1]

    def _add(self, annotation: Any, at: int) -> None:
        who = self._who(annotation)
        label = self._label(annotation, who)
        if label is None:
            return
        box = self._get(annotation, "bbox", who)
        try:
            x, y, width, height = (number_in(side) for side in box if isinstance(box, list))
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{self._path}: {who}: bbox is {box!r}; it must be [x, y, width, height]") from None
        corners = x, y, x + width, y + height
        if not all(map(math.isfinite, corners)):
            raise DataError(f"{self._path}: {who}: bbox is {box!r}; it must be of finite numbers")
        crowd = flag(annotation.get("iscrowd") or 0, f"{self._path}: {who}: iscrowd")
        shape = None if self._raw.shapes is None else self._shape(annotation, at, who)
        points = None if self._raw.points is None else self._keypoints(annotation, who)
        self._raw.add_box(at, corners, label, self._area(annotation, who), crowd=crowd, shape=shape, points=points)

    def _keypoints(self, annotation: dict[str, Any], who: str) -> list[tuple[float, float, float]]:
        """(x, y, visible) of each point; zeros of an object without."""
        written = annotation.get("keypoints") or [0] * (3 * self._points)
        try:
            numbers = [number_in(value) for value in written] if isinstance(written, list) else []
        except (TypeError, ValueError, OverflowError):
            numbers = []
        if len(numbers) != 3 * self._points or not all(map(math.isfinite, numbers)):
            raise DataError(
                f"{self._path}: {who}: keypoints is {str(written)[:60]}; it must be {self._points} times x, y, visible"
            )
        return [(x, y, visible) for x, y, visible in zip(*[iter(numbers)] * 3, strict=True)]

    def _area(self, annotation: dict[str, Any], who: str) -> float:
        area = annotation.get("area")
        try:
            return math.nan if area is None else number_in(area)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{self._path}: {who}: area is {area!r}; it must be a number") from None

    def _shape(self, annotation: dict[str, Any], image: int, who: str) -> Shape:
        segmentation = self._get(annotation, "segmentation", who)
        who = f"{self._path}: {who}"
        shape = read_shape(segmentation, who)
        if not isinstance(shape, dict):
            if len(shape) > 1 and lies_inside(shape):
                self._inner.append(who)
            return shape
        height, width = shape["size"]
        stated = self._raw.sizes[image]
        if stated == (0, 0):
            self._raw.sizes[image] = height, width
        elif (height, width) != stated:
            raise DataError(
                f"{who}: its run-length code is of a picture of {width}x{height}, but image "
                f"{self._raw.image_ids[image]} is {stated[1]}x{stated[0]} (width x height)"
            )
        return shape

    def _label(self, annotation: dict[str, Any], who: str) -> int | None:
        value = self._get(annotation, "category_id", who)
        category = _whole(value)
        if category in self._labels:
            return self._labels[category]
        if category not in self._names:
            raise DataError(
                f"{self._path}: {who} has category_id {value!r}, which is not among the categories "
                f"{sorted(self._names)[:20]}"
            )
        if not self._skip_unknown:
            raise SetError(
                f"{self._path}: {who}: class {self._names[category]!r} is not among the "
                f'{len(self.class_names)} classes given. Set unknown_class: "skip" to leave such boxes out'
            )
        self.unknown += 1
        return None

    def _choose_classes(self, classes: Sequence[str] | None) -> None:
        names: dict[int, str] = {}
        parents: set[str] = set()
        for row in self._document["categories"]:
            category = _whole(self._get(row, "id", "a category"))
            if category is None:
                raise DataError(f"{self._path}: the id of a category is {row['id']!r}; it must be a whole number")
            if category in names:
                raise DataError(f"{self._path}: two categories have the id {category}; ids must be unique")
            names[category] = str(row.get("name") or "").strip()
            parents.add(str(row.get("supercategory") or "").strip())
        self._names = dict(sorted(names.items()))
        used = {_whole(_value(annotation, "category_id")) for annotation in self._document["annotations"]}
        self._drop_unused(used, parents)
        ids = self._ids()
        self.class_names = list(self._names.values() if classes is None else classes)
        for name in self.class_names:
            if name not in ids:
                raise DataError(
                    f"{self._path}: has no category {name!r}{did_you_mean(name, ids)} It has {', '.join(ids)}"
                )
        self.category_ids = [ids[name] for name in self.class_names]
        self._labels: dict[int | None, int] = {category: label for label, category in enumerate(self.category_ids)}

    def count_from(self, first: int) -> None:
        """Labels are the category ids less `first`; ids without a category are classes of no objects."""
        if min(self._names) < first:
            raise DataError(f"{self._path}: category {min(self._names)} is below first_id, {first}")
        self.category_ids = list(range(first, max(self._names) + 1))
        self.class_names = [self._names.get(category, f"category {category}") for category in self.category_ids]
        self._labels = {category: label for label, category in enumerate(self.category_ids)}

    def _drop_unused(self, used: Container[int | None], parents: Container[str]) -> None:
        """Leaves out categories that only stand above others: without objects, here or in files beside this one.

        A category is one above others where another names it as its `supercategory`, or has its name, or where its id
        is 0, as Roboflow writes the root.
        """
        times = Counter(self._names.values())
        above = {
            category: name
            for category, name in self._names.items()
            if category not in used and (category == 0 or name in parents or times[name] > 1)
        }
        if not above or len(above) == len(self._names):
            return
        elsewhere = _categories_beside(Path(self._path))
        for category in above.keys() - elsewhere:
            name = self._names.pop(category)
            text = "%s: category %d, %r, has no object and stands above others; it is no class"
            _log.info(text, self._path, category, name)

    def _ids(self) -> dict[str, int]:
        """The category of each name; DataError where a name is missing or two have one."""
        ids: dict[str, int] = {}
        for category, name in self._names.items():
            if not name:
                raise DataError(f"{self._path}: category {category} has no name; give it one")
            if name in ids:
                raise DataError(
                    f"{self._path}: categories {ids[name]} and {category} both have the name {name!r}; rename one, or "
                    "give the objects of both one category"
                )
            ids[name] = category
        return ids

    def _who(self, annotation: Any) -> str:
        return f"annotation {_value(annotation, 'id')}"

    def _get(self, entry: Any, key: str, who: str) -> Any:
        if not isinstance(entry, dict):
            raise DataError(f"{self._path}: {who} is {repr(entry)[:60]}, no object")
        if key not in entry:
            raise DataError(f"{self._path}: {who} has no {key!r}")
        return entry[key]


def _categories_beside(path: Path) -> set[int | None]:
    """Categories that have objects in the annotations of other parts: JSON files beside, and as Roboflow lays them."""
    found = find_data(path)
    others = {*found.parent.glob("*.json")} - {found}
    if found.name.startswith("_annotations"):
        others |= {*found.parent.parent.glob(f"*/{glob.escape(found.name)}")} - {found}
    used: set[int | None] = set()
    for other in sorted(others)[:_MOST_FILES]:
        with suppress(DataError):
            document = read_json(other)
            annotations = document.get("annotations") if isinstance(document, dict) else None
            used |= {_whole(_value(each, "category_id")) for each in annotations or () if isinstance(annotations, list)}
    return used


def _value(entry: Any, key: str) -> Any:
    """A value of an entry; None where the entry is no object, or has none."""
    return entry.get(key) if isinstance(entry, dict) else None


def _whole(value: Any) -> int | None:
    """The int64 that a number or a text says; None where it says none."""
    if isinstance(value, bool) or (isinstance(value, str) and not is_plain(value.strip())):
        return None
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    exact = not isinstance(value, float) or value.is_integer()
    return whole if exact and -(2**63) <= whole < 2**63 else None
