"""Boxes are drawn where they are, in their class's colour, on a picture large enough to read."""

import numpy as np

from suites.detection.visualize import class_colour, draw_instances
from suites.vision.pictures.images import read_image, write_image
from suites.vision.structures import Boxes, Instances

NAMES = ("cat", "dog")


def draw(image, boxes, classes, scores=None):
    found = Instances(Boxes(np.array(boxes, np.float32)), np.array(classes, np.int64), scores)
    return draw_instances(image, found, NAMES, with_scores=scores is not None)


def test_a_box_is_drawn_at_its_place_in_its_colour():
    image = np.zeros((500, 600, 3), np.uint8)
    out = draw(image, [[100, 150, 300, 400]], [1])
    assert out.shape == image.shape and not image.any()
    for x, y in ((100, 200), (300, 200), (200, 150), (200, 400)):
        assert out[y, x].tolist() == list(class_colour(1))
    assert not out[250:350, 150:250].any()


def test_a_small_image_is_enlarged_and_its_boxes_with_it():
    out = draw(np.zeros((120, 160, 3), np.uint8), [[10, 30, 50, 90]], [0])
    assert out.shape == (360, 480, 3)
    assert out[200, 30].tolist() == list(class_colour(0)) and out[200, 150].tolist() == list(class_colour(0))


def test_the_best_score_lies_on_top():
    image, boxes = np.zeros((500, 600, 3), np.uint8), np.array([[100, 150, 300, 400]] * 2)
    out = draw(image, boxes, [0, 1], np.array([0.9, 0.6], np.float32))
    assert out[200, 100].tolist() == list(class_colour(0))


def test_boxes_at_and_over_the_border_do_not_fail():
    boxes = np.array([[-50, -50, 20, 20], [590, 490, 700, 700], [0, 0, 600, 500], [599, 0, 600, 1]])
    out = draw(np.zeros((500, 600, 3), np.uint8), boxes, [0, 1, 0, 1])
    assert out.any()
    assert draw(np.zeros((1, 1, 3), np.uint8), boxes[:1], [0]).shape == (480, 480, 3)


def test_colours_of_80_classes_are_distinct():
    colours = np.array([class_colour(label) for label in range(80)])
    assert len({tuple(colour) for colour in colours.tolist()}) == 80
    near = np.abs(colours[1:] - colours[:-1]).max(axis=1)
    assert near.min() >= 60


def test_a_picture_is_saved_whole(tmp_path):
    picture = draw(np.zeros((480, 480, 3), np.uint8), [], [])
    write_image(tmp_path / "out" / "a.png", picture)
    assert read_image(tmp_path / "out" / "a.png").shape == (480, 480, 3)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.png"]
