"""What is wrong with a detection data set: pictures that cannot be read, boxes that teach nothing, classes too rare.

Letters: T boxes of all pictures, K classes.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise, repeat
from pathlib import Path
from typing import ClassVar

import numpy as np

from framework.errors import DataError
from suites.detection.datasets import DetectionDataset
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.writing import WRITERS, lost_in
from suites.detection.sample import Sample
from suites.detection.visualize import draw_instances
from suites.engine.contract.inspection import Finding, Inspected, copies_within, finding_at
from suites.engine.registry import register
from suites.vision.inspection import VisualInspector, left_out_findings
from suites.vision.point_findings import Pointed, point_findings
from suites.vision.structures import pairwise_iou

_log = logging.getLogger(__name__)

_TINY = 4.0  # pixels: a side below it is a cell of no level
_TWICE = 0.9  # IoU from which on two boxes of a class are one object annotated twice
_RARE = 10  # objects of a class below which its figures are chance
_MANY = 100  # objects of a picture that detectors give by default, and that COCO's figures count
_LONG = 10.0  # ratio of sides beyond which no anchor fits


@register("inspector", "detection")
class DetectionInspector(VisualInspector):
    """Looks at the pictures one by one, and at all boxes at once."""

    formats: ClassVar[tuple[str, ...]] = tuple(WRITERS)

    def look_at(self, dataset: DetectionDataset, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        digests, broken = [], []
        files = repeat(None, len(dataset)) if decode else dataset.glances()
        for at, file in enumerate(files):
            try:
                if isinstance(file, DataError):
                    raise file
                digests.append(hashlib.sha256(dataset[at].image.tobytes()).hexdigest() if file is None else file.digest)
            except (DataError, OSError) as error:
                digests.append("")
                broken.append((at, str(error)))
        findings = left_out_findings(dataset)
        advice = 'mend or remove them, or set bad_images: "skip"'
        findings += finding_at("error", "pictures cannot be used", broken, advice)
        if dataset.unannotated:
            text = f"{len(dataset.unannotated)} pictures have no annotation and are not used"
            advice = "where they show nothing, give them an annotation without objects; they teach the background"
            findings.append(Finding("note", text, dataset.unannotated, advice=advice))
        findings += copies_within(names, digests, _truths(dataset)) + _box_findings(dataset, names)
        findings += _point_findings(dataset, names)
        return Inspected(_summary(dataset), findings, digests, names)

    def picture(self, sample: Sample, class_names: Sequence[str]) -> np.ndarray:
        """The picture with its boxes and masks."""
        return draw_instances(sample.image, sample.instances, class_names, with_scores=False)

    def write(self, dataset: DetectionDataset, indices: Sequence[int], folder: Path, part: str, kind: str) -> Path:
        """Writes samples as part `part` of a set of format `kind` in `folder`; returns what a config names."""
        path = WRITERS[kind](dataset, indices, folder, part)
        for text in lost_in(kind, dataset, indices):
            _log.warning("%s: %s has no place for all of it: %s", part, kind, text)
        return path


def _truths(dataset: DetectionDataset) -> list[Hashable]:
    """Classes and boxes of each picture in whole pixels, in one order."""
    truth = dataset.ground_truth()
    rows = np.concatenate([truth.classes[:, None], np.rint(truth.boxes)], axis=1).astype(int).tolist()
    return [tuple(sorted(map(tuple, rows[first:last]))) for first, last in pairwise(truth.offsets)]


def _summary(dataset: DetectionDataset) -> list[str]:
    truth = dataset.ground_truth()
    sides = truth.boxes[:, 2:] - truth.boxes[:, :2]
    per_class = np.bincount(truth.classes, minlength=len(truth.class_names))
    each = np.diff(truth.offsets)
    lines = [
        f"{len(truth.image_ids)} pictures, {len(truth.boxes)} boxes, {int(truth.crowd.sum())} of them crowd regions"
    ]
    if len(truth.boxes):
        low, middle, high = np.percentile(np.sqrt(sides.prod(axis=1)), [5, 50, 95])
        lines.append(f"boxes of a picture: {each.min()} to {each.max()}, {each.mean():.1f} on average")
        lines.append(
            f"side of boxes (root of the area): {low:.0f} to {high:.0f} pixels, median {middle:.0f} (5 % to 95 %)"
        )
    heights, widths = truth.sizes.T
    lines.append(f"pictures: {widths.min()} to {widths.max()} wide, {heights.min()} to {heights.max()} high")
    width = max(len(name) for name in truth.class_names)
    lines += [f"  {name:<{width}} {count:>7}" for name, count in zip(truth.class_names, per_class, strict=True)]
    return lines


def _box_findings(dataset: DetectionDataset, names: Sequence[str]) -> list[Finding]:
    truth = dataset.ground_truth()
    owners = truth.owners()
    sides = truth.boxes[:, 2:] - truth.boxes[:, :2]
    per_class = np.bincount(truth.classes[~truth.crowd], minlength=len(truth.class_names))
    findings = []

    def of_boxes(which: np.ndarray, level: str, text: str, advice: str = "") -> None:
        if which.any():
            samples = tuple(int(at) for at in np.unique(owners[which]))
            places = tuple(f"{names[at]} ({int((owners[which] == at).sum())})" for at in samples)
            findings.append(Finding(level, f"{int(which.sum())} {text}", places, samples, advice))  # type: ignore[arg-type]

    absent = [name for name, count in zip(truth.class_names, per_class, strict=True) if not count]
    rare = [f"{name}: {count}" for name, count in zip(truth.class_names, per_class, strict=True) if 0 < count < _RARE]
    if absent:
        text = f"{len(absent)} of {len(truth.class_names)} classes have no object: {', '.join(absent[:10])}"
        findings.append(Finding("warning", text, advice="they cannot be learnt or measured here; correct `classes`"))
    if rare:
        findings.append(Finding("warning", f"{len(rare)} classes have fewer than {_RARE} objects", tuple(rare)))
    empty = np.flatnonzero(np.diff(truth.offsets) == 0)
    if len(empty):
        chosen = empty.tolist()
        findings.append(
            Finding("note", f"{len(empty)} pictures without objects", tuple(names[i] for i in chosen), tuple(chosen))
        )
    crowded = np.flatnonzero(np.diff(truth.offsets) > _MANY).tolist()
    if crowded:
        advice = "detectors give 100 and COCO counts 100; raise keep_top_k of the network and metric.max_detections"
        places = tuple(names[i] for i in crowded)
        text = f"{len(crowded)} pictures with more than {_MANY} objects"
        findings.append(Finding("note", text, places, tuple(crowded), advice))
    counts: dict[str, int] = getattr(dataset, "counts", {})
    for key, text in (("clipped", "boxes reached beyond their picture and were cut"), ("dropped", "boxes had no area")):
        if counts.get(key):
            findings.append(Finding("warning", f"{counts[key]} {text}", advice="look at the tool that wrote them"))
    of_boxes(sides.min(axis=1, initial=np.inf) < _TINY, "warning", f"boxes with a side below {_TINY:g} pixels")
    long = sides.max(axis=1, initial=0) > _LONG * np.maximum(sides.min(axis=1, initial=np.inf), 1e-9)
    of_boxes(long, "warning", f"boxes more than {_LONG:g} times as long as wide", "few anchors overlap them")
    of_boxes(_annotated_twice(truth.boxes, truth.classes, truth.offsets), "warning", "boxes that are annotated twice")
    return findings


def _point_findings(dataset: DetectionDataset, names: Sequence[str]) -> list[Finding]:
    """What is wrong with the points of boxes that have some; none for a set without points."""
    if not isinstance(dataset, FileDataset) or (points := dataset.points()) is None:
        return []
    found = []
    if dataset.counts["strays"]:
        text = f"{dataset.counts['strays']} points lay outside of their picture and are unlabelled"
        found.append(Finding("warning", text, advice="look at the tool that wrote them"))
    truth = dataset.ground_truth()
    rows = np.flatnonzero((points[..., 2] > 0).any(axis=1))
    if not len(rows):
        return [*found, Finding("warning", "no box has a labelled point")]
    owners = truth.owners()[rows]
    seen = Pointed(
        points=points[rows].astype(np.float64),
        boxes=truth.boxes[rows],
        sizes=truth.sizes[owners],
        owners=owners,
        names=[f"{names[at]}, box {row}" for at, row in zip(owners, rows - truth.offsets[owners], strict=True)],
        pose=dataset.pose,
    )
    of_pictures = (replace(one, samples=tuple(owners[list(one.samples)].tolist())) for one in point_findings(seen))
    return [*found, *of_pictures]


def _annotated_twice(boxes: np.ndarray, classes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """bool [T]: boxes that overlap an earlier one of their picture and class nearly wholly."""
    found = np.zeros(len(boxes), bool)
    for first, last in pairwise(offsets):
        if last - first > 1:
            rows = slice(first, last)
            same = classes[rows][:, None] == classes[rows][None]
            overlap = pairwise_iou(boxes[rows], boxes[rows]) > _TWICE
            found[rows] = np.tril(overlap & same, -1).any(axis=1)
    return found
