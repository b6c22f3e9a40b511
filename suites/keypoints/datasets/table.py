"""PointTable: pictures of one object each with a table of its points."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.written import number_in
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.datasets.base import Labelled, PoseDataset
from suites.keypoints.models.base import KNOWN_POSES
from suites.vision.files import listed_file, read_list


@register("dataset")
class PointTable(PoseDataset):
    """A line `file,x0,y0,x1,y1,...` a picture; a first line of names is passed over. The box is that around its points.

    A point that is not known lies outside of the picture, such as at -1,-1.

    Args:
        root: folder or zip of the pictures.
        table: the file, relative to the root.
        points: what the points are.
        max_skipped: share of the lines that may be malformed or name a picture that is not there; they are left out and
            logged. 0: the first one is an error.
    """

    outside_is_unknown: ClassVar[bool] = True

    def __init__(
        self,
        root: str,
        table: str,
        points: Literal["coco_person", "face_5", "face_68", "mpii_person"] = "face_68",
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source, skipped, pose = open_source(root), Tally(), KNOWN_POSES[points]
        count = len(pose.names)
        began: list[str] = []

        def read(line: str) -> tuple[str, np.ndarray] | None:
            name, *cells = line.split(",")
            is_first = not began
            began.append(line)
            if is_first and cells and not any(map(_is_number, cells)):
                return None
            try:
                places = np.array([number_in(cell) for cell in cells], np.float32).reshape(count, 2)
            except ValueError:
                raise DataError(f"{name[:60]!r} has {len(cells)} cells; {2 * count} numbers follow a file") from None
            if not np.isfinite(places).all():
                raise DataError(f"{name[:60]!r} has a point that is no number")
            return listed_file(source, name), places

        rows = [row for row in read_list(source, table, read, max_skipped, skipped) if row is not None]
        objects = []
        for at, (file, places) in enumerate(rows):
            triples = np.column_stack([places, np.full(count, 2, np.float32)])
            objects.append(Labelled(file, at, None, triples))
        super().__init__(f"PointTable {root} {table}", source, objects, skipped, pose, "object")


def _is_number(cell: str) -> bool:
    try:
        number_in(cell)
    except ValueError:
        return False
    return True
