"""Anchors of R-CNN, RetinaNet and SSD: counts and sides of the papers, torchvision's rounding, any map size."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from suites.detection.anchor_boxes import (
    SSD300,
    SSD512,
    AnchorGrid,
    AnchorLevel,
    SSDPriors,
    rcnn_anchors,
    retinanet_anchors,
)

STRIDES = (4, 8, 16, 32, 64)


def sides(level):
    boxes = np.array(level.cells)
    return boxes[:, 2:] - boxes[:, :2]


def arrays_of(grid, sizes):
    """The anchors of maps of these sizes (H, W)."""
    return [anchors.numpy() for anchors in grid.grids([tensor(np.zeros((1, *size, 1), np.float32)) for size in sizes])]


def test_rcnn_anchors_keep_their_area_in_every_ratio():
    grid = rcnn_anchors(STRIDES)
    assert grid.per_cell == (3,) * 5
    for level, size in zip(grid.levels, (32, 64, 128, 256, 512), strict=True):
        np.testing.assert_allclose(sides(level).prod(axis=1), size**2)
        np.testing.assert_allclose(sides(level)[:, 1] / sides(level)[:, 0], [0.5, 1, 2])
        np.testing.assert_allclose(np.array(level.cells)[:, :2], -np.array(level.cells)[:, 2:])


def test_retinanet_anchors_are_three_octave_steps_in_three_ratios():
    grid = retinanet_anchors((8, 16, 32, 64, 128))
    assert grid.per_cell == (9,) * 5
    areas = sides(grid.levels[0]).prod(axis=1).reshape(3, 3)  # ratio by ratio
    np.testing.assert_allclose(np.sqrt(areas), [[32, 32 * 2 ** (1 / 3), 32 * 2 ** (2 / 3)]] * 3)


def test_rounded_anchors_are_torchvisions():
    # AnchorGenerator(((32, 40, 50),), ((0.5, 1, 2),)).cell_anchors[0] of torchvision 0.28
    expected = [
        [-23, -11, 23, 11], [-28, -14, 28, 14], [-35, -18, 35, 18],
        [-16, -16, 16, 16], [-20, -20, 20, 20], [-25, -25, 25, 25],
        [-11, -23, 11, 23], [-14, -28, 14, 28], [-18, -35, 18, 35],
    ]  # fmt: skip
    assert [list(box) for box in retinanet_anchors((8,), rounded=True).levels[0].cells] == expected


def test_ssd300_has_its_8732_priors():
    maps = [(side, side) for side in (38, 19, 10, 5, 3, 1)]
    boxes = arrays_of(SSD300.grid(), maps)
    assert sum(map(len, boxes)) == 8732
    # conv4_3: squares of 30 and sqrt(30 * 60), ratios 2 and 1/2, about (4, 4)
    np.testing.assert_allclose(boxes[0][0], [-11, -11, 19, 19])
    np.testing.assert_allclose(boxes[0][1], np.array([-1, -1, 1, 1]) * np.sqrt(1800) / 2 + 4, rtol=1e-6)
    np.testing.assert_allclose(boxes[0][2, 2:] - boxes[0][2, :2], [30 * np.sqrt(2), 30 / np.sqrt(2)], rtol=1e-6)
    np.testing.assert_allclose(boxes[0][3, 2:] - boxes[0][3, :2], [30 / np.sqrt(2), 30 * np.sqrt(2)], rtol=1e-6)
    # the last map's only cell: nothing is clipped
    np.testing.assert_allclose(boxes[5][0], [18, 18, 282, 282])
    assert boxes[5].min() < 0 and boxes[5].max() > 300


def test_ssd512_has_its_24564_priors():
    assert sum(map(len, arrays_of(SSD512.grid(), [(side, side) for side in (64, 32, 16, 8, 4, 2, 1)]))) == 24564


def test_priors_without_maximum_are_only_squares_of_their_sizes():
    grid = SSDPriors(((16, 24), (32, 48, 64)), ((), ()), (8, 16)).grid()
    assert [sides(level).tolist() for level in grid.levels] == [[[16, 16], [24, 24]], [[32, 32], [48, 48], [64, 64]]]


def test_a_limit_cuts_long_priors_as_torchvision_does():
    level = SSDPriors(((264,),), ((2,),), (300,), (315,), limit=300).grid().levels[0]
    np.testing.assert_allclose(sides(level)[2], [300, 264 / np.sqrt(2)])


def test_anchors_follow_rows_then_columns_then_cell_boxes():
    level = AnchorLevel(((-1, -2, 1, 2), (-3, -3, 3, 3)), 8, 0.5)
    expected = [[x - w, y - h, x + w, y + h] for y in (4, 12) for x in (4, 12, 20) for w, h in ((1, 2), (3, 3))]
    np.testing.assert_array_equal(arrays_of(AnchorGrid((level,)), [(2, 3)])[0], np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: rcnn_anchors((8, 16), (32,)), r"1 sizes \[32\] for 2 levels"),
        (lambda: rcnn_anchors((8,), (32,), octaves=0), "octaves 0; all must be positive"),
        (lambda: rcnn_anchors((8,), (32,), ratios=(0,)), r"ratios \[0\]"),
        (lambda: SSDPriors(((30,),), ((2,), (2,)), (8,)), "'ratios': 2"),
        (lambda: SSDPriors(((30,),), ((2,),), (8,), (20,)).grid(), "a minimum size is 30, its maximum 20"),
        (lambda: AnchorLevel((), 8), "there must be a box or more"),
        (lambda: arrays_of(rcnn_anchors((8, 16), (32, 64)), [(2, 2)]), "1 maps were given for anchors of 2 levels"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
