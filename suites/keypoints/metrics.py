"""Figures of points: OKS AP by pycocotools, PCK, and the error normalised by a distance of the object's own.

Letters: N objects of a batch, T objects of all, L points.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from framework.errors import AttributeValueError
from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.keypoints.decoding import Reader
from suites.vision.pose import sigmas_of

_KEPT = ("truth", "points", "scores", "areas", "sides", "image_ids")


@dataclass(frozen=True)
class Figures:
    """What evaluation measures.

    Args:
        pck: share of the longer side of an object's box within which a point counts as found.
        normaliser: numbers of two points whose distance the error is divided by, such as [36, 45], the outer corners of
            the eyes of 68 points; empty for no `NME`.
        sigmas: of OKS: how far annotators of each point differ, as a share of the root of the object's area. Empty:
            COCO's of people for 17 points, else 0.05 each.
    """

    pck: float = 0.2
    normaliser: tuple[int, ...] = ()
    sigmas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        two = self.normaliser == () or (len(set(self.normaliser)) == 2 == len(self.normaliser))
        if self.pck <= 0 or not two or min(self.normaliser, default=0) < 0 or any(sigma <= 0 for sigma in self.sigmas):
            raise AttributeValueError(
                f"figures: pck is {self.pck}, normaliser {list(self.normaliser)}, sigmas {list(self.sigmas)}; pck and "
                "sigmas are positive, normaliser has two different points, from 0, or none"
            )

    def of(self, count: int) -> np.ndarray:
        """The sigmas of L points; AttributeValueError where there are others than these."""
        found = self.sigmas or sigmas_of(count)
        if len(found) != count or max(self.normaliser, default=0) >= count:
            raise AttributeValueError(
                f"figures: {len(found)} sigmas and normaliser {list(self.normaliser)} for {count} points"
            )
        return np.array(found)


class PoseMetric(Metric):
    """Compares points with those of the files, in pixels of the files.

    Args:
        figures: what is measured.
        count: L.
        reader: how points are read from heatmaps.
    """

    def __init__(self, figures: Figures, count: int, reader: Reader) -> None:
        self._reader = reader
        self._figures, self._sigmas = figures, figures.of(count)
        self._rows: dict[str, list[np.ndarray]] = {name: [] for name in _KEPT}

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `heatmaps` [N, H, W, L] or `points` [N, L, 3] of one batch."""
        points, scores = self._reader.read(outputs, batch["matrices"])
        for name, values in {**batch, "points": points, "scores": scores}.items():
            if name in _KEPT:
                self._rows[name].append(np.array(values, np.float64))

    def state(self) -> dict[str, Any]:
        """What was gathered."""
        return {name: np.concatenate(parts) for name, parts in self._rows.items() if parts}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the other objects."""
        for name, rows in state.items():
            self._rows[name].append(np.asarray(rows))

    def result(self) -> dict[str, float]:
        """`AP`, `AP50`, `AP75` and `AR` of OKS, `PCK`, and `NME` where there is a normaliser."""
        rows = self.state()
        if not rows:
            return {"AP": 0.0, "PCK": 0.0}
        order = np.argsort(rows["image_ids"], kind="stable")
        rows = {name: values[order] for name, values in rows.items()}
        seen = rows["truth"][..., 2] > 0
        far = np.linalg.norm(rows["points"] - rows["truth"][..., :2], axis=-1)
        figures = oks(rows, self._sigmas)
        reach = self._figures.pck * rows["sides"].max(axis=1, keepdims=True)
        figures["PCK"] = float((far <= reach)[seen].mean())
        if self._figures.normaliser:
            a, b = self._figures.normaliser
            apart = np.linalg.norm(rows["truth"][:, a, :2] - rows["truth"][:, b, :2], axis=-1)
            known = seen[:, a] & seen[:, b] & (apart > 0)
            if known.any():
                each = (far * seen).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
                figures["NME"] = float((each[known] / apart[known]).mean())
        return figures


def oks(rows: Mapping[str, np.ndarray], sigmas: np.ndarray) -> dict[str, float]:
    """AP, AP50, AP75 and AR of T objects by pycocotools; the score of an object is the mean of its points'."""
    wanted, found = COCO(), COCO()
    images = [{"id": int(at)} for at in np.unique(rows["image_ids"])]
    truths: list[dict[str, Any]] = []
    guesses: list[dict[str, Any]] = []
    for at, truth in enumerate(rows["truth"]):
        places, (width, height) = rows["points"][at], rows["sides"][at]
        seen = truth[:, 2] > 0
        low = truth[seen, :2].min(axis=0) if seen.any() else np.zeros(2)
        shared = {"id": at + 1, "image_id": int(rows["image_ids"][at]), "category_id": 1, "iscrowd": 0}
        truths.append({
            **shared, "keypoints": truth.reshape(-1).tolist(), "num_keypoints": int(seen.sum()),
            "area": float(rows["areas"][at]), "bbox": [*low.tolist(), float(width), float(height)],
        })  # fmt: skip
        triples = np.column_stack([places, np.ones(len(places))]).reshape(-1).tolist()
        area = float(np.ptp(places, axis=0).prod())
        guesses.append({**shared, "keypoints": triples, "score": float(rows["scores"][at].mean()), "area": area})
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its tables
        for coco, entries in ((wanted, truths), (found, guesses)):
            coco.dataset = {"images": images, "categories": [{"id": 1, "name": "x"}], "annotations": entries}
            coco.createIndex()
        run = COCOeval(wanted, found, "keypoints")
        run.params.kpt_oks_sigmas = sigmas
        run.evaluate()
        run.accumulate()
    precision, recall = run.eval["precision"], run.eval["recall"]
    picked = (precision[..., 0, -1], precision[0, ..., 0, -1], precision[5, ..., 0, -1], recall[..., 0, -1])
    return {name: _mean(values) for name, values in zip(("AP", "AP50", "AP75", "AR"), picked, strict=True)}


def _mean(values: np.ndarray) -> float:
    defined = values[values > -1]
    return float(defined.mean()) if defined.size else 0.0
