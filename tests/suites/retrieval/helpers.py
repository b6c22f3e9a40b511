"""Small folders of drawn pictures for the tests of retrieval."""

import cv2
import numpy as np

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "grey": (128, 128, 128), "red": (255, 0, 0)}


def pictures(root, counts, size=32):
    """Pictures of one colour a class, with some noise, in folders of the classes' names."""
    for k, (name, count) in enumerate(counts.items()):
        rng = np.random.default_rng(k)
        colour = np.array(list(COLOURS.values())[k % len(COLOURS)], np.int64)
        for at in range(count):
            noisy = np.clip(colour + rng.integers(-60, 60, (size, size, 3)), 0, 255).astype(np.uint8)
            path = root / name / f"{at}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), noisy[..., ::-1])
    return str(root)
