"""Small sets of drawn pictures for the tests of anomalies: grey ones with noise; a defect is a white square."""

import cv2
import numpy as np

SIDE = 64
AT = slice(20, 36)  # rows and columns of the square


def picture(path, seed, *, bad=False, side=SIDE):
    """A grey picture; `bad` ones have the square."""
    pixels = np.random.default_rng(seed).integers(100, 140, (side, side, 3)).astype(np.uint8)
    if bad:
        pixels[AT, AT] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)


def mask(path, side=SIDE):
    """The square, white."""
    pixels = np.zeros((side, side), np.uint8)
    pixels[AT, AT] = 255
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels)


def mvtec(root, good=10, test=4, kinds=("scratch",), masks=True):
    """A category in MVTec AD's layout."""
    for at in range(good):
        picture(root / "train" / "good" / f"{at:03}.png", at)
    for at in range(test):
        picture(root / "test" / "good" / f"{at:03}.png", 100 + at)
        for kind in kinds:
            picture(root / "test" / kind / f"{at:03}.png", 200 + at, bad=True)
            if masks:
                mask(root / "ground_truth" / kind / f"{at:03}_mask.png")
    return str(root)
