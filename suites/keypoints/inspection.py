"""What is wrong with a data set of points: pictures that cannot be read, and what strangers get wrong with points.

Letters: T objects, L points.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import repeat

import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Inspected, copies_within, finding_at
from suites.engine.registry import register
from suites.keypoints.datasets.base import ODD, PoseDataset
from suites.keypoints.sample import PoseSample
from suites.keypoints.visualize import draw_points
from suites.vision.drawing import enlarged
from suites.vision.inspection import VisualInspector, left_out_findings
from suites.vision.objects import draw_box
from suites.vision.pictures.glances import Glance
from suites.vision.point_findings import Pointed, point_findings


@register("inspector", "keypoints")
class PointInspector(VisualInspector):
    """Looks at the pictures one by one, and at all points at once."""

    def look_at(self, dataset: PoseDataset, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        digests, sizes, broken = [""] * len(dataset), np.zeros((len(dataset), 2), np.int64), []
        files = repeat(None, len(dataset)) if decode else dataset.glances()
        for at, file in enumerate(files):
            try:
                digests[at], sizes[at] = _content(dataset, at, file)
            except (DataError, OSError) as error:
                broken.append((at, str(error)))
        findings = left_out_findings(dataset)
        advice = "mend or remove them; training skips and counts them, up to runtime.data.max_skipped"
        findings += finding_at("error", "objects cannot be used", broken, advice)
        for kind, level, text, advice in ODD:
            findings += finding_at(level, text, dataset.odd(kind), advice)
        findings += copies_within(*_pictures(dataset, names, digests))
        findings += point_findings(_pointed(dataset, names, sizes))
        return Inspected(_summary(dataset, names, sizes), findings, digests, names)

    def item(self, dataset: PoseDataset, at: int) -> np.ndarray:
        """What the box of object `at` shows, uint8 RGB [H, W, 3]."""
        return dataset.part(at)

    def picture(self, sample: PoseSample, class_names: Sequence[str]) -> np.ndarray:
        """The picture with the object's box, its labelled points and its skeleton."""
        objects = sample.instances
        canvas, factor = enlarged(sample.image)
        draw_box(canvas, objects.boxes.array[0].tolist(), factor, class_names[0])
        if objects.keypoints is not None:
            draw_points(canvas, factor, objects.keypoints[0], objects.pose.skeleton if objects.pose else ())
        return canvas


def _content(dataset: PoseDataset, at: int, file: Glance | DataError | None) -> tuple[str, tuple[int, int]]:
    """The digest of an object's picture, by its file if that was looked at, and its size (H, W)."""
    if isinstance(file, DataError):
        raise file
    if file is not None:
        return file.digest, file.size
    image = dataset[at].image
    return hashlib.sha256(image.tobytes()).hexdigest(), (image.shape[0], image.shape[1])


def _pictures(
    dataset: PoseDataset, names: Sequence[str], digests: Sequence[str]
) -> tuple[list[str], list[str], list[tuple[bytes, ...]]]:
    """Name, digest and points of each picture, whose objects are several samples."""
    truths: dict[str, list[bytes]] = {}
    contents: dict[str, str] = {}
    for at, name in enumerate(names):
        truths.setdefault(name, []).append(np.rint(dataset.labelled(at).points).tobytes())
        contents.setdefault(name, digests[at])
    return list(truths), [contents[name] for name in truths], [tuple(sorted(rows)) for rows in truths.values()]


def _pointed(dataset: PoseDataset, names: Sequence[str], sizes: np.ndarray) -> Pointed:
    rows = [dataset.labelled(at) for at in range(len(dataset))]
    return Pointed(
        points=np.stack([row.points for row in rows]).astype(np.float64),
        boxes=np.array([(np.nan,) * 4 if row.box is None else row.box for row in rows], np.float64),
        sizes=sizes,
        owners=np.unique(names, return_inverse=True)[1].reshape(-1),
        names=[f"{name}, object {at}" for at, name in enumerate(names)],
        pose=dataset.pose,
        outside_is_unknown=dataset.outside_is_unknown,
        rough_boxes=dataset.rough_boxes,
    )


def _summary(dataset: PoseDataset, names: Sequence[str], sizes: np.ndarray) -> list[str]:
    points = np.stack([dataset.labelled(at).points for at in range(len(dataset))])
    labelled = points[..., 2] > 0
    each = labelled.sum(axis=1)
    lines = [f"{len(dataset)} objects ({dataset.class_names[0]}) in {len(set(names))} pictures"]
    lines.append(
        f"labelled points of an object: {each.min()} to {each.max()} of {points.shape[1]}, mean {each.mean():.1f}"
    )
    if sizes.any():
        heights, widths = sizes[sizes.all(axis=1)].T
        lines.append(f"pictures: {widths.min()} to {widths.max()} wide, {heights.min()} to {heights.max()} high")
    counts = labelled.sum(axis=0)
    if counts.min() == counts.max():
        return [*lines, f"each point is labelled in {counts[0]} objects"]
    called = list(map(str, range(points.shape[1]))) if dataset.pose is None else dataset.pose.names
    width = max(map(len, called))
    return [*lines, *(f"  {name:<{width}} {count:>7}" for name, count in zip(called, counts, strict=True))]
