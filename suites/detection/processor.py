"""What stands around a detector when it predicts: preprocessing, boxes back in the image's pixels, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from suites.detection.pasting import pasted
from suites.detection.pose import located
from suites.detection.sample import Sample
from suites.detection.transforms import Transform, collate, padded_size
from suites.detection.views import Views
from suites.detection.visualize import draw_instances
from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch, Found
from suites.vision.geometry import Placement
from suites.vision.pose import Pose
from suites.vision.processor import ImageProcessor
from suites.vision.structures import Boxes, Instances, Masks

_SEEN = 2.0  # how visible points are of networks that do not say


class DetectionProcessor(ImageProcessor):
    """Images to batches, detections to boxes with class names.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        min_score: detections below it are left out.
        padded_to: see `collate`.
        views: several looks at each image; None for one.
        pose: what the points of an object are, where the network finds some with names.
    """

    suite: ClassVar[str] = "detection"

    def __init__(
        self,
        transforms: Sequence[Transform],
        class_names: Sequence[str],
        min_score: float,
        padded_to: int | None = None,
        views: Views | dict[str, Any] | None = None,
        pose: Pose | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(transforms, class_names)
        self._min_score = min_score
        self._padded_to = padded_to
        self._views: Views | None = build_value(views, Views, suite=self.suite) if isinstance(views, dict) else views
        self._pose: Pose | None = build_value(pose, Pose, suite=self.suite) if isinstance(pose, dict) else pose

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        views = {} if self._views is None else {"views": plain(self._views, suite=self.suite)}
        pose = {} if self._pose is None else {"pose": plain(self._pose, suite=self.suite)}
        return {**super().metadata(), "min_score": self._min_score, "padded_to": self._padded_to, **views, **pose}

    def sample_of(self, item: np.ndarray, number: int) -> Sample:
        """An image [H, W, 3] without objects."""
        return Sample(image=item, image_id=number)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The batch."""
        return collate(samples, padded_to=self._padded_to)

    def shape_of(self, sample: Sample) -> tuple[int, int]:
        """Its size with its own padding."""
        return padded_size(sample, self._padded_to)

    def batches(self, items: Sequence[np.ndarray]) -> Iterable[Batch]:
        """A batch of each size; of several views, as many as keep within `views.together`, each with its `owners`."""
        if self._views is None:
            yield from super().batches(items)
            return
        samples = [self.sample_of(item, number) for number, item in enumerate(items)]
        yield from self._views.batches(samples, self._transforms, self.collate, self.shape_of)

    def joined(self, found: Iterable[Found]) -> list[list[dict[str, Any]]]:
        """The results, of all views together."""
        if self._views is None:
            return super().joined(found)
        parts: dict[int, list[Instances]] = {}
        for outputs, batch in found:
            for owner, objects in zip(
                batch["owners"].tolist(), found_on_originals(outputs, batch, self._pose), strict=True
            ):
                parts.setdefault(owner, []).append(objects)
        return [self._rows(self._views.merged(parts[owner])) for owner in sorted(parts)]

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[list[dict[str, Any]]]:
        """For each image, its detections, best first: class name, score, box in the image's own pixels.

        And where the network finds them, `mask`, COCO's compressed run-length code (size [H, W] and counts, which
        pycocotools reads), and `landmarks`, [x, y] each, or `keypoints`, [x, y] by name, with `seen`, how sure each is
        to be seen, of networks that say so.
        """
        return [self._rows(objects) for objects in found_on_originals(outputs, batch, self._pose)]

    def _rows(self, objects: Instances) -> list[dict[str, Any]]:
        kept = objects[objects.scores >= self._min_score]
        rows = zip(kept.boxes.array.tolist(), kept.scores.tolist(), kept.classes.tolist(), strict=True)
        found: list[dict[str, Any]] = [
            {"class": self._class_names[label], "score": round(score, 5), "box": [round(v, 2) for v in box]}
            for box, score, label in rows
        ]
        for row, code in zip(found, kept.masks.codes() if kept.masks else (), strict=bool(kept.masks)):
            row["mask"] = {"size": list(code["size"]), "counts": code["counts"].decode()}
        for row, points in zip(found, () if kept.keypoints is None else kept.keypoints.tolist(), strict=False):
            places = [[round(x, 2), round(y, 2)] for x, y, _ in points]
            if self._pose is None:
                row["landmarks"] = places
                continue
            row["keypoints"] = dict(zip(self._pose.names, places, strict=True))
            if max(visible for _, _, visible in points) <= 1:
                row["seen"] = {name: round(point[2], 5) for name, point in zip(self._pose.names, points, strict=True)}
        return found

    def draw(self, item: np.ndarray, result: list[dict[str, Any]]) -> np.ndarray:
        """The image with the boxes, and the masks and points if there are any, of `result`."""
        boxes = Boxes(np.array([r["box"] for r in result], np.float32))
        classes = np.array([self._class_names.index(r["class"]) for r in result], np.int64)
        scores = np.array([r["score"] for r in result], np.float32)
        masks = Masks(tuple(r["mask"] for r in result), item.shape[:2]) if result and "mask" in result[0] else None
        points = None
        if result and ("landmarks" in result[0] or "keypoints" in result[0]):
            places = [r["landmarks"] if "landmarks" in r else list(r["keypoints"].values()) for r in result]
            sure = (
                r["seen"].values() if "seen" in r else [_SEEN] * len(p) for r, p in zip(result, places, strict=True)
            )
            seen = [list(each) for each in sure]
            points = np.concatenate([np.array(places, np.float32), np.array(seen, np.float32)[..., None]], axis=2)
        objects = Instances(boxes, classes, scores, masks=masks, keypoints=points)
        return draw_instances(item, objects, self._class_names, skeleton=self._pose.skeleton if self._pose else ())


def found_on_originals(outputs: Mapping[str, np.ndarray], batch: Batch, pose: Pose | None = None) -> list[Instances]:
    """What a detector found on each image, in pixels of the original and cut to it.

    Args:
        outputs: `boxes` [N, D, 4] in pixels of the input, `scores` and `classes` [N, D], `counts` [N], and perhaps
            `masks` [N, D, S, S], `landmarks` [N, D, L, 2] with `seen` [N, D, L], and `heatmaps` [N, D, S, S, L].
        batch: `placements` [N, 4] and `original_sizes` [N, 2].
        pose: the points, which change places on a mirrored picture.
    """
    found = []
    for i, count in enumerate(outputs["counts"].tolist()):
        boxes, scores, classes = (outputs[name][i, :count].copy() for name in ("boxes", "scores", "classes"))
        back = Placement(*batch["placements"][i].tolist()).inverse()
        height, width = batch["original_sizes"][i].tolist()
        points = outputs["landmarks"][i, :count].copy() if "landmarks" in outputs else None
        if "heatmaps" in outputs:
            points = located(outputs["heatmaps"][i, :count], boxes)
        if points is not None:
            seen = outputs["seen"][i, :count] if "seen" in outputs else np.full_like(points[..., 0], _SEEN)
            points = np.concatenate([points, seen[..., None]], axis=-1)
        shown = Instances(Boxes(boxes), classes, scores, keypoints=points, pose=pose)
        objects = shown.placed(back).clipped((height, width))
        if "masks" in outputs:
            grids = outputs["masks"][i, :count, :: _sign(back.ay), :: _sign(back.ax)]
            objects = replace(objects, masks=pasted(grids, objects.boxes, (height, width)))
        found.append(objects)
    return found


def _sign(scale: float) -> int:
    """Which way an axis runs: -1 where the input is the picture mirrored."""
    return -1 if scale < 0 else 1
