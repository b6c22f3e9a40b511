"""What every detection dataset offers, and what those that read files share: flat, cleaned annotations."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.annotations import clean_boxes
from suites.detection.datasets.intake import Intake, PictureError
from suites.detection.sample import GroundTruth, Sample
from suites.engine.data.files import FileTable
from suites.engine.data.intake.passed import PassedOver
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.vision.pictures.damaged import find_damaged
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image
from suites.vision.pictures.stated import Fitter
from suites.vision.structures import Boxes, Instances

_log = logging.getLogger(__name__)
_WORDS = {  # for the counts of a FileDataset
    "clipped": "boxes cut at the image border",
    "dropped": "boxes without area dropped",
    "strays": "points outside of their image left out",
    "unknown_class": "boxes of other classes skipped",
    "unusable": "unusable images left out",
    "bad_images": "unreadable images skipped",
    "empty_images": "images without boxes skipped",
}


class DetectionDataset(ABC):
    """Images with boxes, by index; read-only, picklable, the same sample for the same index.

    Attributes:
        class_names: K names.
        has_masks: whether objects have their shapes too.
        passed: what lies among its files and is not read; None where it has no files.
        unannotated: pictures that lie among the others without an annotation, where the format tells.
    """

    class_names: tuple[str, ...]
    has_masks: bool = False
    unannotated: tuple[str, ...] = ()
    passed: PassedOver | None = None
    _skipped: Tally | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes K; labels are 0 to K - 1."""
        return len(self.class_names)

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Image `index` with its boxes; a DataError names a file that cannot be used."""

    @abstractmethod
    def name_of(self, index: int) -> str:
        """The file, or other name, of image `index` for messages."""

    def glances(self) -> Iterator[Glance | DataError | None]:
        """Of each image what its file says without decoding, or why it cannot be used; None where it has no file."""
        return repeat(None, len(self))

    def file_of(self, index: int) -> bytes | None:
        """The bytes of its image file; None where there is no file."""
        return None

    @abstractmethod
    def ground_truth(self) -> GroundTruth:
        """Every box of the set, for evaluators and for statistics such as anchors; no image is decoded."""

    def left_out(self) -> dict[str, int]:
        """What was changed or left out when the annotations were read, in words, and how often; by default nothing."""
        return {}

    def skipped(self) -> Tally:
        """Images that cannot be used and were left out when the set was opened, and why."""
        return self._skipped or Tally()

    def classes_of_samples(self) -> list[np.ndarray]:
        """For each image the different classes of its objects, int64; for orders such as `RepeatFactor`."""
        truth = self.ground_truth()
        kinds = np.where(truth.crowd, -1, truth.classes)
        return [np.unique(part[part >= 0]) for part in np.split(kinds, truth.offsets[1:-1])]

    def wide_samples(self) -> np.ndarray:
        """bool [I]: which images are wider than high."""
        heights, widths = self.ground_truth().sizes.T
        return np.asarray(widths > heights)


register_role("dataset", DetectionDataset, doc="images with boxes, by index")


class FileDataset(DetectionDataset):
    """A dataset of image files with annotations in flat arrays (workers share them; no object an image).

    Boxes are cut at their image's border and dropped where no area is left; both are counted and logged.

    Attributes:
        pose: what the points of its objects are, where it has points and the file says it.
        counts: How many boxes were `clipped`, `dropped` (no area) or of a class left out (`unknown_class`); how many
            points lay outside of their image (`strays`); how many images were left out: `unusable`, up to
            `max_skipped` of them; `bad_images`, with `bad_images: skip`; `empty_images`.
    """

    def __init__(
        self,
        intake: Intake,
        files: FileTable,
        class_names: Sequence[str],
        *,
        category_ids: Sequence[int] | None = None,
        unknown_boxes: int = 0,
        skip_empty: bool = False,
    ) -> None:
        """Args: what was read, the files of its images, and as the subclasses say."""
        raw = intake.raw
        self.class_names = tuple(class_names)
        self._what = intake.what
        self._fitter = Fitter()
        self.pose = raw.pose
        self._files = files
        self._category_ids = np.asarray(category_ids or range(len(class_names)), np.int64)
        self._image_ids = np.asarray(raw.image_ids, np.int64)
        self._sizes = np.asarray(raw.sizes, np.int32).reshape(-1, 2)
        self._chosen = np.arange(len(files))
        self._check_images(intake)
        self._skipped = Tally()
        intake.report(self._skipped)
        self.counts = {
            "clipped": 0,
            "dropped": 0,
            "strays": 0,
            "unknown_class": unknown_boxes,
            "unusable": len(intake.unusable),
            "bad_images": len(intake.bad_pictures),
            "empty_images": 0,
        }
        self._table = clean_boxes(raw, self._sizes)
        self.has_masks = self._table.shapes is not None
        self._count_problems()
        if skip_empty:
            keep = np.diff(self._table.offsets)[self._chosen] > 0
            self.counts["empty_images"] = int((~keep).sum())
            self._chosen = self._chosen[keep]
        if not len(self):
            raise DataError(f"{self._what}: no images left; {self._problems() or 'the list of images is empty'}")
        _log.info("%s", self.report())
        if self.passed is not None:
            self.passed.say(self._what)
        self.damaged = find_damaged(self._what, files, chosen=self._chosen)

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: int) -> Sample:
        at = self._chosen[index]
        image = self._picture(at)
        rows = slice(self._table.offsets[at], self._table.offsets[at + 1])
        shapes = self._table.shapes
        return Sample(
            image=image,
            image_id=int(self._image_ids[at]),
            instances=Instances(
                Boxes(self._table.boxes[rows].astype(np.float32)),
                self._table.classes[rows].copy(),
                difficult=self._table.difficult[rows].copy(),
                crowd=self._table.crowd[rows].copy(),
                masks=None if shapes is None else shapes.masks(np.arange(rows.start, rows.stop), image.shape[:2]),
                keypoints=None if self._table.points is None else self._table.points[rows].copy(),
                pose=self.pose,
            ),
        )

    def points(self) -> np.ndarray | None:
        """Points of every box of `ground_truth`, float32 [T, L, 3]; None where the set has none."""
        if self._table.points is None:
            return None
        starts = self._table.offsets
        rows = [np.arange(starts[at], starts[at + 1]) for at in self._chosen]
        return self._table.points[np.concatenate(rows)]

    def _picture(self, at: int) -> np.ndarray:
        """Picture `at` of the file table, uint8 [H, W, 3], of the size its annotation says where it says one."""
        try:
            image = decode_image(self._files.read(at), self._files.full_name(at))
        except DataError as error:
            raise PictureError(str(error)) from None
        height, width = self._sizes[at].tolist()
        try:
            return self._fitter.as_stated(image, (height, width), self._files.full_name(at))
        except DataError as error:
            raise PictureError(str(error)) from None

    def _decoded_sizes(self, places: np.ndarray) -> Iterator[tuple[int, int] | PictureError]:
        for at in places.tolist():
            try:
                height, width = self._picture(at).shape[:2]
                yield height, width
            except PictureError as error:
                yield error

    def name_of(self, index: int) -> str:
        """The image file of sample `index`."""
        return self._files.full_name(self._chosen[index])

    def glances(self) -> Iterator[Glance | DataError]:
        """What their files say, of the shapes that their annotations say where these say one."""
        return self._glances(self._chosen)

    def _glances(self, places: np.ndarray) -> Iterator[Glance | PictureError]:
        stated = self._sizes[places].tolist()
        for at, (height, width), found in zip(places.tolist(), stated, glances(self._files, places), strict=True):
            try:
                if isinstance(found, DataError):
                    raise found
                if found.size != (height, width):
                    self._fitter.scale((height, width), found.size, self._files.full_name(at))
            except DataError as error:
                yield PictureError(str(error))
            else:
                yield found

    def file_of(self, index: int) -> bytes:
        """The bytes of that file."""
        return self._files.read(self._chosen[index])

    def ground_truth(self) -> GroundTruth:
        """All boxes of the images in this set, with the areas of the annotation file where it has them."""
        return self._table.ground_truth(
            self._chosen, self.class_names, self._image_ids, self._sizes, self._category_ids
        )

    def report(self) -> str:
        """One line: images, boxes by class, and what was clipped, dropped or left out."""
        truth = self.ground_truth()
        by_class = np.bincount(truth.classes[~truth.crowd], minlength=self.num_classes)
        shown = [f"{name} {count}" for name, count in zip(self.class_names, by_class, strict=True)]
        names = ", ".join(shown[:12]) + (" ..." if len(shown) > 12 else "")
        crowd = int(truth.crowd.sum())
        text = f"{self._what}: {len(self)} images, {len(truth.boxes) - crowd} boxes ({names})"
        text += f", {crowd} crowd regions" if crowd else ""
        return "; ".join(filter(None, [text, self._problems()]))

    def left_out(self) -> dict[str, int]:
        """What was changed or left out besides what `skipped` holds, in words, and how often."""
        return {words: self.counts[key] for key, words in _WORDS.items() if self.counts[key] and key != "unusable"}

    def _problems(self) -> str:
        return ", ".join(f"{self.counts[key]} {words}" for key, words in _WORDS.items() if self.counts[key])

    def _count_problems(self) -> None:
        self.counts["clipped"] = int(self._table.clipped[self._chosen].sum())
        self.counts["dropped"] = int(self._table.dropped[self._chosen].sum())
        self.counts["strays"] = int(self._table.strays[self._chosen].sum())

    def _check_images(self, intake: Intake) -> None:
        """Finds sizes that annotations do not state, by headers; with `bad_images: "skip"`, decodes every picture."""
        good = np.ones(len(self._files), bool)
        unknown = np.flatnonzero(intake.checks_pictures | ~self._sizes.all(axis=1))
        found = self._decoded_sizes(unknown) if intake.checks_pictures else self._glances(unknown)
        for at, each in zip(unknown.tolist(), found, strict=True):
            if isinstance(each, PictureError):
                intake.leave_out(each)
                good[at] = False
            else:
                self._sizes[at] = each.size if isinstance(each, Glance) else each
        self._chosen = self._chosen[good]
