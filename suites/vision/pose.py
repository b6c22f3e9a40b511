"""Poses: what the points of an object are called, how they are joined, and which ones a mirror exchanges."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.names import did_you_mean

_log = logging.getLogger(__name__)
_WORDS = re.compile(r"(?i)(?<![a-z])(?:left|right)")
_HINTS = (
    re.compile(r"(?i)(?:left|right)(?![a-z])"),
    re.compile(r"(?<![A-Za-z])[LlRr](?![A-Za-z])|(?<![A-Za-z])[LR](?=[A-Z][a-z])|(?<=[a-z])[LR](?![A-Za-z])"),
)
_FIRST = re.compile(r"^[LlRr](?=[a-z]{3})")  # as in MPII's own "lsho" and "rsho"
_NUMBER = re.compile(r"\d+")
_ROUNDING = 0.5  # pixels outside of a picture that count as rounding
_OTHER = {"left": "right", "right": "left", "l": "r", "r": "l"}


@dataclass(frozen=True)
class Pose:
    """The points of one kind of object.

    Args:
        names: L of them, such as "left_eye".
        mirrored: for each point of a mirrored object, the number of the one it was. Empty: as the names say, "left_eye"
            and "right_eye" change places, and so do "L_eye" and "R_eye", "leye" and "reye".
        skeleton: pairs of numbers of points that a line joins in pictures.
    """

    names: tuple[str, ...]
    mirrored: tuple[int, ...] = ()
    skeleton: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        count = len(self.names)
        if not count or len(set(self.names)) != count:
            raise AttributeValueError(f"Pose: names is {list(self.names)}; it needs one or more, each another")
        if self.mirrored and sorted(self.mirrored) != list(range(count)):
            raise AttributeValueError(
                f"Pose: mirrored is {list(self.mirrored)}; each of {count} points must stand in it once"
            )
        if any(not 0 <= end < count for pair in self.skeleton for end in pair):
            raise AttributeValueError(f"Pose: skeleton names points beyond 0 to {count - 1}: {list(self.skeleton)}")

    @property
    def order(self) -> list[int]:
        """`mirrored`, written out; DataError where the names do not say it."""
        return list(self.mirrored) or _sides(self.names)

    def paired(self, pairs: Sequence[tuple[str, str]]) -> Pose:
        """The pose whose points change places by `pairs` of names; the others stay.

        DataError for a name it lacks, and for one that stands in two pairs.
        """
        order = list(range(len(self.names)))
        named = [name for pair in pairs for name in dict.fromkeys(pair)]
        if twice := [name for name in named if named.count(name) > 1]:
            raise DataError(f"the point {twice[0]!r} stands in two pairs; it changes places with one other at most")
        for one, other in pairs:
            a, b = self.number(one), self.number(other)
            order[a], order[b] = b, a
        return Pose(self.names, tuple(order), self.skeleton)

    def number(self, name: str) -> int:
        """The number of a point; DataError where no point has the name."""
        if name not in self.names:
            known = ", ".join(self.names)
            raise DataError(f"no point is called {name!r}{did_you_mean(name, self.names) or f'; there are {known}'}")
        return self.names.index(name)


def _sides(names: Sequence[str]) -> list[int]:
    """For each name the number of that of the other side, or its own."""
    numbers = {name: at for at, name in enumerate(names)}
    if len(names) > 1 and len({_NUMBER.sub("", name) for name in names}) == 1:
        raise DataError(f"the names of points, {names[0]!r} and so on, do not tell left from right: give their pairs")
    return [_partner(name, numbers) for name in names]


def _partner(name: str, numbers: dict[str, int]) -> int:
    said = _WORDS.sub(_swapped, name)
    if said != name and said not in numbers:
        raise DataError(f"the point {name!r} has no {said!r} to change places with in a mirror: give their pairs")
    others = (said, *(hint.sub(_swapped, name) for hint in (*_HINTS, _FIRST)))
    return next((numbers[other] for other in others if other != name and other in numbers), numbers[name])


def expect_points(place: str, found: Pose | None, wanted: Pose, remedy: str) -> None:
    """Raise ConfigError where a set's points are not the network's, in its order.

    Args:
        place: of the set in a config.
        found: what its points are; None where nothing says it.
        wanted: what the network's are.
        remedy: what a user does about it.
    """
    names = () if found is None else found.names
    if names != wanted.names:
        order = "in another order, " if sorted(names) == sorted(wanted.names) else ""
        raise ConfigError(
            f"{place}: its points are {', '.join(names[:8]) or 'unnamed'}; the network's are, {order}"
            f"{', '.join(wanted.names[:8])}: {remedy}"
        )


def say_sides(what: str, pose: Pose) -> None:
    """Warn where no point changes places in a mirror, and nobody said so; `what` names the set."""
    try:
        alone = len(pose.names) > 1 and not pose.mirrored and pose.order == list(range(len(pose.names)))
    except DataError:  # told where something is mirrored
        return
    if alone:
        _log.warning(
            "%s: the names of points tell no left from right (%s), so in a mirror each stays itself; where some change "
            "places, say which by point_pairs",
            *(what, ", ".join(pose.names[:8])),
        )


def _swapped(found: re.Match[str]) -> str:
    """The word for the other side, written as large as the one found."""
    word = found[0]
    other = _OTHER[word.lower()]
    return other.upper() if word.isupper() else other.capitalize() if word[0].isupper() else other


def pose_of_category(category: Mapping[str, Any]) -> Pose:
    """The pose of a category of COCO's format: `keypoints`, and a `skeleton` of numbers from 1, or of names.

    DataError for a skeleton of another form, AttributeValueError for names that come twice.
    """
    skeleton = category.get("skeleton") or []
    if not isinstance(skeleton, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in skeleton):
        raise DataError(f"skeleton is {str(skeleton)[:60]}; it must be pairs of numbers of points, from 1")
    plain = Pose(tuple(str(name) for name in category["keypoints"]))
    return Pose(plain.names, (), tuple((_end(a, plain), _end(b, plain)) for a, b in skeleton))


def _end(number: Any, pose: Pose) -> int:
    """The number, from 0, of a point that a skeleton names from 1, or by its name."""
    if isinstance(number, str):
        return pose.number(number)
    count = len(pose.names)
    if isinstance(number, bool) or not isinstance(number, int | float) or number not in range(1, count + 1):
        raise DataError(f"skeleton names the point {number!r}; there are 1 to {count}: {', '.join(pose.names)}")
    return int(number) - 1


def sigmas_of(count: int) -> tuple[float, ...]:
    """How far annotators of each of L points differ, where nobody says: COCO's of people for 17, else 0.05 each."""
    return COCO_SIGMAS if count == len(COCO_SIGMAS) else (_SIGMA,) * count


def outside(points: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which labelled points lie outside of their pictures, bool [T, L].

    Args:
        points: [T, L, 3], (x, y, visible) of the L points of T objects.
        sizes: [T, 2], (H, W) of the picture of each.
    """
    far = (points[..., :2] < -_ROUNDING) | (points[..., :2] > sizes[:, None, ::-1] + _ROUNDING)
    return np.asarray(far.any(axis=-1) & (points[..., 2] > 0))


FACE_POINTS = Pose(("left_eye", "right_eye", "nose", "left_mouth", "right_mouth"), mirrored=(1, 0, 2, 4, 3))
COCO_PERSON = Pose(
    names=(
        "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
        "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
        "right_ankle",
    ),
    mirrored=(0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15),
    skeleton=(
        (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10),
        (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
    ),
)  # fmt: skip
# Of COCO_PERSON's points: how far annotators differ, as a share of the root of the object's area (cocodataset.org).
COCO_SIGMAS = (
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089,
    0.089,
)  # fmt: skip
_SIGMA = 0.05  # of points that are not COCO's

MPII_PERSON = Pose(
    names=(
        "right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle", "pelvis", "thorax",
        "upper_neck", "head_top", "right_wrist", "right_elbow", "right_shoulder", "left_shoulder", "left_elbow",
        "left_wrist",
    ),
    mirrored=(5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 15, 14, 13, 12, 11, 10),
    skeleton=(
        (0, 1), (1, 2), (2, 6), (6, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9), (10, 11), (11, 12), (12, 7), (7, 13),
        (13, 14), (14, 15),
    ),
)  # fmt: skip


def _face_68() -> Pose:
    """The 68 points of 300-W: jaw, brows, nose, eyes, outer and inner lips; left is the picture's left."""
    jaw = [f"jaw_{k}" for k in range(17)]
    left, right = [f"left_brow_{k}" for k in range(5)], [f"right_brow_{k}" for k in range(5)]
    nose = [f"nose_{k}" for k in range(9)]
    eyes = [f"{side}_eye_{k}" for side in ("left", "right") for k in range(6)]
    lips = [f"lip_{k}" for k in range(20)]
    mirror = [16 - k for k in range(17)] + [26 - k for k in range(10)] + [27, 28, 29, 30, 35, 34, 33, 32, 31]
    mirror += [45, 44, 43, 42, 47, 46, 39, 38, 37, 36, 41, 40]
    mirror += [54, 53, 52, 51, 50, 49, 48, 59, 58, 57, 56, 55, 64, 63, 62, 61, 60, 67, 66, 65]
    lines = [(16, 17), (21, 22), (26, 27), (30, 31), (35, 36), (41, 42), (47, 48), (59, 60)]
    skeleton = [(k, k + 1) for k in range(67) if (k, k + 1) not in lines]
    skeleton += [(41, 36), (47, 42), (59, 48), (67, 60)]
    return Pose((*jaw, *left, *right, *nose, *eyes, *lips), tuple(mirror), tuple(skeleton))


FACE_68 = _face_68()
