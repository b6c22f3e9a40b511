"""CocoKeypoints: objects with points of a JSON file in COCO's format (https://cocodataset.org/#format-data)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.intake.texts import json_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source, read_file
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.datasets.base import Labelled, PoseDataset
from suites.vision.files import flag, listed_file
from suites.vision.pictures.stated import Size, stated_size
from suites.vision.pose import Pose, pose_of_category


@register("dataset")
class CocoKeypoints(PoseDataset):
    """The objects of one category, each with its points; crowd regions are left out.

    Args:
        annotations: the JSON file, which may lie in a zip.
        images: folder of the pictures, or a folder inside a zip.
        category: whose objects; null for the only one that names points.
        point_pairs: pairs of names of points that change places in a mirror, where the names do not say it.
        limit: how many objects at most; null for all.
        max_skipped: share of the objects that may be malformed; they are left out and logged.

    Raises:
        DataError: names the file, and what is wrong with it.
    """

    def __init__(
        self,
        annotations: str,
        images: str,
        *,
        category: str | None = None,
        point_pairs: Sequence[tuple[str, str]] | None = None,
        limit: int | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        document = json_in(read_file(Path(annotations)), annotations)
        number, kind, pose = _category(document, category, annotations)
        if point_pairs is not None:
            try:
                pose = pose.paired(point_pairs)
            except DataError as error:
                raise DataError(f"{annotations}: point_pairs: {error}") from None
        source, skipped = open_source(images), Tally()
        pictures, sizes = _pictures(document["images"], annotations), dict[str, Size]()
        what = f"CocoKeypoints {annotations}"
        every = document["annotations"]
        rows = [row for row in every if not isinstance(row, dict) or _is_asked(row, number, annotations)]
        if not rows and document["annotations"]:
            others = {row.get("category_id") if isinstance(row, dict) else None for row in document["annotations"]}
            found = listing([repr(each)[:20] for each in others])
            raise DataError(
                f"{annotations}: no annotation is of category {kind!r}, whose id is {number}; they are of {found}, or "
                "crowds"
            )

        def read(numbered: tuple[int, Any]) -> Labelled:
            at, row = numbered
            try:
                if not isinstance(row, dict):
                    raise DataError(f"is {str(row)[:60]!r}, no object of JSON")
                image = row.get("image_id")
                if type(image) not in (int, str) or image not in pictures:
                    raise DataError(f"is of image {str(image)[:60]}, which is not among the images")
                name, place, size = pictures[image]
                file = listed_file(source, name)
                sizes[file] = size
                return _labelled(row, file, place, len(pose.names))
            except DataError as error:
                name = row.get("id", f"number {at}") if isinstance(row, dict) else f"number {at}"
                raise DataError(f"{annotations}: annotation {str(name)[:40]}: {error}") from None

        made = usable(what, list(enumerate(rows)), read, max_skipped, skipped, "objects")
        super().__init__(what, source, [each for _, each in made], skipped, pose, kind, limit, sizes)


def _is_asked(row: dict[str, Any], category: int, where: str) -> bool:
    crowd = flag(row.get("iscrowd") or 0, f"{where}: annotation {str(row.get('id'))[:40]}: iscrowd")
    return row.get("category_id") == category and not crowd


def _pictures(images: list[Any], where: str) -> dict[int | str, tuple[str, int, Size]]:
    """File, number in the order of the document, and stated (H, W) of each image by its id."""
    found: dict[int | str, tuple[str, int, Size]] = {}
    for at, image in enumerate(images):
        number, file = (image.get("id"), image.get("file_name")) if isinstance(image, dict) else (None, None)
        if not isinstance(number, int | str) or not isinstance(file, str):
            raise DataError(f"{where}: image {at} is {str(image)[:60]!r}; it needs an id and a file_name")
        told = file, at, stated_size(image.get("height"), image.get("width"))
        if found.setdefault(number, told) != told:
            raise DataError(f"{where}: two images have the id {number!r}")
    return found


def _category(document: Any, wanted: str | None, where: str) -> tuple[int, str, Pose]:
    """The id, name and points of a category."""
    keys = ("images", "annotations", "categories")
    if not isinstance(document, dict) or any(not isinstance(document.get(key), list) for key in keys):
        raise DataError(f"{where}: COCO needs the lists images, annotations and categories")
    rows = [row for row in document["categories"] if isinstance(row, dict) and row.get("keypoints")]
    named = [row for row in rows if wanted is None or row.get("name") == wanted]
    if len(named) != 1:
        known = ", ".join(str(row.get("name")) for row in rows) or "none"
        meant = "one category" if wanted is None else f"the category {wanted!r}"
        raise DataError(f"{where}: {meant} is needed that names keypoints; those that do: {known}")
    (row,) = named
    if type(row.get("id")) is not int:
        raise DataError(
            f"{where}: category {row.get('name')!r}: its id is {row.get('id')!r}; it must be a whole number"
        )
    try:
        pose = pose_of_category(row)
    except (AttributeValueError, DataError, TypeError) as error:
        raise DataError(f"{where}: category {row.get('name')!r}: {error}") from None
    return row["id"], str(row.get("name")), pose


def _labelled(row: dict[str, Any], file: str, image: int, count: int) -> Labelled:
    """The object of an annotation on image number `image`; DataError where it is malformed.

    One without a bbox, or with one of zeros, as tools for points alone write it, has that around its points.
    """
    try:
        points = np.asarray(row.get("keypoints") or [0] * 3 * count, np.float32).reshape(count, 3)
        x, y, width, height = (float(side) for side in row.get("bbox") or [0] * 4)
        area = float(row.get("area") or 0) or None
    except (TypeError, ValueError):
        raise DataError(f"needs bbox [x, y, width, height] and keypoints, {count} times x, y, visible") from None
    if not (np.isfinite(points).all() and np.isfinite([x, y, width, height, area or 0.0]).all()):
        raise DataError(f"bbox is {row.get('bbox')} and area {area}; finite numbers are needed, in its points too")
    odd = _oddities(row, points)
    if x == y == width == height == 0:
        return Labelled(file, image, None, points, odd=odd)
    if min(width, height) <= 0:
        raise DataError(f"bbox is {row['bbox']}; a box with an area is needed, or none")
    return Labelled(file, image, (x, y, x + width, y + height), points, area, odd)


def _oddities(row: dict[str, Any], points: np.ndarray) -> tuple[str, ...]:
    """What of an annotation cannot be, by names of `ODD`."""
    flags, count = points[:, 2], row.get("num_keypoints")
    odd = {
        "flags": not np.isin(flags, (0, 1, 2)).all(),
        "hidden": bool((points[flags == 0, :2] != 0).any()),
        "count": count is not None and count != int((flags > 0).sum()),
    }
    return tuple(kind for kind, found in odd.items() if found)
