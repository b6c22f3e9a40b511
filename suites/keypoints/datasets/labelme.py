"""LabelmeKeypoints: points that the tool labelme wrote, a JSON beside each picture (github.com/wkentaro/labelme)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.datasets.base import Labelled, PoseDataset, around, pose_of_names
from suites.vision.labelme import Documents, label_of, part_of, picture_of, stated_size
from suites.vision.pictures.stated import Size
from suites.vision.structures import corners_of


@register("dataset", needs={"split": "holdout"})
class LabelmeKeypoints(PoseDataset):
    """Shapes of type `point` whose labels are the points' names; those of one `group_id` are one object.

    The box of an object is its shape with an area in the same group, such as a rectangle, else that around its points.
    Points without a group are the one object of their picture. A group has one such shape at most.

    Args:
        root: folder or zip of the JSON files and pictures.
        split: "train" or "val" with `holdout`; null for all.
        points: the points in order; null for all labels of points that are found, sorted.
        point_pairs: pairs of names of points that change places in a mirror, where the names do not say it.
        kind: what an object is called.
        holdout: every `holdout`-th file in name order is "val", the rest "train".
        max_skipped: share of the files that may be unusable; they are left out and logged.

    Raises:
        DataError: names the file: no JSON at all, a point of another name, one that comes twice in an object.
    """

    def __init__(
        self,
        root: str,
        split: str | None = None,
        *,
        points: Sequence[str] | None = None,
        point_pairs: Sequence[tuple[str, str]] | None = None,
        kind: str = "object",
        holdout: int | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source, skipped = open_source(root), Tally()
        documents = Documents(source)
        files = documents.names if holdout is None else documents.held_out(split, holdout, "LabelmeKeypoints")
        pose = pose_of_names(points or _names(documents), point_pairs, f"LabelmeKeypoints {root}")
        what, sizes = f"LabelmeKeypoints {root}", dict[str, Size]()

        def read(row: tuple[int, str]) -> list[Labelled]:
            number, name = row
            document, where = documents[name], f"{source.root}/{name}"
            picture = picture_of(source, name, document)
            if picture is None:
                raise DataError(f"{where}: its picture {document.get('imagePath')!r} is not there")
            sizes[picture] = stated_size(document)
            groups = [_read(group, where) for group in _groups(document).values()]
            return [around(picture, number, pose, placed, where, box) for placed, box in groups]

        made = usable(what, list(enumerate(files)), read, max_skipped, skipped, "files")
        super().__init__(
            what, source, [each for _, objects in made for each in objects], skipped, pose, kind, sizes=sizes
        )


def _is_point(shape: Mapping[str, Any]) -> bool:
    return shape.get("shape_type") == "point"


def _names(documents: Documents) -> list[str]:
    """Labels of all points that can be read, sorted."""
    found = set()
    for name in documents.names:
        try:
            found |= {label_of(shape) for shape in documents[name]["shapes"] if _is_point(shape)}
        except DataError:  # told by the split that holds the file
            continue
    return sorted(found - {""})


def _groups(document: Mapping[str, Any]) -> dict[Any, list[dict[str, Any]]]:
    """The shapes of each object that has points."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for shape in document["shapes"]:
        groups.setdefault(str(shape.get("group_id")), []).append(shape)
    return {key: group for key, group in groups.items() if any(map(_is_point, group))}


def _read(
    group: Sequence[dict[str, Any]], where: str
) -> tuple[list[tuple[str, float, float, int]], tuple[float, float, float, float] | None]:
    """(name, x, y, visible) of an object's points, and its box where the group has a shape with an area."""
    placed, box = [], None
    for shape in group:
        if not _is_point(shape):
            part = part_of(shape, where)
            if part is not None and box is not None:
                raise DataError(
                    f"{where}: an object with points has two shapes with an area, the second {label_of(shape)!r}; give "
                    "what belongs together one group_id, and other shapes another"
                )
            box = box if part is None else corners_of(part)
            continue
        try:
            ((x, y),) = np.asarray(shape["points"], np.float64).reshape(-1, 2).tolist()
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError(f"{where}: the point {label_of(shape)!r} needs one [x, y]") from None
        placed.append((label_of(shape), x, y, 2))
    return placed, box
