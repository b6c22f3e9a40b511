"""Pictures of boxes and masks: class names and scores on an image, large enough to read, one colour a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from pycocotools import mask as coco

from suites.detection.metrics.mistakes import Finding
from suites.vision.drawing import class_colour, enlarged, put_plate, stroke
from suites.vision.structures import Instances

_SHOWN = 0.5  # how likely a predicted point must be seen to be drawn
_WRONG, _THERE = (230, 50, 50), (60, 200, 80)  # RGB
_SURROUNDINGS, _LEAST_PART = 5.0, 320.0  # side of the part that is shown, in sides of the object, and in pixels


def draw_instances(
    image: np.ndarray,
    instances: Instances,
    class_names: Sequence[str],
    *,
    with_scores: bool = True,
    skeleton: Sequence[tuple[int, int]] = (),
) -> np.ndarray:
    """Draws objects on a copy of an image, the best score last so that it lies on top; masks are tints, keypoints dots.

    A class has a colour; with masks each object has its own, so that those that touch are told apart.

    Args:
        image: uint8 RGB [H, W, 3]. A small one is enlarged by a whole number, so that text stays legible.
        instances: in pixels of `image`.
        class_names: K names.
        with_scores: write each score behind the name; False for ground truth.
        skeleton: numbers of keypoints that a line joins.

    Returns:
        uint8 RGB [H * s, W * s, 3], s the whole number.
    """
    canvas, factor = enlarged(image)
    order = np.argsort(instances.scores, kind="stable")
    numbers = instances.classes if instances.masks is None else np.arange(len(instances))
    colours = [class_colour(int(number)) for number in numbers]
    if instances.masks is not None:
        codes = instances.masks.codes()
        for at in order:
            _tint(canvas, codes[at], factor, colours[at])
    for at in order:
        label = int(instances.classes[at])
        text = class_names[label] + (f" {instances.scores[at]:.2f}" if with_scores else "")
        _draw_one(canvas, np.rint(instances.boxes.array[at] * factor), text, colours[at])
        if instances.keypoints is not None:
            _draw_points(canvas, instances.keypoints[at], factor, colours[at], skeleton)
    return canvas


def _draw_points(
    canvas: np.ndarray,
    points: np.ndarray,
    factor: int,
    colour: tuple[int, int, int],
    skeleton: Sequence[tuple[int, int]],
) -> None:
    """Dots where keypoints [L, 3] are labelled or likely to be seen, and lines that the skeleton has between them."""
    shown = points[:, 2] >= _SHOWN
    places = [(round(float(x) * factor), round(float(y) * factor)) for x, y, _ in points]
    for a, b in skeleton:
        if shown[a] and shown[b]:
            cv2.line(canvas, places[a], places[b], colour, stroke(canvas)[1])
    for place, visible in zip(places, shown, strict=True):
        if visible:
            cv2.circle(canvas, place, stroke(canvas)[1] + 1, colour, cv2.FILLED)


def draw_finding(image: np.ndarray, finding: Finding, class_names: Sequence[str]) -> np.ndarray:
    """Draws what was missed or invented in red, the worst thick, what else is there in green, and cuts out where it is.

    Args:
        image: uint8 RGB [H, W, 3].
        finding: in its pixels.
        class_names: K names.

    Returns:
        uint8 RGB; of a large image only the surroundings of the worst object.
    """
    boxes, scores = finding.wrong.boxes.array, finding.wrong.scores
    worst = int(np.argmax(finding.wrong.boxes.areas if finding.missed else scores))
    top, left, bottom, right = _around(boxes[worst], image.shape[:2])
    canvas, factor = enlarged(np.ascontiguousarray(image[top:bottom, left:right]))
    corner = np.array([left, top] * 2)
    inside = np.clip((boxes[worst] - corner) * factor, 0, [*canvas.shape[1::-1]] * 2).astype(int).tolist()
    cv2.rectangle(canvas, (inside[0], inside[1]), (inside[2], inside[3]), _WRONG, 3 * stroke(canvas)[1])
    # What is there comes last, in thin lines: it may lie where the thick ones do.
    for objects, colour, named in ((finding.wrong, _WRONG, True), (finding.others, _THERE, False)):
        codes = objects.masks.codes() if objects.masks is not None else [None] * len(objects)
        rows = zip(objects.boxes.array, objects.classes.tolist(), objects.scores.tolist(), codes, strict=True)
        for box, label, score, code in rows:
            if code is not None:
                bitmap = coco.decode(code)[top:bottom, left:right]
                _outline(canvas, np.repeat(np.repeat(bitmap, factor, 0), factor, 1), colour)
            shifted = np.rint((box - corner) * factor)
            text = (class_names[label] + ("" if finding.missed else f" {score:.2f}")) if named else ""
            if (shifted[2:] > 0).all() and (shifted[:2] < np.array(canvas.shape[1::-1])).all():
                _draw_one(canvas, shifted, text, colour)
    return canvas


def _around(box: np.ndarray, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """top, left, bottom, right of the part of an image (H, W) that shows a box with its surroundings."""
    centre, side = (box[:2] + box[2:]) / 2, max(_LEAST_PART, _SURROUNDINGS * float((box[2:] - box[:2]).max()))
    starts, ends = [], []
    for middle, whole in zip(centre[::-1], size, strict=True):
        start = int(np.clip(middle - side / 2, 0, max(whole - side, 0)))
        starts.append(start)
        ends.append(min(whole, start + round(side)))
    return starts[0], starts[1], ends[0], ends[1]


def _tint(canvas: np.ndarray, code: dict[str, Any], factor: int, colour: tuple[int, int, int]) -> None:
    """Colours the pixels of a shape, half through, and draws its outline."""
    bitmap = np.repeat(np.repeat(coco.decode(code), factor, 0), factor, 1)
    inside = bitmap.astype(bool)
    canvas[inside] = (canvas[inside].astype(np.uint16) + np.array(colour, np.uint16)) // 2
    _outline(canvas, bitmap, colour)


def _outline(canvas: np.ndarray, bitmap: np.ndarray, colour: tuple[int, int, int]) -> None:
    outline, _ = cv2.findContours(np.ascontiguousarray(bitmap), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    cv2.drawContours(canvas, outline, -1, colour, stroke(canvas)[1])


def _draw_one(canvas: np.ndarray, box: np.ndarray, text: str, colour: tuple[int, int, int]) -> None:
    height, width = canvas.shape[:2]
    x1, y1, x2, y2 = (int(v) for v in np.clip(box, 0, [width - 1, height - 1] * 2))
    cv2.rectangle(canvas, (x1, y1), (x2, y2), colour, stroke(canvas)[1])
    if text:
        put_plate(canvas, text, (x1, y1), colour)
