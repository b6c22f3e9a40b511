"""OKS is pycocotools' own, PCK and NME are their formulas."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.keypoints.decoding import Reader
from suites.keypoints.metrics import Figures, PoseMetric, oks
from suites.vision.pose import COCO_SIGMAS

RNG = np.random.default_rng(0)


def rows(count=6, noise=0.0):
    truth = np.concatenate([RNG.uniform(10, 90, (count, 17, 2)), np.full((count, 17, 1), 2.0)], axis=2)
    points = truth[..., :2] + noise
    return {
        "truth": truth, "points": points, "scores": RNG.random((count, 17)), "areas": np.full(count, 6400.0),
        "sides": np.full((count, 2), 80.0), "image_ids": np.arange(count),
    }  # fmt: skip


def test_points_in_their_places_have_an_ap_of_one():
    assert oks(rows(), np.array(COCO_SIGMAS)) == {"AP": 1.0, "AP50": 1.0, "AP75": 1.0, "AR": 1.0}


def test_the_overlap_is_the_formulas():
    far = 8.0
    found = rows(noise=np.array([far, 0.0]))
    overlap = np.exp(-(far**2) / (2 * 6400 * (2 * np.array(COCO_SIGMAS)) ** 2)).mean()
    reached = sum(overlap >= t for t in np.arange(0.5, 0.951, 0.05)) / 10
    assert oks(found, np.array(COCO_SIGMAS))["AP"] == pytest.approx(reached) and 0 < reached < 1


def test_nme_and_pck_are_their_formulas():
    metric = PoseMetric(Figures(pck=0.1, normaliser=(0, 1)), 17, Reader(4, 2.0))
    found = rows(noise=np.array([3.0, 4.0]))
    found["points"][0] += 100
    metric.merge(found)
    result = metric.result()
    assert result["PCK"] == pytest.approx(5 / 6)
    eyes = np.linalg.norm(found["truth"][:, 0, :2] - found["truth"][:, 1, :2], axis=1)
    far = np.linalg.norm(found["points"] - found["truth"][..., :2], axis=2).mean(axis=1)
    assert result["NME"] == pytest.approx((far / eyes).mean())


def test_wrong_figures_are_refused():
    for wrong in ((1,), (1, 1), (-1, 0)):
        with pytest.raises(AttributeValueError, match=rf"normaliser \{list(wrong)}".replace("]", "\\]")):
            Figures(normaliser=wrong)
    with pytest.raises(AttributeValueError, match="2 sigmas"):
        Figures(sigmas=(0.1, 0.1)).of(17)
    assert PoseMetric(Figures(), 17, Reader(4, 2.0)).result() == {"AP": 0.0, "PCK": 0.0}
