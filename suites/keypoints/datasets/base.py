"""What data sets of points share: objects of pictures of a folder or zip, by index, and what was left out.

Letters: T objects, L points.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.files import Source
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.keypoints.sample import PoseSample
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image
from suites.vision.pictures.stated import Fitter, Size
from suites.vision.pose import Pose, outside, say_sides
from suites.vision.structures import Boxes, Instances

_log = logging.getLogger(__name__)


# What is odd in objects: its name, how bad it is, and words on what is, and on what to do.
ODD: tuple[tuple[str, Literal["error", "warning", "note"], str, str], ...] = (
    ("unlabelled", "note", "objects have no labelled point and are left out", ""),
    (
        "flat",
        "warning",
        "objects have no box and points that span no area, and are left out",
        "draw boxes around them",
    ),
    (
        "flags",
        "error",
        "objects have a visibility that is none of 0, 1 and 2; what is above 0 counts as labelled",
        "write 0 for a point that nobody knows, 1 for a hidden one, 2 for one that is seen",
    ),
    (
        "hidden",
        "note",
        "objects have points with a place and visibility 0; these are not learnt",
        "where they are labelled, write 1 for a hidden point, 2 for one that is seen",
    ),
    ("count", "warning", "objects have another num_keypoints than labelled points; it is not read", "correct it"),
)


@dataclass(frozen=True)
class Labelled:
    """One object as a file has it.

    Attributes:
        file: its picture.
        image_id: of its picture.
        box: x1, y1, x2, y2; None where the file has none, for that around the labelled points in the picture.
        points: float32 [L, 3], (x, y, visible).
        area: square pixels; None for those of the box.
        odd: what the file says of it that cannot be, by the names of `ODD`.
    """

    file: str
    image_id: int
    box: tuple[float, float, float, float] | None
    points: np.ndarray
    area: float | None = None
    odd: tuple[str, ...] = ()

    def box_in(self, size: tuple[float, float]) -> tuple[float, float, float, float]:
        """The box in a picture of `size` (H, W)."""
        if self.box is not None:
            return self.box
        points = within(self.points, size)
        return box_around(points[points[:, 2] > 0, :2])


class PoseDataset:
    """Objects with points; read-only, picklable. Those without a labelled point, or without a box that has an area, are
    left out and counted.

    Attributes:
        class_names: one, what the objects are.
        pose: what the L points are; None where nothing says it.
        passed: what lies among its files and is not read.
        outside_is_unknown: whether the format writes points that nobody knows outside of the picture.
        rough_boxes: whether boxes are not drawn around the object.
    """

    num_classes = 1
    outside_is_unknown: ClassVar[bool] = False
    rough_boxes: ClassVar[bool] = False

    def __init__(
        self,
        what: str,
        source: Source,
        objects: Sequence[Labelled],
        skipped: Tally,
        pose: Pose | None,
        kind: str,
        limit: int | None = None,
        sizes: Mapping[str, Size] = MappingProxyType({}),
    ) -> None:
        """Args: words for messages, where the pictures lie, the objects, what was left out, the points, the class, how
        many objects at most, and (H, W) of pictures by their files, where the annotations state it."""
        labelled = [each for each in objects if (each.points[:, 2] > 0).any()]
        boxed = [each for each in labelled if _has_area(each.box_in(_ENDLESS))]
        kept = boxed[:limit]
        flat = len(labelled) - len(boxed)
        if flat:
            _log.warning(
                "%s: %d of %d objects left out, as they have no box and their labelled points span no area, such as a "
                "single one; draw boxes around them",
                *(what, flat, len(labelled)),
            )
        if not kept:
            raise DataError(f"{what}: there are no objects with a labelled point{' and a box' if flat else ''}")
        self.class_names, self.pose = (kind,), pose
        self._objects, self._skipped = kept, skipped
        without = [each.file for each in objects if not (each.points[:, 2] > 0).any()]
        self._left_out = {
            "unlabelled": without,
            "flat": [e.file for e in labelled if not _has_area(e.box_in(_ENDLESS))],
        }
        names = sorted({each.file for each in kept})
        self._files, self._fitter = source.table(names), Fitter()
        self._stated = [sizes.get(name, (0, 0)) for name in names]
        places = {name: at for at, name in enumerate(names)}
        self._owners = np.array([places[each.file] for each in kept])
        self.passed = source.passed
        unseen = len(objects) - len(labelled)
        more = f"; {unseen} objects without a labelled point left out" if unseen else ""
        _log.info("%s: %d objects in %d pictures%s", what, len(kept), len(names), more)
        self.passed.say(what)
        if pose is not None:
            say_sides(what, pose)

    def __len__(self) -> int:
        return len(self._objects)

    def __getitem__(self, index: int) -> PoseSample:
        """Object `index`; points outside of the picture are unlabelled.

        A DataError names a file of no picture, and an object whose labelled points all lie outside.
        """
        labelled = self._objects[index]
        image = self.image(index)
        points = within(labelled.points, image.shape[:2])
        if not (points[:, 2] > 0).any():
            height, width = image.shape[:2]
            raise DataError(
                f"{self.name_of(index)}: all points of an object lie outside of the picture, which is {width} wide and "
                f"{height} high; were they labelled on one of another size?"
            )
        box = labelled.box_in(image.shape[:2])
        if not _has_area(box):
            raise DataError(f"{self.name_of(index)}: the points of an object that lie in the picture span no area")
        width, height = box[2] - box[0], box[3] - box[1]
        objects = Instances(
            Boxes(np.array([box], np.float32)), np.zeros(1, np.int64), keypoints=points[None], pose=self.pose
        )
        return PoseSample(
            image=image,
            instances=objects,
            truth=points,
            image_id=labelled.image_id,
            number=index,
            area=width * height if labelled.area is None else labelled.area,
            sides=(width, height),
        )

    def labelled(self, index: int) -> Labelled:
        """Object `index` as its file has it; no picture is read."""
        return self._objects[index]

    def odd(self, kind: str) -> list[tuple[int | None, str]]:
        """The objects that are odd in a way of `ODD`: index, None of one that was left out, and name."""
        kept = [(at, self.name_of(at)) for at, each in enumerate(self._objects) if kind in each.odd]
        return [*kept, *((None, file) for file in self._left_out.get(kind, ()))]

    def image(self, index: int) -> np.ndarray:
        """The picture of object `index`, uint8 RGB [H, W, 3], of the size that its annotation states."""
        image, at = decode_image(self._files.read(self._owners[index]), self.name_of(index)), self._owners[index]
        return self._fitter.as_stated(image, self._stated[at], self.name_of(index))

    def part(self, index: int) -> np.ndarray:
        """What its box shows of it."""
        image = self.image(index)
        height, width = image.shape[:2]
        x1, y1, x2, y2 = self._objects[index].box_in((height, width))
        top, left = min(max(0, int(y1)), height - 1), min(max(0, int(x1)), width - 1)
        return np.ascontiguousarray(image[top : max(top + 1, int(np.ceil(y2))), left : max(left + 1, int(np.ceil(x2)))])

    def name_of(self, index: int) -> str:
        """The picture's file."""
        return self._files.full_name(self._owners[index])

    def glances(self) -> Iterator[Glance | DataError]:
        """What the files say without decoding."""
        return glances(self._files, self._owners)

    def skipped(self) -> Tally:
        """What was left out when the set was opened, and why."""
        return self._skipped


_ENDLESS = (np.inf, np.inf)  # size of a picture that is not looked at


def _has_area(box: tuple[float, float, float, float]) -> bool:
    return box[2] > box[0] and box[3] > box[1]


def box_around(places: np.ndarray) -> tuple[float, float, float, float]:
    """x1, y1, x2, y2 around places [P, 2]; zeros where there are none."""
    low, high = (places.min(axis=0), places.max(axis=0)) if len(places) else (np.zeros(2), np.zeros(2))
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def within(points: np.ndarray, size: tuple[float, ...]) -> np.ndarray:
    """Points [L, 3] of which those outside of a picture of `size` (H, W) are unlabelled, all 0."""
    return np.where(outside(points[None], np.array([size[:2]]))[0][:, None], 0, points).astype(np.float32)


def pose_of_names(names: Sequence[str], pairs: Sequence[tuple[str, str]] | None, where: str) -> Pose:
    """The pose of points that only have names; DataError where there is none, or one comes twice."""
    if not names:
        raise DataError(f"{where}: no point with a name is in it")
    try:
        pose = Pose(tuple(names))
    except AttributeValueError as error:
        raise DataError(f"{where}: {error}") from None
    return pose if pairs is None else pose.paired(pairs)


def around(
    file: str,
    image_id: int,
    pose: Pose,
    placed: Sequence[tuple[str, float, float, int]],
    where: str,
    box: tuple[float, float, float, float] | None = None,
) -> Labelled:
    """An object of (name, x, y, visible) points, with its box where there is one.

    DataError, which `where` begins, for a name that the pose lacks, one that comes twice, or a place that is no number.
    """
    points = np.zeros((len(pose.names), 3), np.float32)
    taken: set[str] = set()
    for name, x, y, seen in placed:
        wrong = (
            "comes twice"
            if name in taken
            else "is none of the points"
            if name not in pose.names
            else "is at no place"
            if not np.isfinite([x, y]).all()
            else None
        )
        if wrong is not None:
            raise DataError(f"{where}: {name!r} {wrong}; they are {', '.join(pose.names[:8])}")
        taken.add(name)
        points[pose.names.index(name)] = (x, y, seen) if seen else 0
    return Labelled(file, image_id, box, points)


register_role("dataset", PoseDataset, doc="objects with points, by index")
