"""LabelmeDetection: pictures with one JSON file each, as the tool labelme writes them (github.com/wkentaro/labelme)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suites.detection.datasets.annotations import RawAnnotations
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem, missing_picture
from suites.detection.datasets.layout import ClassTable, size_of
from suites.engine.data.intake.naming import stem
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.vision.files import listed_classes, pictures_below
from suites.vision.labelme import Documents, label_of, part_of, picture_of, stated_size
from suites.vision.structures import Patch, corners_of, merged


@register("dataset", needs={"split": "holdout"})
class LabelmeDetection(FileDataset):
    """Polygons, rectangles, circles and masks; points and lines are left out.

    Shapes of one `group_id` are one object's parts.
    The picture is the file beside the JSON that `imagePath` names; pictures inside of the JSON (`imageData`) are not
    read.

    Args:
        root: The folder of the JSON files, a `.zip` of it (read in place), or a folder inside a zip.
        split: "train" or "val" with `holdout`; None for all.
        classes: Class names in label order. None: the lines of classes.txt, labels.txt or label_list.txt in the root,
            else all labels found, sorted.
        holdout: Every `holdout`-th file in name order is "val", the rest "train".
        unknown_class: What an object of a class outside `classes` is: an "error", or left out and counted ("skip").
        bad_images: "error", or "skip" to leave out, with a count, pictures that are missing or damaged.
        skip_empty: Leaves out images without boxes.
        masks: Reads the objects' shapes too.
        max_skipped: Share of the images that may be unusable: JSON that is cut off, a shape without points, a missing
            or damaged picture. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file: no JSON at all, an unknown class, more unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | None = None,
        holdout: int | None = None,
        unknown_class: OnProblem = "error",
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        masks: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        documents = Documents(source)
        names = list(classes) if classes is not None else listed_classes(source) or documents.labels()
        files = documents.names if holdout is None else documents.held_out(split, holdout, "LabelmeDetection")
        table = ClassTable(names, unknown_class == "skip")
        what = f"LabelmeDetection {root}" + (f" {split}" if split else "")
        intake = Intake(what, bad_images, max_skipped, masks=masks)
        for name in files:
            with intake.image():
                document = documents[name]
                image = picture_of(source, name, document)
                if image is None:
                    raise missing_picture(f"{source.root}/{document.get('imagePath') or name}")
                size = stated_size(document)
                at = intake.raw.add_image(image, size if all(size) else size_of(source, image), name)
                alone = _add_objects(intake.raw, at, document, table, f"{source.root}/{name}", masks)
                source.passed.note("shapes without an area, such as points", *alone)
        annotated = {stem(name) for name in documents.names}
        self.passed = source.passed
        loose = (name for name in pictures_below(source) if stem(name) not in annotated)
        self.unannotated = tuple(sorted(set(loose) - set(intake.raw.files)))
        super().__init__(
            intake, source.table(intake.raw.files), names, unknown_boxes=table.unknown, skip_empty=skip_empty
        )


def _add_objects(
    raw: RawAnnotations, image: int, document: dict[str, Any], table: ClassTable, where: str, masks: bool
) -> list[str]:
    """Adds the objects of one file, parts of a group as one object; returns which shapes have no area."""
    alone = []
    objects: dict[tuple[str, Any], list[np.ndarray | Patch]] = {}
    for number, shape in enumerate(document["shapes"]):
        part = part_of(shape, f"{where}: shape {number}")
        if part is None:
            alone.append(f"{where}: shape {number} '{label_of(shape)}'")
        else:
            group = shape.get("group_id")
            which = number if group is None else f"group {group}"
            objects.setdefault((label_of(shape), which), []).append(part)
    for (name, _), parts in objects.items():
        label = table.label(name, where)
        if label is not None:
            corners = np.array([corners_of(part) for part in parts])
            (x1, y1), (x2, y2) = corners[:, :2].min(axis=0).tolist(), corners[:, 2:].max(axis=0).tolist()
            shape = merged(parts, raw.sizes[image]) if masks else None
            raw.add_box(image, (x1, y1, x2, y2), label, shape=shape)
    return alone
