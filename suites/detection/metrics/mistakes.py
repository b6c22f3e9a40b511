"""What a detector took for what at one score and one overlap: a confusion matrix with background, misses, inventions.

Letters: I images, P predictions, T objects of all images, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pycocotools import mask as coco_mask

from suites.detection.sample import GroundTruth
from suites.engine.reporting import Case, Matrix
from suites.vision.structures import Boxes, Instances, Masks

_OVERLAP = 0.5  # IoU from which on a prediction and an object are the same thing
_MOST = 100  # predictions of an image that are looked at, the best
BACKGROUND = "(background)"


@dataclass(frozen=True)
class Finding:
    """What is wrong with an image, to be drawn.

    Attributes:
        wrong: the objects that were missed, or the predictions that were invented.
        others: for comparison, what was predicted there, or the objects that are there.
        missed: which of both.
    """

    wrong: Instances
    others: Instances
    missed: bool


class Mistakes:
    """Compares the predictions of a score or more with the objects, by masks where both have some, else by boxes.

    The best prediction goes first. It takes the free object of its class that it overlaps most, with IoU 0.5 or more;
    what is left after that takes free objects of other classes in the same way. A prediction on a difficult object or a
    crowd region counts in nothing.

    Args:
        truth: the objects.
        rows: [P, 7], index of the image, x1, y1, x2, y2, score, class, in the order of the images.
        codes: run-length codes of the masks of the rows; none where they have no masks.
        min_score: lowest score that counts.
    """

    def __init__(self, truth: GroundTruth, rows: np.ndarray, codes: Sequence[bytes], min_score: float) -> None:
        self._truth, self._min_score = truth, min_score
        kept = rows[:, 5] >= min_score
        self._rows = rows[kept]
        self._codes = [codes[at] for at in np.flatnonzero(kept).tolist()] if len(codes) else []
        self._with_masks = truth.masks is not None and (bool(len(codes)) or not len(rows))
        self._bounds = np.searchsorted(self._rows[:, 0], np.arange(len(truth.image_ids) + 1))
        self._object = np.full(len(self._rows), -1)  # that a row was matched with: -1 none, -2 one that does not count
        self._by_row = np.full(len(truth.boxes), -1)  # the row that took an object
        for image in self._busy():
            self._match(image)

    def matrix(self) -> Matrix:
        """How often what is true was taken for what; the last row and column stand for what is not there."""
        names = self._truth.class_names
        counts = np.zeros((len(names) + 1, len(names) + 1), np.int64)
        taken = self._object >= 0
        counted = ~(self._truth.difficult | self._truth.crowd)
        pred_classes = self._rows[:, 6].astype(np.int64)
        np.add.at(counts, (self._truth.classes[self._object[taken]], pred_classes[taken]), 1)
        np.add.at(counts, (np.full((self._object == -1).sum(), len(names)), pred_classes[self._object == -1]), 1)
        missed = counted & (self._by_row < 0)
        np.add.at(counts, (self._truth.classes[missed], np.full(missed.sum(), len(names))), 1)
        what = "masks" if self._with_masks else "boxes"
        title = f"Confusions of {what}, %, score {self._min_score:g} and IoU {_OVERLAP:g} or more"
        return Matrix(title, [*names, BACKGROUND], counts.tolist())

    def misses(self, count: int) -> list[Case]:
        """The images with the largest objects that nothing of their class found, a case an image."""
        truth = self._truth
        right = self._by_row >= 0
        right[right] = self._rows[self._by_row[right], 6] == truth.classes[right]
        missed = ~right & ~truth.difficult & ~truth.crowd
        images = _firsts(truth.owners(), np.where(missed, truth.areas, -1.0), missed, count)
        return [self._miss(image, best, missed) for image, best in images]

    def inventions(self, count: int) -> list[Case]:
        """The images with the most confident predictions where nothing of their class is, a case an image."""
        pred_classes = self._rows[:, 6].astype(np.int64)
        taken = self._object >= 0
        wrong = self._object == -1
        wrong[taken] = self._truth.classes[self._object[taken]] != pred_classes[taken]
        images = _firsts(self._rows[:, 0].astype(np.int64), self._rows[:, 5], wrong, count)
        return [self._invention(image, best, wrong) for image, best in images]

    def _miss(self, image: int, best: int, missed: np.ndarray) -> Case:
        truth, names = self._truth, self._truth.class_names
        width, height = np.rint(truth.boxes[best, 2:] - truth.boxes[best, :2]).astype(int)
        why = f"{names[truth.classes[best]]} of {width} x {height} pixels"
        row = self._by_row[best]
        why += f" taken for {self._named(row)}" if row >= 0 else " missed"
        own = np.arange(truth.offsets[image], truth.offsets[image + 1])
        wrong = own[missed[own]]
        detail = Finding(self._objects(wrong, image), self._found(self._own_rows(image), image), missed=True)
        return Case(image, why + _more(len(wrong)), detail)

    def _invention(self, image: int, best: int, wrong: np.ndarray) -> Case:
        truth, at = self._truth, self._object[best]
        why = self._named(best)
        why += f" on {truth.class_names[truth.classes[at]]}" if at >= 0 else " on nothing"
        rows = self._own_rows(image)
        false_positives = rows[wrong[rows]]
        there = np.arange(truth.offsets[image], truth.offsets[image + 1])
        detail = Finding(self._found(false_positives, image), self._objects(there, image), missed=False)
        return Case(image, why + _more(len(false_positives)), detail)

    def _named(self, row: int) -> str:
        return f"{self._truth.class_names[int(self._rows[row, 6])]} {self._rows[row, 5]:.2f}"

    def _objects(self, places: np.ndarray, image: int) -> Instances:
        truth = self._truth
        masks = None
        if self._with_masks and truth.masks is not None:
            masks = truth.masks[image][places - truth.offsets[image]]
        return Instances(Boxes(truth.boxes[places].astype(np.float32)), truth.classes[places], masks=masks)

    def _found(self, rows: np.ndarray, image: int) -> Instances:
        found, masks = self._rows[rows], None
        if self._codes:
            masks = Masks(tuple(self._code(row, image) for row in rows), self._size(image))
        return Instances(
            Boxes(found[:, 1:5].astype(np.float32)), found[:, 6].astype(np.int64), found[:, 5], masks=masks
        )

    def _size(self, image: int) -> tuple[int, int]:
        height, width = self._truth.sizes[image].tolist()
        return height, width

    def _code(self, row: int, image: int) -> dict[str, object]:
        return {"size": list(self._size(image)), "counts": self._codes[row]}

    def _own_rows(self, image: int) -> np.ndarray:
        return np.arange(self._bounds[image], self._bounds[image + 1])

    def _busy(self) -> Iterator[int]:
        """Images with predictions."""
        yield from np.flatnonzero(np.diff(self._bounds)).tolist()

    def _match(self, image: int) -> None:
        truth = self._truth
        rows = self._own_rows(image)
        rows = rows[np.argsort(-self._rows[rows, 5], kind="stable")]
        rows, beyond = rows[:_MOST], rows[_MOST:]
        self._object[beyond] = -2
        first, last = truth.offsets[image], truth.offsets[image + 1]
        if first == last:
            return
        overlaps = self._overlaps(rows, image)
        skipped = (truth.difficult | truth.crowd)[first:last]
        same = self._rows[rows, 6][:, None] == truth.classes[None, first:last]
        near = overlaps >= _OVERLAP
        for allowed in (near & same & ~skipped, near & ~skipped):
            for place in np.flatnonzero(allowed.any(axis=1)):
                if self._object[rows[place]] != -1:
                    continue
                free = allowed[place] & (self._by_row[first:last] < 0)
                if free.any():
                    best = first + int(np.argmax(np.where(free, overlaps[place], -1.0)))
                    self._object[rows[place]], self._by_row[best] = best, rows[place]
        unclaimed = (near & skipped).any(axis=1) & (self._object[rows] == -1)
        self._object[rows[unclaimed]] = -2

    def _overlaps(self, rows: np.ndarray, image: int) -> np.ndarray:
        """IoU [p, t]; with crowd regions the share of the prediction that lies in them."""
        truth = self._truth
        own = slice(truth.offsets[image], truth.offsets[image + 1])
        crowd = truth.crowd[own].astype(np.uint8).tolist()
        if self._with_masks and truth.masks is not None:
            codes = [self._code(row, image) for row in rows]
            return np.asarray(coco_mask.iou(codes, truth.masks[image].codes(), crowd))
        boxes = [
            np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], axis=1) for b in (self._rows[rows, 1:5], truth.boxes[own])
        ]
        return np.asarray(coco_mask.iou(boxes[0], boxes[1], crowd))


def _firsts(owners: np.ndarray, worth: np.ndarray, chosen: np.ndarray, count: int) -> list[tuple[int, int]]:
    """(image, place) of the best chosen place of the `count` images whose best is highest."""
    places = np.flatnonzero(chosen)
    found: dict[int, int] = {}
    for place in places[np.argsort(-worth[places], kind="stable")].tolist():
        found.setdefault(int(owners[place]), place)
        if len(found) == count:
            break
    return list(found.items())


def _more(count: int) -> str:
    return f", and {count - 1} more" if count > 1 else ""
