"""LabelmeDetection: pictures with one JSON file each, as the tool labelme writes them (github.com/wkentaro/labelme)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suites.detection.datasets.annotations import RawAnnotations
from suites.detection.datasets.base import FileDataset, OnProblem
from suites.detection.datasets.layout import ClassTable, size_of
from suites.engine.registry import register
from suites.engine.sources import open_source
from suites.vision.files import held_out, is_image, listed_classes
from suites.vision.labelme import labels_of, outline_of, picture_of, read_documents


@register("dataset")
class LabelmeDetection(FileDataset):
    """Polygons, rectangles and circles; points and lines are left out. Shapes of one `group_id` are one object's parts.

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

    Raises:
        DataError: Names the file: JSON that is cut off, a shape without points, a missing picture.
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
    ) -> None:
        source = open_source(root)
        documents = read_documents(source)
        names = list(classes) if classes is not None else listed_classes(source) or labels_of(documents.values())
        files = list(documents) if holdout is None else held_out(list(documents), split, holdout, "LabelmeDetection")
        table = ClassTable(names, unknown_class == "skip")
        raw, missing = RawAnnotations(shapes=[] if masks else None), []
        present = set(source.names())
        for name in files:
            image = picture_of(documents[name])
            if not is_image(image) or image not in present:
                missing.append(f"{source.root}/{image or name}")
                continue
            at = raw.add_image(image, size_of(source, image))
            _add_objects(raw, at, documents[name], table, f"{source.root}/{name}", masks)
        super().__init__(
            f"LabelmeDetection {root}" + (f" {split}" if split else ""),
            raw,
            source.table(raw.files),
            names,
            missing=missing,
            unknown_boxes=table.unknown,
            bad_images=bad_images,
            skip_empty=skip_empty,
        )


def _add_objects(
    raw: RawAnnotations, image: int, document: dict[str, Any], table: ClassTable, where: str, masks: bool
) -> None:
    """Adds the objects of one file; parts of a group are one object."""
    objects: dict[tuple[str, Any], list[np.ndarray]] = {}
    for number, shape in enumerate(document["shapes"]):
        part = outline_of(shape, f"{where}: shape {number}")
        if part is not None:
            group = shape.get("group_id")
            which = number if group is None else f"group {group}"
            objects.setdefault((str(shape.get("label", "")), which), []).append(part)
    for (name, _), parts in objects.items():
        label = table.label(name, where)
        if label is not None:
            points = np.concatenate(parts)
            (x1, y1), (x2, y2) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
            raw.add_box(image, (x1, y1, x2, y2), label, shape=tuple(parts) if masks else None)
