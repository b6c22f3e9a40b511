"""Sets as annotation tools write them, all images in one file: CVAT's XML, VIA's JSON and Datumaro's JSON.

CVAT for images 1.1: https://docs.cvat.ai/docs/manual/advanced/formats/format-cvat/. VGG Image Annotator:
https://www.robots.ox.ac.uk/~vgg/software/via/. Datumaro: https://github.com/openvinotoolkit/datumaro.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem, missing_picture
from suites.detection.datasets.layout import ClassTable, size_of
from suites.detection.datasets.shapes import read_shape
from suites.detection.datasets.voc import parse_xml
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import as_written
from suites.engine.data.intake.texts import json_in
from suites.engine.data.intake.written import number_in
from suites.engine.data.skipping import MAX_SKIPPED, SetError
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.vision.files import held_out, listed_classes
from suites.vision.structures import Masks, Patch, corners_of, merged

_CVAT = ("box", "polygon", "ellipse", "mask")  # elements that are read
_ROUND = 64  # points of the polygon in place of an ellipse


class Part(NamedTuple):
    """An object, or a part of one.

    Attributes:
        label: its class.
        outline: float64 [P, 2] in pixels, or its bitmap.
        group: those of one group and label are one object; 0 of an object by itself.
        is_box: whether the outline is a box, which tells no shape beside other parts.
    """

    label: str
    outline: np.ndarray | Patch
    group: int = 0
    is_box: bool = False


@dataclass
class Entry:
    """An image as a file describes it.

    Attributes:
        image: its name in the file.
        size: (H, W) as stated; (0, 0) where it is not.
        objects: what is marked in it.
        left_out: kinds of shapes without an area, or that are not read, one a shape.
        problem: why it cannot be used; "" where it can.
    """

    image: str
    size: tuple[int, int] = (0, 0)
    objects: list[Part] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problem: str = ""


class ToolDetection(FileDataset):
    """Boxes, polygons and masks of a tool's file, and the pictures that it names, in its folder or below.

    Args:
        root: The folder of the pictures, a `.zip` of it (read in place), or a folder inside a zip.
        annotations: The file, relative to the root.
        classes: Class names in label order. None: the lines of classes.txt, labels.txt or label_list.txt in the root,
            else those that the file declares, else all labels in it, sorted.
        holdout: Every `holdout`-th image is "val", the rest "train"; copies stay together.
        split: With `holdout`, which part.
        unknown_class: What an object of a class outside `classes` is: an "error", or left out and counted ("skip").
        bad_images: "error", or "skip" to leave out, with a count, pictures that are missing or damaged.
        skip_empty: Leaves out images without boxes.
        masks: Reads the outlines as the objects' shapes too.
        max_skipped: Share of the images that may be unusable. They are left out and logged. 0: the first is an error.

    Raises:
        DataError: Names the file: no file of the tool, an unknown class, more unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        annotations: str,
        *,
        classes: Sequence[str] | None = None,
        holdout: int | None = None,
        split: Literal["train", "val"] | None = None,
        unknown_class: OnProblem = "error",
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        masks: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        declared, entries = self.parse(source, annotations)
        labels = sorted({label for entry in entries for label, *_ in entry.objects})
        names = list(classes) if classes is not None else listed_classes(source) or declared or labels
        files = {entry.image: _picture(source, annotations, entry.image) for entry in entries}
        if holdout is not None:
            said = [entry.image for entry in entries]
            kept = held_out(source, said, split, holdout, type(self).__name__, [files[name] or name for name in said])
            entries = [entry for entry in entries if entry.image in set(kept)]
        table = ClassTable(names, unknown_class == "skip")
        intake = Intake(f"{type(self).__name__} {root} {annotations}", bad_images, max_skipped, masks=masks)
        for entry in entries:
            with intake.image():
                for kind in sorted(set(entry.left_out)):
                    source.passed.note(f"images with shapes of the kind '{kind}'", f"{source.root}/{entry.image}")
                _take(intake, source, entry, files[entry.image], table, f"{source.root}/{annotations}")
        self.passed = source.passed
        super().__init__(
            intake, source.table(intake.raw.files), names, unknown_boxes=table.unknown, skip_empty=skip_empty
        )

    @staticmethod
    @abstractmethod
    def parse(source: Source, name: str) -> tuple[list[str], list[Entry]]:
        """The classes that a file declares, and its images; DataError where it is no file of the tool."""


def _picture(source: Source, annotations: str, name: str) -> str | None:
    """The file of a picture: by its name from the root or from the file's folder, else by the last part of it."""
    folder = annotations.rpartition("/")[0]
    last = as_written(name).rpartition("/")[2]
    places = (name, f"{folder}/{name}".lstrip("/"), f"{folder}/{last}".lstrip("/"), f"images/{name}", f"images/{last}")
    return next(filter(None, map(source.find, places)), None)


def _take(intake: Intake, source: Source, entry: Entry, file: str | None, table: ClassTable, where: str) -> None:
    if entry.problem:
        raise DataError(f"{where}: {entry.image}: {entry.problem}")
    if file is None:
        raise missing_picture(f"{source.root}/{entry.image}")
    size = entry.size if all(entry.size) else size_of(source, file)
    at = intake.raw.add_image(file, size, entry.image)
    groups: dict[tuple[str, int, int], list[Part]] = {}
    for number, part in enumerate(entry.objects):
        groups.setdefault((part.label, part.group, 0 if part.group else number), []).append(part)
    for (name, *_), parts in groups.items():
        label = table.label(name, f"{where}: {entry.image}")
        if label is not None:
            outlines = [part.outline for part in parts if not part.is_box] or [part.outline for part in parts]
            shape = merged(outlines, size) if intake.raw.shapes is not None else None
            corners = np.array([corners_of(part.outline) for part in parts])
            (x1, y1), (x2, y2) = corners[:, :2].min(axis=0).tolist(), corners[:, 2:].max(axis=0).tolist()
            intake.raw.add_box(at, (x1, y1, x2, y2), label, shape=shape)


def _rectangle(x1: float, y1: float, x2: float, y2: float, degrees: float = 0.0) -> np.ndarray:
    """The corners of a box, turned clockwise around its centre."""
    return _turned(np.array([[x1, y1], [x2, y1], [x2, y2], [x1, y2]], np.float64), math.radians(degrees))


def _turned(points: np.ndarray, turn: float) -> np.ndarray:
    """Points [P, 2] turned clockwise by radians around their middle."""
    if not turn:
        return points
    centre = points.mean(axis=0)
    matrix = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    turned: np.ndarray = (points - centre) @ matrix + centre
    return turned


def _polygon(points: Any) -> np.ndarray:
    outline = np.asarray(points, np.float64).reshape(-1, 2)
    if len(outline) < 3 or not np.isfinite(outline).all():
        raise ValueError(f"a polygon of {len(outline)} points; three finite ones are needed")
    return outline


def _ellipse(x: float, y: float, width: float, height: float, turn: float = 0.0) -> np.ndarray:
    """An outline with half sides `width` and `height`, turned clockwise by radians."""
    around = np.linspace(0, 2 * np.pi, _ROUND, endpoint=False)
    return _turned(np.stack([x + width * np.cos(around), y + height * np.sin(around)], axis=1), turn)


@register("dataset", needs={"split": "holdout"})
class CvatDetection(ToolDetection):
    """CVAT for images 1.1: boxes, polygons, ellipses, turned ones too, and masks; points and lines are left out.

    Shapes of one group and label are one object, as in what CVAT exports for COCO.
    """

    @staticmethod
    def parse(source: Source, name: str) -> tuple[list[str], list[Entry]]:
        """See `ToolDetection`."""
        root = parse_xml(source, name)
        if root.tag != "annotations" or root.find("image") is None:
            raise DataError(f"{source.root}/{name}: has no <image> in <annotations>; is it CVAT for images 1.1?")
        labels = (label for label in root.iter("label") if not (label.findtext("parent") or "").strip())
        declared = [(label.findtext("name") or "").strip() for label in labels]  # without points of skeletons
        return list(dict.fromkeys(filter(None, declared))), [_cvat_entry(image) for image in root.iter("image")]


def _cvat_entry(image: Any) -> Entry:
    found = Entry(str(image.get("name") or ""))
    try:
        found.size = int(image.get("height") or 0), int(image.get("width") or 0)
        found.objects = [
            Part(str(shape.get("label") or ""), outline, int(shape.get("group_id") or 0), shape.tag == "box")
            for shape, outline in _cvat_shapes(image)
        ]
        found.left_out = [shape.tag for shape in image if shape.tag not in (*_CVAT, "tag")]
    except (TypeError, ValueError, DataError) as error:
        found.problem = f"cannot be read ({error})"
    return found


def _cvat_shapes(image: Any) -> Iterator[tuple[Any, np.ndarray | Patch]]:
    for shape in image:
        if shape.tag == "box":
            x1, y1, x2, y2 = (number_in(shape.get(key)) for key in ("xtl", "ytl", "xbr", "ybr"))
            yield shape, _rectangle(x1, y1, x2, y2, number_in(shape.get("rotation") or 0))
        elif shape.tag == "polygon":
            yield shape, _polygon([list(map(float, pair.split(","))) for pair in shape.get("points", "").split(";")])
        elif shape.tag == "ellipse":
            x, y, width, height = (number_in(shape.get(key)) for key in ("cx", "cy", "rx", "ry"))
            yield shape, _ellipse(x, y, width, height, math.radians(number_in(shape.get("rotation") or 0)))
        elif shape.tag == "mask":
            runs = [int(run) for run in shape.get("rle", "").split(",")]
            yield shape, Patch.of_rows(runs, *(int(shape.get(key)) for key in ("left", "top", "width", "height")))


@register("dataset", needs={"split": "holdout"})
class ViaDetection(ToolDetection):
    """VGG Image Annotator's JSON, an export or a project: rectangles, polygons, circles and ellipses.

    The class is the one attribute of regions that all have; where several could be it, it must be called label, class,
    name, category or type.
    """

    @staticmethod
    def parse(source: Source, name: str) -> tuple[list[str], list[Entry]]:
        """See `ToolDetection`."""
        where = f"{source.root}/{name}"
        document = json_in(source.read(name, "data_bytes"), where)
        images = document.get("_via_img_metadata", document) if isinstance(document, dict) else None
        images = list(images.values()) if isinstance(images, dict) else images
        if not isinstance(images, list) or not all(isinstance(each, dict) and "regions" in each for each in images):
            raise DataError(f"{where}: its images have no `regions`; is it a file of VIA?")
        key = _via_key([region for image in images for region in _regions(image)], where)
        return [], [_via_entry(image, key) for image in images]


def _regions(image: Mapping[str, Any]) -> list[Any]:
    regions = image["regions"]
    return list(regions.values()) if isinstance(regions, dict) else regions if isinstance(regions, list) else []


def _via_key(regions: Sequence[Any], where: str) -> str:
    """The attribute that holds the class."""
    told = [region.get("region_attributes") or {} for region in regions if isinstance(region, dict)]
    counts = Counter(key for attributes in told for key in attributes)
    usual = [key for key in counts if key.lower() in ("label", "class", "name", "category", "type")]
    whole = [key for key, count in counts.items() if count == len(regions)]
    if len(usual) == 1 or len(whole) == 1:
        return (usual if len(usual) == 1 else whole)[0]
    if not counts:
        return ""
    raise SetError(f"{where}: several attributes of regions may be the class: {', '.join(counts)}; call it label")


def _via_entry(image: Mapping[str, Any], key: str) -> Entry:
    found = Entry(str(image.get("filename") or ""))
    try:
        for region in _regions(image):
            outline = _via_outline(region["shape_attributes"])
            if outline is not None:
                value = (region.get("region_attributes") or {}).get(key, "object" if not key else "")
                chosen = [name for name, on in value.items() if on] if isinstance(value, dict) else [str(value)]
                found.objects.append(Part(chosen[0] if len(chosen) == 1 else "", outline))
            else:
                found.left_out.append(str(region["shape_attributes"]["name"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found.problem = f"a region cannot be read ({type(error).__name__}: {error})"
    return found


def _via_outline(shape: Mapping[str, Any]) -> np.ndarray | None:
    kind = shape["name"]
    if kind == "rect":
        x, y = number_in(shape["x"]), number_in(shape["y"])
        return _rectangle(x, y, x + number_in(shape["width"]), y + number_in(shape["height"]))
    if kind == "polygon":
        return _polygon(list(zip(shape["all_points_x"], shape["all_points_y"], strict=True)))
    if kind in ("circle", "ellipse"):
        sides = (shape["r"], shape["r"]) if kind == "circle" else (shape["rx"], shape["ry"])
        x, y, width, height = map(number_in, (shape["cx"], shape["cy"], *sides))
        return _ellipse(x, y, width, height, number_in(shape.get("theta") or 0))  # in radians
    if kind in ("point", "polyline"):
        return None
    raise ValueError(f"a shape of kind {kind!r}")


@register("dataset", needs={"split": "holdout"})
class DatumaroDetection(ToolDetection):
    """Datumaro's JSON: boxes, turned ones too, polygons and masks; labels of images and points are left out.

    Annotations of one group and label are one object.
    """

    @staticmethod
    def parse(source: Source, name: str) -> tuple[list[str], list[Entry]]:
        """See `ToolDetection`."""
        where = f"{source.root}/{name}"
        document = json_in(source.read(name, "data_bytes"), where)
        try:
            labels = [str(label["name"]) for label in document["categories"]["label"]["labels"]]
            items = list(document["items"])
        except (KeyError, TypeError):
            raise DataError(f"{where}: has no `categories.label.labels` or no `items`; is it Datumaro's?") from None
        return labels, [_datumaro_entry(item, labels) for item in items]


def _datumaro_entry(item: Any, labels: Sequence[str]) -> Entry:
    found = Entry("")
    try:
        image = item.get("image") or {}
        found.image = str(image.get("path") or item["id"])
        found.size = tuple(map(int, image["size"])) if image.get("size") else (0, 0)  # type: ignore[assignment]
        for each in item["annotations"]:
            kind, outline = each["type"], _datumaro_outline(each)
            if outline is not None:
                label, group = _name(labels, each["label_id"]), int(each.get("group") or 0)
                found.objects.append(Part(label, outline, group, kind == "bbox"))
            elif kind != "label":
                found.left_out.append(str(kind))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, DataError) as error:
        found.problem = f"an item cannot be read ({type(error).__name__}: {error})"
    return found


def _datumaro_outline(each: Mapping[str, Any]) -> np.ndarray | Patch | None:
    """The outline of an annotation; None of one without an area."""
    if each["type"] == "bbox":
        x, y, width, height = map(float, each["bbox"])
        return _rectangle(x, y, x + width, y + height, float((each.get("attributes") or {}).get("rotation") or 0))
    if each["type"] == "polygon":
        return _polygon(each["points"])
    if each["type"] == "mask":
        return Patch(Masks((read_shape(each["rle"], "a mask"),), (0, 0)).bitmaps()[0], 0, 0)
    return None


def _name(labels: Sequence[str], number: Any) -> str:
    if type(number) is not int or not 0 <= number < len(labels):
        raise ValueError(f"label_id is {number!r}, which is none of the {len(labels)} labels")
    return labels[number]
