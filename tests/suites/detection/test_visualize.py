"""Boxes are drawn where they are, in their class's colour, on a picture large enough to read."""

import numpy as np

from suites.detection.visualize import class_colour, draw_boxes
from suites.vision.images import read_image, write_image

NAMES = ("cat", "dog")


def test_a_box_is_drawn_at_its_place_in_its_colour():
    image = np.zeros((500, 600, 3), np.uint8)
    out = draw_boxes(image, np.array([[100, 150, 300, 400]]), np.array([1]), NAMES)
    assert out.shape == image.shape and not image.any()
    for x, y in ((100, 200), (300, 200), (200, 150), (200, 400)):
        assert out[y, x].tolist() == list(class_colour(1))
    assert not out[250:350, 150:250].any()


def test_a_small_image_is_enlarged_and_its_boxes_with_it():
    out = draw_boxes(np.zeros((120, 160, 3), np.uint8), np.array([[10, 30, 50, 90]]), np.array([0]), NAMES)
    assert out.shape == (360, 480, 3)
    assert out[200, 30].tolist() == list(class_colour(0)) and out[200, 150].tolist() == list(class_colour(0))


def test_scores_choose_what_is_drawn_and_the_best_lies_on_top():
    image, boxes = np.zeros((500, 600, 3), np.uint8), np.array([[100, 150, 300, 400]] * 2)
    out = draw_boxes(image, boxes, np.array([0, 1]), NAMES, scores=np.array([0.9, 0.6]))
    assert out[200, 100].tolist() == list(class_colour(0))
    none = draw_boxes(image, boxes, np.array([0, 1]), NAMES, scores=np.array([0.2, 0.1]), min_score=0.5)
    assert not none.any()


def test_boxes_at_and_over_the_border_do_not_fail():
    boxes = np.array([[-50, -50, 20, 20], [590, 490, 700, 700], [0, 0, 600, 500], [599, 0, 600, 1]])
    out = draw_boxes(np.zeros((500, 600, 3), np.uint8), boxes, np.array([0, 1, 0, 1]), NAMES)
    assert out.any()
    assert draw_boxes(np.zeros((1, 1, 3), np.uint8), boxes[:1], np.array([0]), NAMES).shape == (480, 480, 3)


def test_colours_of_80_classes_are_distinct():
    colours = np.array([class_colour(label) for label in range(80)])
    assert len({tuple(colour) for colour in colours.tolist()}) == 80
    near = np.abs(colours[1:] - colours[:-1]).max(axis=1)
    assert near.min() >= 60


def test_a_picture_is_saved_whole(tmp_path):
    picture = draw_boxes(np.zeros((480, 480, 3), np.uint8), np.zeros((0, 4)), np.zeros(0, int), NAMES)
    write_image(tmp_path / "out" / "a.png", picture)
    assert read_image(tmp_path / "out" / "a.png").shape == (480, 480, 3)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.png"]
