"""What strangers get wrong with points of objects, found in flat arrays whatever format they came from.

Letters: T objects, L points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Finding
from suites.vision.pose import Pose, outside
from suites.vision.structures import pairwise_iou

_RARE = 10  # objects with a point below which its figures are chance
_OFF = 0.1  # share of a box's side by which a point lies outside of it
_BEYOND = 2.0  # pixels by which a box reaches beyond its picture
_TWICE = 0.9  # IoU from which on two boxes whose points agree are one object
_CLEAR = 0.3  # sine of the angle from which on a side of an axis is clear
_ORDERED = 0.9  # share of the objects that show a pair the same way round, from which on the others are odd
_LEAST = 10  # objects by which that share is known
_MANY = 0.1  # share of the objects from which on a fault is the set's, not a few objects'

_NUMBER = re.compile(r"\d+")

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Pointed:
    """Objects with points.

    Attributes:
        points: float [T, L, 3], (x, y, visible) as the file has them.
        boxes: float [T, 4]; NaN where the file has none.
        sizes: int [T, 2], (H, W) of their pictures; 0 where it is not known.
        owners: int [T], which objects are of one picture.
        names: of the objects, for people.
        pose: what the points are; None where nothing says it.
        outside_is_unknown: whether the format writes points that nobody knows outside of the picture.
        rough_boxes: whether boxes are not drawn around the object, such as MPII's squares.
    """

    points: np.ndarray
    boxes: np.ndarray
    sizes: np.ndarray
    owners: np.ndarray
    names: Sequence[str]
    pose: Pose | None
    outside_is_unknown: bool = False
    rough_boxes: bool = False

    @property
    def labelled(self) -> np.ndarray:
        """bool [T, L]."""
        return np.asarray(self.points[..., 2] > 0)

    @property
    def strays(self) -> np.ndarray:
        """bool [T, L]: labelled points outside of pictures whose size is known."""
        known = self.sizes.min(axis=1) > 0
        return outside(self.points, np.where(known[:, None], self.sizes, np.inf))

    @property
    def zero(self) -> np.ndarray:
        """bool [T, L]: labelled points at 0,0."""
        return self.labelled & (self.points[..., :2] == 0).all(axis=-1)

    @property
    def usable(self) -> np.ndarray:
        """bool [T, L]: labelled points that lie in their picture, and not at 0,0."""
        return self.labelled & ~self.strays & ~self.zero

    def finding(self, level: Level, which: np.ndarray, text: str, advice: str = "") -> list[Finding]:
        """A finding on points, bool [T, L], or on objects, bool [T], with their names; none where there are none."""
        if not which.any():
            return []
        objects = np.flatnonzero(which if which.ndim == 1 else which.any(axis=1)).tolist()
        places = tuple(self._place(at, which) for at in objects)
        return [Finding(level, f"{int(which.sum())} {text}", places, tuple(objects), advice)]

    def _place(self, at: int, which: np.ndarray) -> str:
        if which.ndim == 1:
            return self.names[at]
        numbers = np.flatnonzero(which[at])
        called = [str(k) if self.pose is None else self.pose.names[k] for k in numbers[:4]]
        return f"{self.names[at]}: {', '.join(called)}{', ...' if len(numbers) > 4 else ''}"


def point_findings(seen: Pointed) -> list[Finding]:
    """All that is noteworthy of objects with points, of which there is one or more."""
    return [
        *_places(seen),
        *_boxes(seen),
        *_sides(seen),
        *_twice(seen),
        *_counts(seen),
        *([] if seen.pose is None else pose_findings(seen.pose)),
    ]


def _places(seen: Pointed) -> list[Finding]:
    labelled, xy = seen.labelled, seen.points[..., :2]
    if labelled.any() and np.abs(xy[labelled]).max() <= 1 and (xy[labelled] % 1).any():
        text = "all points lie between 0 and 1: they are shares of the picture's sides, and pixels are read"
        return [Finding("error", text, advice="multiply them by the picture's width and height")]
    unknown = "write -1,-1" if seen.outside_is_unknown else "give them visibility 0"
    zero = seen.zero
    stray = seen.strays & ~zero
    lost = stray.sum(axis=1) > labelled.sum(axis=1) / 2
    found = seen.finding("error", zero, "labelled points lie at 0,0", f"if nobody knows where they are, {unknown}")
    if seen.outside_is_unknown:
        found += seen.finding("note", stray, "points lie outside of their picture, so they count as unknown")
    else:
        advice = "were they labelled on pictures of another size?"
        text = "objects have most of their points outside of their picture"
        found += seen.finding(_level(lost), lost, text, advice)
        advice = "they are read as unlabelled; look at the tool that wrote them"
        rest = stray & ~lost[:, None]
        found += seen.finding("warning", rest, "labelled points lie outside of their picture", advice)
    same = np.array([_most_at_one_place(row[mask]) for row, mask in zip(xy, labelled & ~zero, strict=True)], bool)
    text = "objects have most of their points at one place"
    return [*found, *seen.finding("warning", same, text, "a tool may have written a default; label them anew")]


def _level(which: np.ndarray) -> Level:
    return "error" if which.sum() > _MANY * len(which) else "warning"


def _most_at_one_place(places: np.ndarray) -> bool:
    if len(places) < 3:
        return False
    _, counts = np.unique(places, axis=0, return_counts=True)
    return bool(counts.max() > len(places) / 2)


def _boxes(seen: Pointed) -> list[Finding]:
    boxed = np.isfinite(seen.boxes).all(axis=1)
    found = seen.finding("note", ~boxed, "objects have no box; that around their points is taken")
    if seen.rough_boxes or not boxed.any():
        return found if not seen.outside_is_unknown else []
    low, high = seen.boxes[:, None, :2], seen.boxes[:, None, 2:]
    margin = _OFF * (high - low)
    xy, labelled = seen.points[..., :2], seen.usable
    off = labelled & boxed[:, None] & ((xy < low - margin) | (xy > high + margin)).any(axis=-1)
    lost = off.sum(axis=1) > labelled.sum(axis=1) / 2
    advice = "does the box belong to another object, or is it x1, y1, x2, y2 in place of x, y, width, height?"
    found += seen.finding(_level(lost), lost, "objects have most of their points outside of their box", advice)
    found += seen.finding("warning", off & ~lost[:, None], "points lie far outside of their object's box")
    sizes = seen.sizes[:, ::-1]
    beyond = boxed & (sizes.min(axis=1) > 0)
    beyond &= ((seen.boxes[:, :2] < -_BEYOND) | (seen.boxes[:, 2:] > sizes + _BEYOND)).any(axis=1)
    advice = "the two last numbers of a box are its width and height, not its other corner"
    return [*found, *seen.finding("warning", beyond, "boxes reach beyond their picture", advice)]


def _sides(seen: Pointed) -> list[Finding]:
    """Objects whose left and right are the other way round than those of nearly all others, as seen along the object.

    People are seen from the front and from behind, so of them shoulders are compared with hips instead.
    """
    pairs = _pairs(seen.pose)
    if not pairs:
        return []
    signs = np.stack([_handedness(seen, a, b) for a, b in pairs], axis=1)  # [T, pairs]
    usual = signs.sum(axis=0)
    clear = np.abs(signs).sum(axis=0)
    agreed = (clear >= _LEAST) & (np.abs(usual) >= (2 * _ORDERED - 1) * clear)
    against = ((signs == -np.sign(usual)) & agreed).sum(axis=1)
    swapped = (against > 0) & (2 * against > (np.abs(signs) * agreed).sum(axis=1))
    advice = "look at them: left and right may be swapped, or the picture mirrored"
    found = seen.finding("warning", swapped, "objects have left and right the other way round than the others", advice)
    advice = "left and right may be swapped; left is the object's own left"
    return [*found, *seen.finding("warning", _twisted(seen) & ~swapped, "people have hips against shoulders", advice)]


def _pairs(pose: Pose | None) -> list[tuple[int, int]]:
    if pose is None:
        return []
    try:
        return [(at, other) for at, other in enumerate(pose.order) if at < other]
    except DataError:  # told of the pose
        return []


def _handedness(seen: Pointed, a: int, b: int) -> np.ndarray:
    """-1 or 1, [T]: on which side of the axis from the middle of a pair to the object's other points `a` is; 0 unclear.

    A turn of the picture does not change it, a mirror does.
    """
    xy, use = seen.points[..., :2].astype(np.float64), seen.usable
    both, others = use[:, a] & use[:, b], use.copy()
    others[:, [a, b]] = False
    count = np.maximum(others.sum(axis=1, keepdims=True), 1)
    centre = (xy * others[..., None]).sum(axis=1) / count
    axis = centre - (xy[:, a] + xy[:, b]) / 2
    return _side(axis, xy[:, a] - xy[:, b]) * (both & others.any(axis=1))


def _side(axis: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Sign of the cross product of vectors [T, 2], 0 where they are nearly parallel or one of them is short."""
    cross = axis[:, 0] * across[:, 1] - axis[:, 1] * across[:, 0]
    size = np.linalg.norm(axis, axis=1) * np.linalg.norm(across, axis=1)
    long = np.linalg.norm(across, axis=1) > 0.2 * np.linalg.norm(axis, axis=1)
    return np.where(long & (np.abs(cross) > _CLEAR * size), np.sign(cross), 0).astype(int)


def _twisted(seen: Pointed) -> np.ndarray:
    """bool [T]: people whose left hip is on the side of their right shoulder."""
    none = np.zeros(len(seen.points), bool)
    names = () if seen.pose is None else seen.pose.names
    wanted = ("left_shoulder", "right_shoulder", "left_hip", "right_hip")
    if not set(wanted) <= set(names):
        return none
    at = [names.index(name) for name in wanted]
    xy, use = seen.points[:, at, :2].astype(np.float64), seen.usable[:, at].all(axis=1)
    axis = xy[:, 2:].mean(axis=1) - xy[:, :2].mean(axis=1)
    return use & (_side(axis, xy[:, 0] - xy[:, 1]) * _side(axis, xy[:, 2] - xy[:, 3]) < 0)


def _twice(seen: Pointed) -> list[Finding]:
    """Objects whose points and boxes are nearly those of an earlier one of their picture."""
    found = np.zeros(len(seen.points), bool)
    order = np.argsort(seen.owners, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(seen.owners[order])) + 1):
        if len(rows) < 2:
            continue
        boxes = np.stack([_box(seen, at) for at in rows]).astype(np.float32)
        for i, j in np.argwhere(np.tril(pairwise_iou(boxes, boxes) > _TWICE, -1)):
            both = seen.labelled[rows[i]] & seen.labelled[rows[j]]
            apart = np.linalg.norm(seen.points[rows[i], :, :2] - seen.points[rows[j], :, :2], axis=-1)[both]
            reach = 0.1 * np.ptp(boxes[i].reshape(2, 2), axis=0).max()
            found[rows[i]] |= bool(len(apart)) and float(apart.mean()) < reach
    return seen.finding("warning", found, "objects are labelled twice")


def _box(seen: Pointed, at: int) -> np.ndarray:
    if np.isfinite(seen.boxes[at]).all():
        return np.asarray(seen.boxes[at])
    places = seen.points[at, seen.labelled[at], :2]
    low, high = (places.min(axis=0), places.max(axis=0)) if len(places) else (np.zeros(2), np.zeros(2))
    return np.concatenate([low - 1, high + 1])


def _counts(seen: Pointed) -> list[Finding]:
    counts = seen.usable.sum(axis=0)
    names = list(map(str, range(len(counts)))) if seen.pose is None else list(seen.pose.names)
    absent = [name for name, count in zip(names, counts, strict=True) if not count]
    few = [f"{name}: {count}" for name, count in zip(names, counts, strict=True) if 0 < count < _RARE]
    found = []
    if absent:
        text = f"{len(absent)} of {len(names)} points are labelled in no object: {', '.join(absent[:10])}"
        found.append(Finding("warning", text, advice="they cannot be learnt or measured here"))
    if few:
        text = f"{len(few)} points are labelled in fewer than {_RARE} objects"
        found.append(Finding("warning", text, tuple(few)))
    return found


def pose_findings(pose: Pose) -> list[Finding]:
    """Where the names of points, the table of a mirror and the skeleton do not fit each other."""
    found = []
    try:
        order = pose.order
        if not pose.mirrored and len(order) > 1 and order == list(range(len(order))):
            text = "the names of points tell no left from right, so in a mirror each stays itself"
            found.append(Finding("note", text, advice="where some change places, say which by point_pairs"))
    except DataError as error:
        found.append(Finding("error", f"a mirrored picture has no points: {error}", advice="set point_pairs"))
        return found
    loose = [pose.names[at] for at, other in enumerate(order) if order[other] != at]
    if loose:
        text = f"a second mirror does not bring back {len(loose)} points: {', '.join(loose[:8])}"
        found.append(Finding("error", text, advice="correct the table: two points change places with each other"))
    found += _against_names(pose, order)
    joined = [tuple(sorted(pair)) for pair in pose.skeleton]
    odd = sum(a == b for a, b in joined) + len(joined) - len(set(joined))
    if odd:
        text = f"{odd} lines of the skeleton join a point with itself, or come twice"
        found.append(Finding("note", text, advice="it is drawn only; correct it in the file"))
    return found


def _against_names(pose: Pose, order: Sequence[int]) -> list[Finding]:
    """Points that a given table exchanges for others than their names say; numbers in names may change."""
    try:
        said = Pose(pose.names).order
    except DataError:
        return []
    wrong = [
        f"{pose.names[at]} becomes {pose.names[order[at]]}, by its name {pose.names[other]}"
        for at, other in enumerate(said)
        if other != at and _NUMBER.sub("", pose.names[order[at]]) != _NUMBER.sub("", pose.names[other])
    ]
    if not wrong:
        return []
    text = f"{len(wrong)} points change places in a mirror otherwise than their names say"
    return [Finding("warning", text, tuple(wrong), advice="correct point_pairs")]
