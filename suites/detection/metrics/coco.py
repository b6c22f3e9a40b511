"""COCO's AP and AR of boxes and masks through pycocotools, and its files of results.

Letters: I images, P predictions, K classes. Predictions are in pixels of the original images.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets.coco import read_json
from suites.detection.datasets.shapes import read_shape
from suites.detection.metrics.base import Evaluator
from suites.detection.sample import GroundTruth
from suites.engine.registry import register
from suites.engine.reporting import Curves, Plot
from suites.vision.pose import sigmas_of
from suites.vision.structures import Boxes, Instances, Masks

_DRAWN_OVERLAPS = (0, 5, 8)  # of IoU 0.50 to 0.95: 0.50, 0.75, 0.90
_COCOS = 100  # detections of an image that COCO's own figures count
_AREAS = ("", "s", "m", "l")  # pycocotools' order


@register("metric")
class CocoEvaluator(Evaluator):
    """COCO's figures, by pycocotools: AP, AP50, AP75, APs/m/l, AR1/10/100, ARs/m/l and `AP/<class>`.

    Those of boxes; where both truth and predictions have masks, those of masks too, with `mask_` before their names;
    where both have keypoints, those of keypoints, with `keypoint_` before theirs: the overlap is OKS, at most 20
    predictions an image count, and objects without a labelled point are neither asked for nor punished.
    AP is the mean over IoU 0.50 to 0.95 in steps of 0.05, over classes with objects, of precision at 101 recalls,
    with at most `max_detections` predictions an image (https://cocodataset.org/#detection-eval).

    With more than COCO's 100, for images of more objects, COCO's own AP, AP50 and AP75 are told too, as `AP@100` and so
    on; the last AR is called by the number, such as AR300.

    Args:
        truth: What is compared with.
        max_detections: Predictions of a class in an image that count, the best. The network must give as many: its
            `keep_top_k`.
        sigmas: Of OKS: how far annotators of each point differ, as a share of the root of the object's area. None
            takes COCO's of people for 17 points, else 0.05 each.
    """

    main_figure: ClassVar[str] = "AP"

    def __init__(self, truth: GroundTruth, max_detections: int = 100, sigmas: tuple[float, ...] | None = None) -> None:
        super().__init__(truth)
        if max_detections < 11:
            raise AttributeValueError(f"CocoEvaluator: max_detections is {max_detections}; it must be 11 or more")
        self._max_detections = max_detections
        points = 0 if truth.points is None else truth.points.shape[1]
        if points and sigmas is not None and (len(sigmas) != points or min(sigmas) <= 0):
            raise AttributeValueError(
                f"CocoEvaluator: sigmas is {list(sigmas)}; it needs a positive number for each of {points} points"
            )
        self._sigmas = np.array(sigmas_of(points) if sigmas is None else sigmas)
        self._curves: dict[str, list[Plot]] = {}  # by kind

    def compute(self) -> dict[str, float]:
        """The figures by name, 0 to 1."""
        rows, codes = self._predictions(), self._all_codes()
        with_masks = self._truth.masks is not None and (bool(codes) or not len(rows))
        truth = _coco(self._truth, _truth_rows(self._truth, with_masks))
        figures = self._compare(truth, _coco(self._truth, _row_dicts(self._truth, rows)), "bbox")
        if with_masks:
            found = _coco(self._truth, _row_dicts(self._truth, rows, codes))
            figures |= {f"mask_{name}": value for name, value in self._compare(truth, found, "segm").items()}
        points = self._all_points()
        if self._truth.points is not None and (len(points) or not len(rows)):
            figures |= {f"keypoint_{name}": value for name, value in self._oks(rows, points).items()}
        return figures

    def _oks(self, rows: np.ndarray, points: np.ndarray) -> dict[str, float]:
        """AP, AP50, AP75, APm, APl and AR20 of keypoints."""
        assert self._truth.points is not None
        wanted, found = _truth_rows(self._truth), _row_dicts(self._truth, rows)
        for entry, triples in zip(wanted, self._truth.points.astype(np.float64), strict=True):
            entry |= {"keypoints": triples.reshape(-1).tolist(), "num_keypoints": int((triples[:, 2] > 0).sum())}
        for entry, places in zip(found, points.astype(np.float64), strict=True):
            entry["keypoints"] = np.concatenate([places, np.ones_like(places[:, :1])], axis=1).reshape(-1).tolist()
            entry["area"] = float(np.ptp(places, axis=0).prod())  # as pycocotools reads results
        with contextlib.redirect_stdout(io.StringIO()):
            run = COCOeval(_coco(self._truth, wanted), _coco(self._truth, found), "keypoints")
            run.params.kpt_oks_sigmas = self._sigmas
            run.evaluate()
            run.accumulate()
        precision, recall = run.eval["precision"], run.eval["recall"]  # areas: all, medium, large
        figures = {"AP": _mean(precision[..., 0, -1]), "AP50": _mean(precision[0, ..., 0, -1])}
        figures |= {"AP75": _mean(precision[5, ..., 0, -1]), "APm": _mean(precision[..., 1, -1])}
        figures |= {"APl": _mean(precision[..., 2, -1]), "AR20": _mean(recall[..., 0, -1])}
        return {name: value for name, value in figures.items() if value > -1}

    def plots(self) -> list[Plot]:
        """Precision over recall: the mean over classes at three overlaps, and of each class at IoU 0.5."""
        return [plot for plots in self._curves.values() for plot in plots]

    def _compare(self, truth: COCO, found: COCO, kind: Literal["bbox", "segm"]) -> dict[str, float]:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its tables
            run = COCOeval(truth, found, kind)
            run.params.maxDets = sorted({1, 10, min(self._max_detections, _COCOS), self._max_detections})
            run.evaluate()
            run.accumulate()
        figures = _figures(run)
        precision = run.eval["precision"][:, :, :, 0, -1]  # [IoU, recall, K]: all areas, `max_detections` predictions
        self._curves[kind] = _curves(precision, run.params.recThrs, self._truth.class_names, kind)
        figures |= {f"AP/{name}": _mean(precision[:, :, at]) for at, name in enumerate(self._truth.class_names)}
        return {name: value for name, value in figures.items() if value > -1}


def _figures(run: COCOeval) -> dict[str, float]:
    """What `summarize` of pycocotools prints, for the largest limit of predictions and for COCO's."""
    precision = run.eval["precision"]  # [IoU, recall, K, area, limit]
    recall = run.eval["recall"]  # [IoU, K, area, limit]
    limits = run.params.maxDets
    figures = {"AP": _mean(precision[..., 0, -1])}
    figures |= {"AP50": _mean(precision[0, ..., 0, -1]), "AP75": _mean(precision[5, ..., 0, -1])}
    figures |= {f"AP{area}": _mean(precision[..., at, -1]) for at, area in enumerate(_AREAS) if area}
    figures |= {f"AR{limit}": _mean(recall[..., 0, at]) for at, limit in enumerate(limits)}
    figures |= {f"AR{area}": _mean(recall[..., at, -1]) for at, area in enumerate(_AREAS) if area}
    if limits[-1] > _COCOS:
        cocos = precision[..., 0, limits.index(_COCOS)]
        figures |= {"AP@100": _mean(cocos), "AP50@100": _mean(cocos[0]), "AP75@100": _mean(cocos[5])}
    return figures


def _mean(values: np.ndarray) -> float:
    """The mean of those that are defined; -1 where none is."""
    defined = values[values > -1]
    return float(defined.mean()) if defined.size else -1.0


def _curves(precision: np.ndarray, recalls: np.ndarray, names: Sequence[str], kind: str) -> list[Plot]:
    """Of precision [IoU, recall, K], -1 where a class has no objects."""
    there = [label for label in range(len(names)) if (precision[:, :, label] > -1).any()]
    if not there:
        return []
    what, xs = {"bbox": "boxes", "segm": "masks"}[kind], recalls.tolist()
    mean = {f"IoU {0.5 + 0.05 * at:.2f}": (xs, precision[at][:, there].mean(axis=1).tolist()) for at in _DRAWN_OVERLAPS}
    each = {names[label]: (xs, precision[0, :, label].tolist()) for label in there}
    plots: list[Plot] = [Curves(f"Precision of {what}, mean over classes", "recall", "precision", mean)]
    return [*plots, Curves(f"Precision of {what} by class, IoU 0.50", "recall", "precision", each)]


def read_coco_results(path: str | Path, truth: GroundTruth) -> dict[int, Instances]:
    """Reads a file of results in COCO's format: the predictions of each image id of `truth`.

    Where results have a `segmentation`, a run-length code, they come with masks; where they lack `bbox`, the box is the
    smallest around the mask.
    """
    label_of = {int(category): label for label, category in enumerate(truth.category_ids)}
    sizes = dict(zip(truth.image_ids.tolist(), truth.sizes.tolist(), strict=True))
    found: dict[int, list[tuple[Any, float, int, Any]]] = {int(image_id): [] for image_id in truth.image_ids}
    for number, row in enumerate(read_json(path)):
        label = label_of.get(row["category_id"])
        if label is None or row["image_id"] not in found:
            raise DataError(f"{path}: a result of image {row['image_id']}, category {row['category_id']}: unknown")
        code = read_shape(row["segmentation"], f"{path}: result {number}") if "segmentation" in row else None
        found[row["image_id"]].append((row.get("bbox"), row["score"], label, code))
    return {image_id: _instances(rows, sizes[image_id]) for image_id, rows in found.items()}


def _instances(rows: Sequence[tuple[Any, float, int, Any]], size: Sequence[int]) -> Instances:
    masks = None
    if rows and all(code is not None for *_, code in rows):
        masks = Masks(tuple(code for *_, code in rows), (size[0], size[1]))
    if masks is not None and all(box is None for box, *_ in rows):
        boxes = masks.boxes().array.astype(np.float64)
    else:
        sides = np.array([box for box, *_ in rows], np.float64).reshape(-1, 4)
        boxes = np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:]], axis=1)
    scores, classes = np.array([r[1] for r in rows], np.float64), np.array([r[2] for r in rows], np.int64)
    return Instances(Boxes(boxes), classes, scores, masks=masks)


def coco_results(image_id: int, found: Instances, category_ids: Sequence[int] | np.ndarray) -> list[dict[str, Any]]:
    """One image's predictions as entries of a COCO results file (`category_ids`: see `GroundTruth`)."""
    sides = np.concatenate([found.boxes.array[:, :2], found.boxes.sides], axis=1)
    entries: list[dict[str, Any]] = [
        {"image_id": int(image_id), "category_id": int(category_ids[kind]), "bbox": box, "score": float(score)}
        for box, score, kind in zip(sides.tolist(), found.scores, found.classes, strict=True)
    ]
    for entry, code in zip(entries, found.masks.codes() if found.masks else (), strict=bool(found.masks)):
        entry["segmentation"] = {"size": list(code["size"]), "counts": code["counts"].decode()}
    return entries


def _coco(truth: GroundTruth, annotations: list[dict[str, Any]]) -> COCO:
    """An index of pycocotools from memory; category ids are labels.

    Image ids stay those of the data set: among equal scores, the image with the lower id comes first.
    """
    coco = COCO()
    sizes = zip(truth.image_ids.tolist(), truth.sizes.tolist(), strict=True)
    coco.dataset = {
        "images": [{"id": at, "height": height, "width": width} for at, (height, width) in sizes],
        "categories": [{"id": label, "name": name} for label, name in enumerate(truth.class_names)],
        "annotations": annotations,
    }
    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it does so
        coco.createIndex()
    return coco


def _truth_rows(truth: GroundTruth, with_masks: bool = False) -> list[dict[str, Any]]:
    scores = np.zeros(len(truth.boxes))
    rows = np.column_stack([truth.owners(), truth.boxes, scores, truth.classes])
    codes: list[bytes] = []
    if with_masks and truth.masks is not None:
        codes = [code["counts"] for masks in truth.masks for code in masks.codes()]
    entries = _row_dicts(truth, rows, codes)
    for entry, area, crowd in zip(entries, truth.areas.tolist(), truth.crowd.tolist(), strict=True):
        entry |= {"area": area, "iscrowd": int(crowd)}
    return entries


def _row_dicts(truth: GroundTruth, rows: np.ndarray, codes: Sequence[bytes] = ()) -> list[dict[str, Any]]:
    """Rows [P, 7] as pycocotools wants them; with masks their area is that of the mask.

    Ids count from 1: it takes a match with id 0 for no match.
    """
    sides = rows[:, 3:5] - rows[:, 1:3]
    boxes = np.concatenate([rows[:, 1:3], sides], axis=1).tolist()
    image_ids = truth.image_ids.tolist()
    entries: list[dict[str, Any]] = [
        {"id": at, "image_id": image_ids[int(row[0])], "category_id": int(row[6]), "bbox": box, "score": row[5],
         "area": float(side.prod()), "iscrowd": 0}
        for at, (row, box, side) in enumerate(zip(rows.tolist(), boxes, sides, strict=True), start=1)
    ]  # fmt: skip
    sizes = truth.sizes.tolist()
    for entry, row, code in zip(entries, rows, codes, strict=bool(codes)):
        entry["segmentation"] = {"size": sizes[int(row[0])], "counts": code}
        entry["area"] = float(coco_mask.area(entry["segmentation"]))
    return entries
