"""A small data set of real files: bright discs and dark squares on grey noise, as images and label maps."""

from pathlib import Path

import numpy as np

from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import write_image

CLASSES = ("ground", "disc", "square")
PALETTE = [(0, 0, 0), (255, 0, 0), (0, 0, 255)]
COLOURS = np.array([(120, 120, 120), (230, 190, 60), (20, 50, 150)], np.uint8)


def scene(rng, size=(48, 64)):
    """An image uint8 [H, W, 3] and its labels uint8 [H, W]; a frame of 2 pixels is void (255)."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    labels = np.zeros(size, np.uint8)
    for label in (1, 2):
        y, x, reach = rng.integers(10, size[0] - 10), rng.integers(10, size[1] - 10), rng.integers(6, 10)
        away = np.hypot(rows - y, columns - x) if label == 1 else np.maximum(abs(rows - y), abs(columns - x))
        labels[away <= reach] = label
    image = np.clip(COLOURS[labels] + rng.normal(0, 12, (*size, 3)), 0, 255).astype(np.uint8)
    labels[:2] = labels[-2:] = 255
    labels[:, :2] = labels[:, -2:] = 255
    return image, labels


def write_scenes(root: Path, split: str, count: int, seed: int = 0, size=(48, 64)) -> None:
    """<root>/<split>/{images,labels} and <root>/classes.txt."""
    rng = np.random.default_rng(seed)
    (root / split / "labels").mkdir(parents=True)
    for i in range(count):
        image, labels = scene(rng, size)
        write_image(root / split / "images" / f"{i:03d}.png", image)
        (root / split / "labels" / f"{i:03d}.png").write_bytes(encode_labels(labels, PALETTE))
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n# 255 is void\n")
