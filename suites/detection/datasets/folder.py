"""DetectionFolder: photos with boxes as people have them; the format and the parts are found.

VOC, COCO, YOLO, labelme, CVAT, VIA and Datumaro are told apart by what their files hold. Parts are lists, folders or
files that are named `train`, `val` (also `valid`, `dev`, ...) and `test`; without any, every fifth photo is for
evaluation.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.errors import DataError
from suites.detection.datasets.base import DetectionDataset
from suites.detection.datasets.coco import CocoDetection
from suites.detection.datasets.intake import OnProblem
from suites.detection.datasets.labelme import LabelmeDetection
from suites.detection.datasets.tools import CvatDetection, DatumaroDetection, ToolDetection, ViaDetection
from suites.detection.datasets.voc import VocDetection, class_names_of
from suites.detection.datasets.yolo import NAMES, YoloDetection
from suites.engine.contract.recognising import Recognised, part_folders, part_in, recogniser
from suites.engine.data.files import Source
from suites.engine.data.intake.dividing import EVERY, Part
from suites.engine.data.intake.naming import Endings, ending, stem
from suites.engine.data.skipping import MAX_SKIPPED, OtherKindError
from suites.engine.data.sources import open_set
from suites.engine.registry import register
from suites.vision.files import CLASS_FILES, is_image
from suites.vision.pictures.images import IMAGE_SUFFIXES

_log = logging.getLogger(__name__)
_HEAD = 1 << 16  # bytes at either end of a JSON file in which COCO's keys are looked for
_MOST_JSON = 32  # files that are looked into
_VOC = re.compile(rb"<annotation[\s>]")  # labelImg writes `verified="yes"` into the tag
_PHOTOS = ("JPEGImages", "images", "")


@dataclass(frozen=True)
class Layout:
    """What a folder is.

    Attributes:
        what: format and counts, for people.
        make: the class of the data set.
        parts: arguments of `make` by part, "train" and "val".
        common: further arguments of all parts.
    """

    what: str
    make: Callable[..., DetectionDataset]
    parts: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)


@register("dataset")
def DetectionFolder(
    root: str,
    part: Part = "train",
    classes: Sequence[str] | None = None,
    masks: bool = False,
    bad_images: OnProblem = "error",
    max_skipped: float = MAX_SKIPPED,
) -> DetectionDataset:
    """Photos with boxes in a folder or zip, as VOC, COCO, YOLO, labelme, CVAT, VIA or Datumaro write them.

    Args:
        root: the folder that holds all, or a zip of it.
        part: "train" or "val". Where nothing in the folder says which photo is which, every fifth is "val"; copies of a
            photo stay together.
        classes: names in label order; null for those that the files name.
        masks: read the objects' shapes too; not in VOC's format.
        bad_images: "error", or "skip" to leave out, with a count, photos that cannot be used.
        max_skipped: share of the photos that may be unusable.

    Raises:
        DataError: the folder is of none of these formats; the message says what lies there.
    """
    layout = layout_of(open_set(root))
    _log.info("%s: %s", root, layout.what)
    options: dict[str, Any] = {"bad_images": bad_images, "max_skipped": max_skipped}
    if masks and layout.make is not VocDetection:
        options["masks"] = True
    if classes is not None:
        options["classes"] = list(classes)
    return layout.make(**{**layout.common, **layout.parts[part], **options})


@register("recogniser", "detection")
@recogniser()
def recognise(path: Path) -> Recognised | None:
    """What a folder or zip of photos with boxes is, and the command that trains on it."""
    layout = layout_of(open_set(path))
    return Recognised(layout.what, "detection/photos", (f"data.root={path}",), 90)


def layout_of(source: Source) -> Layout:
    """The format and the parts of a folder; DataError where it is none of them."""
    names = source.endings()
    pictures = names.of(IMAGE_SUFFIXES)
    if not pictures:
        raise OtherKindError(f"{source.root}: no pictures in it (.jpg, .png, ...); {_lying(names)}")
    for find in (_coco, _tools, _voc, _yolo, _labelme):
        found = find(source, names, pictures)
        if found is not None:
            return found
    raise OtherKindError(
        f"{source.root}: {len(pictures)} pictures, but no annotation of a known format beside them (VOC's XML, "
        f"COCO's or labelme's JSON, YOLO's texts with data.yaml or classes.txt); {_lying(names)}"
    )


def _lying(names: Endings) -> str:
    kinds = names.counts.items()
    return "there are " + (", ".join(f"{count} {kind or 'no ending'} files" for kind, count in kinds) or "no files")


def _parts(found: Mapping[str, Mapping[str, Any]], whole: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Arguments by part: as found where there are both; else the whole set, divided."""
    if "train" in found and ("val" in found or "test" in found):
        return {"train": dict(found["train"]), "val": dict(found.get("val") or found["test"])}
    only = dict(found["train"]) if "train" in found else dict(whole)
    return {part: {**only, "holdout": EVERY, "split": part} for part in ("train", "val")}


def _said(parts: Mapping[str, Mapping[str, Any]]) -> str:
    divided = "holdout" in parts["train"]
    return (
        "without parts, so every fifth photo is for evaluation" if divided else "in parts for training and evaluation"
    )


def _coco(source: Source, names: Endings, pictures: Sequence[str]) -> Layout | None:
    candidates = names.of((".json",))[:_MOST_JSON]
    documents = {name: head for name in candidates if (head := _coco_head(source, name)) is not None}
    if not documents:
        return None
    files: dict[str, list[str]] = {}
    for name in documents:
        folder, _, file = name.rpartition("/")
        part = part_in(file) or part_in(folder.rpartition("/")[2]) or ("train" if len(documents) == 1 else None)
        if part is not None:
            files.setdefault(part, []).append(name)
    found: dict[str, dict[str, Any]] = {}
    for part, several in files.items():
        name = _of_boxes(source, part, several)
        images = _images_of(source, name.rpartition("/")[0], part, _first_picture(documents[name]))
        found[part] = {"annotations": f"{source.root}/{name}", "images": f"{source.root}/{images}".rstrip("/")}
    if "train" not in found:
        raise DataError(f"{source.root}: COCO files {', '.join(documents)}, none of them named train; name one so")
    parts = _parts(found, found["train"])
    return Layout(
        f"COCO: {len(documents)} annotation files, {len(pictures)} pictures, {_said(parts)}", CocoDetection, parts
    )


def _of_boxes(source: Source, part: str, names: Sequence[str]) -> str:
    """The file of a part: of those that COCO itself has for one, that of all boxes; DataError where there are others.

    COCO's are `instances_PART`, `person_keypoints_PART`, of the same pictures, and further ones without boxes.
    """
    whole = [name for name in names if name.rpartition("/")[2].startswith("instances")]
    return _alone(source, part, whole or names)


def _alone(source: Source, part: str, names: Sequence[str]) -> str:
    """The annotation file of a part; DataError where there are several: those behind the first would be left out."""
    if len(names) > 1:
        raise DataError(
            f"{source.root}: {len(names)} annotation files of the part '{part}': {', '.join(names[:4])}; join them, or "
            "name one in the data section of a config"
        )
    return names[0]


def _coco_head(source: Source, name: str) -> bytes | None:
    """Beginning and end of a COCO file; None where it is none."""
    data = source.read(name, "data_bytes")
    ends = data[:_HEAD] + data[-_HEAD:]
    text = ends.replace(b"\0", b"")  # also UTF-16
    if b'"bbox"' not in text and (b'"caption"' in text or b'"segments_info"' in text):
        return None  # COCO's captions, and its panoptic maps
    return text if b'"images"' in text and (b'"annotations"' in text or b'"categories"' in text) else None


def _first_picture(head: bytes) -> str:
    """The name of a picture that stands in what was read of a COCO file; "" where none does."""
    found = re.search(rb'"file_name"\s*:\s*("(?:[^"\\]|\\.)*")', head)
    try:
        return str(json.loads(found[1])) if found else ""
    except ValueError:
        return ""


def _images_of(source: Source, folder: str, part: str, picture: str) -> str:
    """Where the pictures of a COCO file in `folder` lie: where the one that it names does, else where there are any."""
    above = folder.rpartition("/")[0] if folder else ""
    parts = part_folders(source, above), part_folders(source, f"{above}/images".lstrip("/"))
    named = [places[part] for places in parts if part in places]
    every = [folder, *named, *(f"{above}/{name}".strip("/") for name in _PHOTOS)]
    if picture:
        for place in every:
            if source.find(f"{place}/{picture}".lstrip("/")) is not None:
                return place
    found = next((place for place in every if any(map(is_image, source.names(place)))), None)
    return next((place for place in every if any(map(is_image, source.below(place)))), "") if found is None else found


def _tools(source: Source, names: Endings, pictures: Sequence[str]) -> Layout | None:
    """A file of all images: CVAT's, VIA's or Datumaro's."""
    candidates = names.of((".xml", ".json"))[:_MOST_JSON]
    made = {name: make for name in candidates if (make := _tool_of(source, name)) is not None}
    if not made or len(set(made.values())) > 1:
        return None
    make = next(iter(made.values()))
    files: dict[str, list[str]] = {}
    for name in made:
        part = part_in(name.rpartition("/")[2]) or ("train" if len(made) == 1 else None)
        if part is not None:
            files.setdefault(part, []).append(name)
    found: dict[str, dict[str, Any]] = {
        part: {"root": source.root, "annotations": _alone(source, part, several)} for part, several in files.items()
    }
    if "train" not in found:
        raise DataError(f"{source.root}: annotation files {', '.join(made)}, none of them named train; name one so")
    common = {}
    if len(found) > 1:  # parts may lack classes of others
        every = {label for each in found.values() for label in make(**each).class_names}
        common = {"classes": sorted(every)}
    parts = _parts(found, found["train"])
    tool = make.__name__.removesuffix("Detection")
    what = f"{tool}: {len(made)} annotation files, {len(pictures)} pictures, {_said(parts)}"
    return Layout(what, make, parts, common)


def _tool_of(source: Source, name: str) -> type[ToolDetection] | None:
    head = source.read(name, "data_bytes")[:_HEAD].replace(b"\0", b"")
    if ending(name) == ".xml":
        return CvatDetection if b"<annotations>" in head and b"<image" in head else None
    if b'"shape_attributes"' in head or b'"_via_img_metadata"' in head:
        return ViaDetection
    return DatumaroDetection if b'"items"' in head and b'"label_id"' in head and b'"categories"' in head else None


def _voc(source: Source, names: Endings, pictures: Sequence[str]) -> Layout | None:
    files = names.of((".xml",))
    if not files or not _VOC.search(source.read(files[0], "text_bytes").replace(b"\0", b"")):
        return None
    lists = {stem(name) for name in source.names("ImageSets/Main")}
    folders = part_folders(source)
    found: dict[str, dict[str, Any]] = {}
    common: dict[str, Any] = {}
    if "train" in lists:
        found = {part: {"root": source.root, "split": part} for part in ("train", "val", "test") if part in lists}
    elif folders:
        found = {part: {"root": f"{source.root}/{folder}"} for part, folder in folders.items()}
        common = {"classes": sorted({name for each in found.values() for name in class_names_of(each["root"])})}
    parts = _parts(found, {"root": source.root})
    return Layout(
        f"Pascal VOC: {len(files)} annotations, {len(pictures)} pictures, {_said(parts)}", VocDetection, parts, common
    )


def _yolo(source: Source, names: Endings, pictures: Sequence[str]) -> Layout | None:
    files = names.of((".txt",))
    texts = {stem(name) for name in files if name not in CLASS_FILES}
    beside = sum(stem(name) in texts for name in pictures) if texts else 0
    labels = any("labels" in name.split("/")[:-1] for name in files)
    if not (labels or beside > len(pictures) / 2) or {*NAMES, *CLASS_FILES}.isdisjoint(names.names):
        return None
    found: dict[str, dict[str, Any]] = {}
    for part in ("train", "val", "test"):
        try:
            YoloDetection.pictures(source, part)
        except DataError:
            continue
        found[part] = {"root": source.root, "split": part}
    whole = {"root": source.root}
    parts = _parts(found if {"val", "test"} & found.keys() else {}, whole)
    return Layout(f"YOLO: {len(texts)} texts, {len(pictures)} pictures, {_said(parts)}", YoloDetection, parts)


def _labelme(source: Source, names: Endings, pictures: Sequence[str]) -> Layout | None:
    files = names.of((".json",))
    if not any(b'"shapes"' in source.read(name, "text_bytes").replace(b"\0", b"") for name in files[:4]):
        return None
    found = {part: {"root": f"{source.root}/{folder}"} for part, folder in part_folders(source).items()}
    common = {}
    if found:
        named = [LabelmeDetection(each["root"]).class_names for each in found.values()]
        common = {"classes": sorted({name for names in named for name in names})}
    parts = _parts(found, {"root": source.root})
    return Layout(
        f"labelme: {len(files)} files, {len(pictures)} pictures, {_said(parts)}", LabelmeDetection, parts, common
    )
