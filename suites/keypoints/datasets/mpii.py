"""MpiiKeypoints: people with 16 points of MPII Human Pose (Andriluka et al. 2014, human-pose.mpi-inf.mpg.de)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.engine.data.intake.texts import json_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source, read_file
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.datasets.base import Labelled, PoseDataset
from suites.vision.files import listed_file
from suites.vision.pose import MPII_PERSON

_HEIGHT = 200.0  # pixels of a person of scale 1


@register("dataset")
class MpiiKeypoints(PoseDataset):
    """The JSON lists that SimpleBaseline and HRNet made of MPII's MATLAB file.

    Each entry has `image`, `joints`, `joints_vis`, `center` and `scale`. Pixels count from 1 there. The box is a square
    of 200 pixels times the scale around the centre.

    Args:
        annotations: the JSON file, such as annot/train.json; it may lie in a zip.
        images: folder of the pictures, or a folder inside a zip.
        max_skipped: share of the people that may be malformed; they are left out and logged.

    Raises:
        DataError: names the file, and what is wrong with it.
    """

    rough_boxes: ClassVar[bool] = True

    def __init__(self, annotations: str, images: str, max_skipped: float = MAX_SKIPPED) -> None:
        rows = json_in(read_file(Path(annotations)), annotations)
        if not isinstance(rows, list):
            raise DataError(f"{annotations}: is no list of people")
        source, skipped = open_source(images), Tally()
        what, numbers = f"MpiiKeypoints {annotations}", dict[str, int]()

        def read(row: tuple[int, Any]) -> Labelled:
            at, person = row
            try:
                file, box, points = _person(person)
                file = listed_file(source, file)
            except DataError as error:
                raise DataError(f"{annotations}: person {at}: {error}") from None
            number = numbers.setdefault(file, len(numbers))
            return Labelled(file, number, box, points)

        made = usable(what, list(enumerate(rows)), read, max_skipped, skipped, "people")
        super().__init__(what, source, [each for _, each in made], skipped, MPII_PERSON, "person")


def _person(row: Any) -> tuple[str, tuple[float, float, float, float], np.ndarray]:
    """File, box and points float32 [16, 3] of an entry; DataError where it is malformed."""
    count = len(MPII_PERSON.names)
    try:
        joints = np.asarray(row["joints"], np.float64).reshape(count, 2)
        seen = np.asarray(row["joints_vis"], np.float64).reshape(count) > 0
        centre, scale = np.asarray(row["center"], np.float64).reshape(2), float(row["scale"])
        file = str(row["image"])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"needs image, center, scale, and {count} joints [x, y] with joints_vis") from None
    if not np.isfinite([*joints.ravel(), *centre, scale]).all() or scale <= 0:
        raise DataError(f"scale is {scale}; it must be positive, and all numbers finite")
    x, y = (centre - 1).tolist()
    half = scale * _HEIGHT / 2
    points = np.column_stack([joints - 1, np.where(seen, 2.0, 0.0)]) * seen[:, None]
    return file, (x - half, y - half, x + half, y + half), points.astype(np.float32)
