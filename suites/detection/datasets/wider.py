"""WiderFace: faces in the layout of WIDER FACE (Yang et al. 2016, http://shuoyang1213.me/WIDERFACE).

Letters: I images, T faces of all images, P landmarks a face.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.detection.datasets.annotations import RawAnnotations
from suites.detection.datasets.base import FileDataset, OnProblem
from suites.detection.sample import GroundTruth
from suites.engine.registry import register
from suites.engine.sources import Source, open_source, read_file
from suites.vision.headers import image_size

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
        min_side: Faces with a shorter side, in pixels, become crowd regions too.
        bad_images: "error", or "skip" to decode all images at the start and leave out, with a count, those that are
            missing or damaged.
        skip_empty: Leaves out images without faces.

    Raises:
        DataError: Names the file and line that cannot be read.
    """

    def __init__(
        self,
        root: str | Path,
        split: Literal["train", "val"] = "train",
        *,
        subsets: str | Path | None = None,
        min_side: float = 0.0,
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
    ) -> None:
        source = open_source(root)
        faces = _read_faces(source, split)
        folder = f"WIDER_{split}/images"
        raw, missing, kept = RawAnnotations(), [], []
        for face in faces:
            name = f"{folder}/{face.name}"
            if not source.exists(name):
                missing.append(f"{source.root}/{name}")
                continue
            at = raw.add_image(name, image_size(source.read(name)) or (0, 0))
            kept.append(face)
            for box, invalid in zip(face.boxes, face.invalid, strict=True):
                x, y, width, height = box
                small = min(width, height) < min_side
                raw.add_box(at, (x, y, x + width, y + height), 0, crowd=bool(invalid) or small)
        self._levels = None if subsets is None else _read_levels(Path(subsets), kept)
        self._listed = kept
        super().__init__(
            f"WiderFace {root} {split}",
            raw,
            source.table(raw.files),
            ["face"],
            missing=missing,
            bad_images=bad_images,
            skip_empty=skip_empty,
        )

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
    """One image of the list: its name, boxes (x, y, width, height) and which are invalid."""

    name: str
    boxes: list[tuple[float, float, float, float]] = field(default_factory=list)
    invalid: list[bool] = field(default_factory=list)


def _read_faces(source: Source, split: str) -> list[_Faces]:
    """The images of the list. A name, a count, then a line a face; of no faces a line of zeros may follow."""
    name = f"wider_face_split/wider_face_{split}_bbx_gt.txt"
    if not source.exists(name):
        raise DataError(f"{source.root}: no {name}; WIDER FACE has it in wider_face_split.zip")
    lines = source.read(name).decode("utf-8", "replace").splitlines()
    found, at = [], 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        faces = _Faces(lines[at].strip())
        count = _numbers(f"{source.root}/{name}", lines, at + 1, 1)[0]
        at += 2
        for _ in range(int(count)):
            numbers = _numbers(f"{source.root}/{name}", lines, at, 4)
            faces.boxes.append((numbers[0], numbers[1], numbers[2], numbers[3]))
            faces.invalid.append(len(numbers) > _INVALID and numbers[_INVALID] == 1)
            at += 1
        if not count and at < len(lines) and set(lines[at].split()) == {"0"}:
            at += 1
        found.append(faces)
    return found


def _numbers(file: str, lines: list[str], at: int, least: int) -> list[float]:
    """The numbers of line `at`, counted from 0."""
    try:
        numbers = [float(word) for word in lines[at].split()]
    except (IndexError, ValueError):
        numbers = []
    if len(numbers) < least:
        text = repr(lines[at][:60]) if at < len(lines) else "the end of the file"
        raise DataError(f"{file}:{at + 1}: {text} stands where {least} numbers or more are needed")
    return numbers


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
