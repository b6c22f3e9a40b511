"""Anchors find the clusters of box sizes, are scaled as images are, and the tool prints them for a config."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.detection.anchors import box_sizes, fit, kmeans_anchors, shape_iou
from suites.detection.cli import anchors
from suites.detection.datasets import VocDetection
from tests.suites.detection.datasets.helpers import write_voc


def clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[12, 14], [40, 90], [200, 120]])
    return centres, np.concatenate([c * rng.uniform(0.95, 1.05, (50, 2)) for c in centres])


def test_separate_clusters_are_found_and_sorted_by_area():
    centres, sides = clusters()
    anchors = kmeans_anchors(sides, 3)
    np.testing.assert_allclose(anchors, centres, rtol=0.03)
    quality = fit(sides, anchors)
    assert quality.recall == 1 and quality.mean_iou > 0.9  # 5 % either way on both sides


def test_more_anchors_never_fit_worse_and_one_a_size_fits_exactly():
    sides = np.random.default_rng(1).uniform(10, 100, (12, 2))
    qualities = [fit(sides, kmeans_anchors(sides, count)).mean_iou for count in (1, 3, 6, 12)]
    assert qualities == sorted(qualities) and qualities[-1] == pytest.approx(1)


def test_the_same_seed_gives_the_same_anchors():
    _, sides = clusters()
    np.testing.assert_array_equal(kmeans_anchors(sides, 5, seed=2), kmeans_anchors(sides, 5, seed=2))


def test_shape_iou_by_hand():
    assert shape_iou(np.array([[10.0, 20.0]]), np.array([[20.0, 10.0], [10.0, 20.0]])).tolist() == [[1 / 3, 1.0]]


def test_sizes_follow_the_resize(tmp_path):
    data = VocDetection(write_voc(tmp_path / "v", {"a": [("cat", (0, 0, 30, 20), False)]}))  # 60 x 40
    assert box_sizes(data.ground_truth()).tolist() == [[30, 20]]
    assert box_sizes(data.ground_truth(), 120).tolist() == [[60, 60]]
    assert box_sizes(data.ground_truth(), 120, keep_ratio=True).tolist() == [[60, 40]]


DATA = """
suite: detection
model:
  type: YOLOv3
  backbone: {type: MobileNetV1, scale: 0.25, out_strides: [16, 32]}
  neck: {type: YOLOv3Neck, width: 16}
  head: {type: YOLOv3Head, num_classes: 1, anchors: [[24, 40], [40, 62]]}
data:
  num_classes: 1
  train: {dataset: {type: VocDetection, root: ROOT}, transforms: [{type: Normalize}], batch_size: 1}
  eval:
    dataset: {type: VocDetection, root: ROOT}
    transforms: [{id: resize, RESIZE}, {id: normalize, type: Normalize}]
    batch_size: 1
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 1e-4}
runtime: {steps: 2}
"""


@pytest.mark.parametrize(
    ("resize", "words", "found"),
    [
        ("type: Resize, size: 96", [], [48.0, 48.0]),  # of a box of 30 x 20 in 60 x 40
        ("type: Letterbox, size: 96", [], [48.0, 32.0]),
        ("type: Resize, size: 96", ["--size", "192"], [96.0, 96.0]),
        ("type: Resize, size: 96", ["-o", "data.eval.transforms[resize].size=[64, 32]"], [16.0, 32.0]),
    ],
)
def test_the_command_takes_the_size_of_the_config(tmp_path, capsys, resize, words, found):
    root = write_voc(tmp_path / "v", {"a": [("cat", (0, 0, 30, 20), False)]})
    (tmp_path / "c.yml").write_text(DATA.replace("ROOT", str(root)).replace("RESIZE", resize))
    assert anchors.main([str(tmp_path / "c.yml"), "-k", "1", *words]) == 0
    assert f"anchors: {[found]}" in capsys.readouterr().out


def test_the_command_asks_for_a_size_where_there_is_no_one(tmp_path, capsys):
    root = write_voc(tmp_path / "v", {"a": [("cat", (0, 0, 30, 20), False)]})
    text = DATA.replace("ROOT", str(root)).replace("RESIZE", "type: ResizeKeepRatio, short: 96, max_long: 200")
    (tmp_path / "c.yml").write_text(text)
    assert anchors.main([str(tmp_path / "c.yml"), "-k", "1"]) == 2
    assert "scaled by their short side; give --size" in capsys.readouterr().err


def test_too_many_anchors_are_an_error():
    with pytest.raises(AttributeValueError, match=r"4 anchors were asked for; the boxes have 2 different sizes"):
        kmeans_anchors(np.array([[1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]), 4)
