"""Samples whose boxes are painted into the image, so that a test sees whether pixels and boxes move together."""

import numpy as np

from suites.detection.sample import Sample
from suites.vision.structures import Boxes, Instances


def painted(boxes, size=(60, 80), labels=None, seed=None):
    """A dark (or noisy, with `seed`) image in which box m is filled with the value 100 + 10 m."""
    height, width = size
    image = np.zeros((height, width, 3), np.uint8)
    if seed is not None:
        image = np.random.default_rng(seed).integers(0, 256, image.shape, np.uint8)
    for at, (x1, y1, x2, y2) in enumerate(boxes):
        image[y1:y2, x1:x2] = 100 + 10 * at
    boxes = np.array(boxes, np.float32).reshape(-1, 4)
    labels = np.arange(len(boxes)) if labels is None else np.array(labels, np.int64)
    return Sample(image=image, instances=Instances(Boxes(boxes), labels.astype(np.int64)), image_id=5)


def box_of(image, value):
    """The box of all pixels of one value."""
    ys, xs = np.nonzero((image == value).all(axis=2))
    return [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
