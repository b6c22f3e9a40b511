"""WiderFace: faces in the layout of WIDER FACE (Yang et al. 2016, http://shuoyang1213.me/WIDERFACE).

Letters: I images, T faces of all images, P landmarks a face.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem, missing_picture
from suites.detection.sample import GroundTruth, Sample
from suites.engine.data.files import Source
from suites.engine.data.intake.texts import decoded, lines_of
from suites.engine.data.intake.written import number_in
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source, read_file
from suites.engine.registry import register
from suites.vision.files import is_image
from suites.vision.pictures.headers import image_size
from suites.vision.pose import FACE_POINTS

LEVELS = ("easy", "medium", "hard")
_INVALID = 7  # place of the "invalid" flag in a line of ten numbers


@register("dataset")
class WiderFace(FileDataset):
    """Faces of `wider_face_split/wider_face_<split>_bbx_gt.txt` and the images of `WIDER_<split>/images`.

    Faces marked invalid are crowd regions: neither learnt nor punished. Faces without area are dropped, counted.

    Args:
        root: The folder that holds both, or a zip of it.
        split: "train" or "val".
        subsets: Folder of `wider_face_val.mat` and `wider_{easy,medium,hard}_val.mat` from the evaluation tools
            ("ground_truth"), which say which faces count at which level; for `WiderEvaluator`.
        landmarks: Reads boxes and five landmarks a face (eyes, nose, corners of the mouth; left is the picture's left)
            from this file in place of the list: RetinaFace's `label.txt` (Deng et al. 2020, arXiv:1905.00641).
        min_side: Faces with a shorter side, in pixels, become crowd regions too.
        bad_images: "error", or "skip" to decode all images at the start and leave out, with a count, those that are
            missing or damaged.
        skip_empty: Leaves out images without faces.
        max_skipped: Share of the images that may be unusable: lines of the list that are no faces, a missing or damaged
            picture. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file that cannot be read, or the line; more unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        split: Literal["train", "val"] = "train",
        *,
        subsets: str | Path | None = None,
        landmarks: str | Path | None = None,
        min_side: float = 0.0,
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        entries = _list_of(source, split) if landmarks is None else _landmarks_of(Path(landmarks))
        folder = f"WIDER_{split}/images"
        intake, kept = Intake(f"WiderFace {root} {split}", bad_images, max_skipped), []
        for entry in entries:
            with intake.image():
                face = entry.faces() if landmarks is None else entry.landmarks()
                name = f"{folder}/{face.name}"
                if not source.exists(name):
                    raise missing_picture(f"{source.root}/{name}")
                size = image_size(source.read(name)) or (0, 0)
                at = intake.raw.add_image(name, size, name)
                if landmarks is not None:
                    face = _inside(face, size)
                for box, invalid in zip(face.boxes, face.invalid, strict=True):
                    x, y, width, height = box
                    small = min(width, height) < min_side
                    intake.raw.add_box(at, (x, y, x + width, y + height), 0, crowd=bool(invalid) or small)
                kept.append(face)
        self._levels = None if subsets is None else _read_levels(Path(subsets), kept)
        self._listed = kept
        self._points = None if landmarks is None else [np.array(f.points, np.float32).reshape(-1, 5, 3) for f in kept]
        super().__init__(intake, source.table(intake.raw.files), ["face"], skip_empty=skip_empty)

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        if self._points is None:
            return sample
        points = self._points[self._chosen[index]].copy()
        return replace(sample, instances=replace(sample.instances, keypoints=points, pose=FACE_POINTS))

    def ground_truth(self) -> GroundTruth:
        """All faces; with `subsets` exactly those of the list, uncut, and which of them count at which level."""
        truth = super().ground_truth()
        if self._levels is None:
            return truth
        chosen = self._chosen
        rows = [np.array(self._listed[at].boxes, np.float64).reshape(-1, 4) for at in chosen]
        boxes = np.concatenate([np.zeros((0, 4)), *rows])
        counts = np.array([len(r) for r in rows], np.int64)
        invalid = [np.array(self._listed[at].invalid, bool) for at in chosen]
        return replace(
            truth,
            offsets=np.cumsum([0, *counts]),
            boxes=np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1),
            classes=np.zeros(len(boxes), np.int64),
            areas=boxes[:, 2:].prod(axis=1),
            difficult=np.zeros(len(boxes), bool),
            crowd=np.concatenate([np.zeros(0, bool), *invalid]),
            subsets={
                level: np.concatenate([np.zeros(0, bool), *(marks[at] for at in chosen)])
                for level, marks in self._levels.items()
            },
        )


@dataclass
class _Faces:
    """One image of the list: its name, boxes (x, y, width, height), which are invalid, landmarks (x, y, visible)."""

    name: str
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    invalid: list[bool] = field(default_factory=list)
    points: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class _Entry:
    """What a list says of one image.

    Attributes:
        file: the list.
        lines: all of its lines.
        first, end: of the entry, counted from 0.
    """

    file: str
    lines: list[str]
    first: int
    end: int

    def faces(self) -> _Faces:
        """A name, a count, then a line a face; of no faces a line of zeros may follow."""
        faces = _Faces(self.lines[self.first].strip())
        count = self._numbers(self.first + 1, 1)[0]
        if count < 0 or not count.is_integer():
            raise DataError(f"{self.file}:{self.first + 2}: {count:g} is no number of faces")
        at = self.first + 2
        while len(faces.boxes) < count:
            numbers = self._numbers(at, 4)
            faces.boxes.append((numbers[0], numbers[1], numbers[2], numbers[3]))
            faces.invalid.append(len(numbers) > _INVALID and numbers[_INVALID] == 1)
            at += 1
        if not count and at < self.end and set(self.lines[at].split()) == {"0"}:
            at += 1
        more = next((place for place in range(at, self.end) if self.lines[place].strip()), None)
        if more is not None:
            raise DataError(f"{self.file}:{more + 1}: a line beyond the {count:g} faces of {faces.name}")
        return faces

    def landmarks(self) -> _Faces:
        """`# name`, then a line a face: x, y, width, height, five times x, y and a flag, how it was labelled.

        A landmark whose x is below 0 is not known; the flag is not read.
        """
        header = self.lines[self.first].startswith("#")
        faces = _Faces(self.lines[self.first][1:].strip())
        for at in range(self.first + header, self.end):
            if not self.lines[at].strip():
                continue
            numbers = self._numbers(at, 19)
            if not header:
                raise DataError(f"{self.file}:{at + 1}: a face stands before the first `# image`")
            faces.boxes.append((numbers[0], numbers[1], numbers[2], numbers[3]))
            faces.invalid.append(False)
            points = np.array(numbers[4:19]).reshape(5, 3)
            seen = points[:, :1] >= 0
            faces.points.append((np.concatenate([points[:, :2], np.full((5, 1), 2.0)], axis=1) * seen).ravel().tolist())
        return faces

    def _numbers(self, at: int, least: int) -> list[float]:
        """The numbers of line `at`, finite."""
        try:
            numbers = [number_in(word) for word in self.lines[at].split()]
        except (IndexError, ValueError):
            numbers = []
        if len(numbers) < least or not all(map(math.isfinite, numbers)):
            text = repr(self.lines[at][:60]) if at < len(self.lines) else "the end of the file"
            raise DataError(f"{self.file}:{at + 1}: {text} stands where {least} numbers or more are needed")
        return numbers


def _list_of(source: Source, split: str) -> list[_Entry]:
    """The images of the list of a split. A name of a picture begins an image, whatever is wrong with those before."""
    name = f"wider_face_split/wider_face_{split}_bbx_gt.txt"
    if not source.exists(name):
        raise DataError(f"{source.root}: no {name}; WIDER FACE has it in wider_face_split.zip")
    return _entries(f"{source.root}/{name}", source.read(name, "text_bytes"), lambda line: is_image(line.strip()))


def _landmarks_of(path: Path) -> list[_Entry]:
    """The images of RetinaFace's list."""
    return _entries(str(path), read_file(path, "text_bytes"), lambda line: line.startswith("#"))


def _entries(file: str, data: bytes, begins: Callable[[str], bool]) -> list[_Entry]:
    lines = lines_of(decoded(data, file))
    full = [at for at, line in enumerate(lines) if line.strip()]
    starts = sorted({*full[:1], *(at for at in full if begins(lines[at]))})
    return [_Entry(file, lines, first, end) for first, end in pairwise([*starts, len(lines)])]


def _inside(faces: _Faces, size: tuple[int, int]) -> _Faces:
    """The faces that have an area inside the image, so that landmarks stay beside their boxes."""
    height, width = size
    keep = [
        (min(x + w, width) > max(x, 0) and min(y + h, height) > max(y, 0)) or not height for x, y, w, h in faces.boxes
    ]
    boxes, invalid = list(compress(faces.boxes, keep)), list(compress(faces.invalid, keep))
    return _Faces(faces.name, boxes, invalid, list(compress(faces.points, keep)))


def _read_levels(folder: Path, faces: list[_Faces]) -> dict[str, list[np.ndarray]]:
    """For each level and image, which faces count: bool [faces]; the images must be those of the .mat files."""
    names = _cells(folder / "wider_face_val.mat", "file_list")
    place = {str(name): (event, at) for event, files in enumerate(names) for at, name in enumerate(files)}
    found: dict[str, list[np.ndarray]] = {}
    for level in LEVELS:
        path = folder / f"wider_{level}_val.mat"
        chosen = _cells(path, "gt_list")
        marks = []
        for each in faces:
            stem = each.name.rpartition("/")[2].rpartition(".")[0]
            if stem not in place:
                raise DataError(f"{path}: has no image {stem}; the subsets are those of the validation set")
            event, at = place[stem]
            mark = np.zeros(len(each.boxes), bool)
            rows = np.asarray(chosen[event][at], np.int64).reshape(-1) - 1  # counted from 1
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(mark):
                raise DataError(f"{path}: face {rows.max() + 1} of {stem}, which has {len(mark)} faces in the list")
            mark[rows] = True
            marks.append(mark)
        found[level] = marks
    return found


def _cells(path: Path, key: str) -> list[list[np.ndarray | str]]:
    """A cell array of cell arrays of a .mat file, event by event: of names or of numbers."""
    from scipy.io import loadmat  # takes a second to import

    table = loadmat(io.BytesIO(read_file(path)))
    if key not in table:
        raise DataError(f"{path}: has no {key!r}; it has {', '.join(k for k in table if not k.startswith('__'))}")

    def plain(cell: np.ndarray) -> np.ndarray | str:
        value = cell
        while value.dtype == object and value.size == 1:
            value = value.reshape(-1)[0]
        return str(value.reshape(-1)[0]) if value.dtype.kind in "US" else value

    return [[plain(cell) for cell in event[0].reshape(-1)] for event in table[key]]
