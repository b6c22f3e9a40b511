"""The field's figures for boxes and masks: COCO's AP and AR through pycocotools, and Pascal VOC's mAP.

Letters: I images, P predictions, K classes. Predictions are in pixels of the original images.
"""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets.coco import read_json
from suites.detection.datasets.shapes import read_shape
from suites.detection.sample import GroundTruth
from suites.engine.registry import register, register_role
from suites.vision.structures import Boxes, Instances, Masks

COCO_NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


class Evaluator(ABC):
    """Collects predictions image by image, then compares them with the ground truth.

    Attributes:
        main_figure: the figure that decides which weights are best; higher is better.

    Every image of the ground truth must be added, with empty arrays where nothing was found, so that a loader
    that drops images cannot go unnoticed.
    """

    main_figure: ClassVar[str]

    def __init__(self, truth: GroundTruth) -> None:
        if not len(truth.boxes):
            raise DataError(
                f"{type(self).__name__}: the ground truth has {len(truth.image_ids)} images but no box, so no figure "
                "is defined; check the data set's classes and annotations"
            )
        self._truth = truth
        self._index = {int(image_id): at for at, image_id in enumerate(truth.image_ids)}
        self._seen: set[int] = set()
        self._rows: list[np.ndarray] = []
        self._codes: list[list[bytes]] = []  # of each of `_rows`, the run-length codes of its masks, if it has any

    def add(self, image_id: int, found: Instances) -> None:
        """Adds the predictions of one image, in pixels of the original.

        Raises:
            DataError: The image is not in the ground truth, was added before, or a class is none of the K.
        """
        who = type(self).__name__
        at = self._index.get(int(image_id))
        if at is None or at in self._seen:
            problem = "is not in the ground truth" if at is None else "was added already"
            raise DataError(f"{who}: image {image_id} {problem}")
        classes = len(self._truth.class_names)
        kinds = found.classes
        if len(kinds) and not (kinds.min() >= 0 and kinds.max() < classes):
            raise DataError(
                f"{who}: image {image_id} has classes {kinds.min()} to {kinds.max()}, but there are {classes}, "
                f"0 to {classes - 1}"
            )
        self._seen.add(at)
        columns = [np.full(len(found), at), found.boxes.array.astype(np.float64), found.scores, kinds]
        self._rows.append(np.column_stack(columns))
        self._codes.append([] if found.masks is None else [code["counts"] for code in found.masks.codes()])

    def state(self) -> dict[str, Any]:
        """What was added: `images` int64 [S], their places in the truth; `rows` [P, 7], see `_predictions`; `masks`.

        Masks are P texts, pycocotools' run-length codes; none where no masks were added.
        """
        images = np.array(sorted(self._seen), np.int64)
        return {"images": images, "rows": self._all_rows(), "masks": [code.decode() for code in self._all_codes()]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds what another evaluator of the same truth has seen.

        Raises:
            DataError: both have seen an image.
        """
        images = set(np.asarray(state["images"]).tolist())
        if twice := images & self._seen:
            image_id = int(self._truth.image_ids[min(twice)])
            raise DataError(f"{type(self).__name__}: image {image_id} was added already; merge parts that share none")
        self._seen |= images
        self._rows.append(np.asarray(state["rows"]))
        self._codes.append([code.encode() for code in state["masks"]])

    def _all_rows(self) -> np.ndarray:
        """Rows in the order of the images, whatever the order in which these were added."""
        rows = np.concatenate([np.zeros((0, 7)), *self._rows])
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def _all_codes(self) -> list[bytes]:
        """The masks of `_all_rows`, none where predictions came without."""
        codes = [code for codes in self._codes for code in codes]
        rows = np.concatenate([np.zeros((0, 7)), *self._rows])
        if len(codes) not in (0, len(rows)):
            raise DataError(
                f"{type(self).__name__}: {len(codes)} of {len(rows)} predictions have masks; all or none must"
            )
        return [codes[at] for at in np.argsort(rows[:, 0], kind="stable")] if codes else []

    @abstractmethod
    def compute(self) -> dict[str, float]:
        """The figures by name; one that is not defined, such as AP of a class without objects, is left out."""

    def _predictions(self) -> np.ndarray:
        """All rows [P, 7]: index of the image, x1, y1, x2, y2, score, class."""
        total = len(self._truth.image_ids)
        if len(self._seen) != total:
            raise DataError(
                f"{type(self).__name__}: {len(self._seen)} of {total} images were added; add all of them, with empty "
                "arrays where nothing was found (does the loader drop its last batch?)"
            )
        return self._all_rows()


register_role("metric", Evaluator, supplied=("truth",), doc="The figures of an evaluation.")


@register("metric")
class CocoEvaluator(Evaluator):
    """COCO's figures, by pycocotools: AP, AP50, AP75, APs/m/l, AR1/10/100, ARs/m/l and `AP/<class>`.

    Those of boxes; where both truth and predictions have masks, those of masks too, with `mask_` before their names.
    AP is the mean over IoU 0.50 to 0.95 in steps of 0.05, over classes with objects, of precision at 101 recalls,
    with at most `max_detections` predictions an image (https://cocodataset.org/#detection-eval).

    Args:
        truth: What is compared with.
        max_detections: Predictions of an image that count, the best; COCO's figures have 100. AR1 and AR10 stay.
    """

    main_figure: ClassVar[str] = "AP"

    def __init__(self, truth: GroundTruth, max_detections: int = 100) -> None:
        super().__init__(truth)
        if max_detections < 11:
            raise AttributeValueError(f"CocoEvaluator: max_detections is {max_detections}; it must be 11 or more")
        self._max_detections = max_detections

    def compute(self) -> dict[str, float]:
        """The figures by name, 0 to 1."""
        rows, codes = self._predictions(), self._all_codes()
        with_masks = self._truth.masks is not None and (bool(codes) or not len(rows))
        truth = _coco(self._truth, _truth_rows(self._truth, with_masks))
        figures = self._compare(truth, _coco(self._truth, _row_dicts(self._truth, rows)), "bbox")
        if with_masks:
            found = _coco(self._truth, _row_dicts(self._truth, rows, codes))
            figures |= {f"mask_{name}": value for name, value in self._compare(truth, found, "segm").items()}
        return figures

    def _compare(self, truth: COCO, found: COCO, kind: Literal["bbox", "segm"]) -> dict[str, float]:
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its tables
            run = COCOeval(truth, found, kind)
            run.params.maxDets = [1, 10, self._max_detections]
            run.evaluate()
            run.accumulate()
            run.summarize()
        figures = dict(zip(COCO_NAMES, run.stats.tolist(), strict=True))
        precision = run.eval["precision"][:, :, :, 0, -1]  # [IoU, recall, K]: all areas, `max_detections` predictions
        # pycocotools' own AP is -1 where the limit is not 100.
        figures["AP"] = float(precision[precision > -1].mean()) if (precision > -1).any() else -1.0
        for label, name in enumerate(self._truth.class_names):
            defined = precision[:, :, label] > -1
            figures[f"AP/{name}"] = float(precision[:, :, label][defined].mean()) if defined.any() else -1.0
        return {name: value for name, value in figures.items() if value > -1}


@register("metric")
class VocEvaluator(Evaluator):
    """Pascal VOC's mAP at one IoU, and `AP/<class>`; objects marked difficult neither count nor punish.

    A prediction matches the object of its class it overlaps most; a second match of an object is an error
    (Everingham et al. 2010). Crowd regions are treated as difficult.

    Args:
        truth: What is compared with.
        iou: Least overlap of a match.
        method: "integral", the area under the precision envelope (VOC 2010 on), or "11point" (VOC 2007).
    """

    main_figure: ClassVar[str] = "mAP"

    def __init__(
        self, truth: GroundTruth, iou: float = 0.5, method: Literal["integral", "11point"] = "integral"
    ) -> None:
        super().__init__(truth)
        if not 0 < iou < 1 or method not in ("integral", "11point"):
            raise AttributeValueError(
                f"VocEvaluator: iou is {iou} and method {method!r}; iou must be in (0, 1), method integral or 11point"
            )
        self._iou = iou
        self._area = area_under if method == "integral" else _area_11point

    def compute(self) -> dict[str, float]:
        """`mAP` over the classes with objects, and each class's AP, 0 to 1."""
        rows = self._predictions()
        figures = {}
        for label, name in enumerate(self._truth.class_names):
            average = self._average_precision(rows[rows[:, 6] == label], label)
            if average is not None:
                figures[f"AP/{name}"] = average
        return {"mAP": float(np.mean(list(figures.values()))), **figures} if figures else {}

    def _average_precision(self, rows: np.ndarray, label: int) -> float | None:
        truth = self._truth
        chosen = truth.classes == label
        ignored = (truth.difficult | truth.crowd)[chosen]
        objects = int((~ignored).sum())
        if not objects:
            return None
        boxes, owners = truth.boxes[chosen], truth.owners()[chosen]
        rows = rows[np.argsort(-rows[:, 5], kind="stable")]
        hits = match_greedily(rows, boxes, owners, ignored, self._iou)
        true = np.cumsum(hits == 1)
        false = np.cumsum(hits == 0)
        return self._area(true / objects, true / np.maximum(true + false, 1))


def match_greedily(
    rows: np.ndarray, boxes: np.ndarray, owners: np.ndarray, ignored: np.ndarray, threshold: float
) -> np.ndarray:
    """VOC's matching of one class's predictions [P, 7], best score first, with its objects [T, 4].

    Returns:
        int64 [P]: 1 for a first match, 0 for none or a repeated match, -1 for one with an ignored object.
    """
    hits = np.zeros(len(rows), np.int64)
    taken = np.zeros(len(boxes), bool)
    of_image = {image: np.flatnonzero(owners == image) for image in np.unique(owners)}
    for place, row in enumerate(rows):
        candidates = of_image.get(int(row[0]))
        if candidates is None:
            continue
        overlaps = _overlaps(row[1:5], boxes[candidates])
        best = candidates[int(np.argmax(overlaps))]
        if overlaps.max() < threshold:
            continue
        if ignored[best]:
            hits[place] = -1
        elif not taken[best]:
            hits[place] = 1
            taken[best] = True
    return hits


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


def _overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """IoU [T] of one box [4] with boxes [T, 4]."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    inner = sides.clip(0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return inner / np.maximum((box[2:] - box[:2]).prod() + areas - inner, 1e-12)


def area_under(recall: np.ndarray, precision: np.ndarray) -> float:
    """Area under the smallest falling curve above precision(recall)."""
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall, prepend=0.0) * envelope).sum())


def _area_11point(recall: np.ndarray, precision: np.ndarray) -> float:
    """Mean over recalls 0, 0.1, ... 1 of the best precision at that recall or more."""
    # 1e-9: a recall such as 3/10 must count as reaching the level 0.3 whatever its last bit.
    best = [precision[recall >= level - 1e-9].max(initial=0.0) for level in np.arange(11) / 10]
    return float(np.mean(best))
