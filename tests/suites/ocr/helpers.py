"""Drawn pages, and networks that are played: what they say of a picture is known."""

import cv2
import numpy as np

from suites.ocr.alphabet import Alphabet

LETTERS = Alphabet("abcdefghijklmnopqrstuvwxyz ")


def page(*boxes, size=(768, 1024)):
    """A white picture with black rectangles (left, top, right, bottom) where text is meant to be."""
    image = np.full((*size, 3), 255, np.uint8)
    for left, top, right, bottom in boxes:
        cv2.rectangle(image, (left, top), (right - 1, bottom - 1), (0, 0, 0), cv2.FILLED)
    return image


def played(arrays, words=("word",), turned=()):
    """Text is where a picture is black; the lines say `words` in turn, and those of these numbers are upside down."""
    images, lines = arrays["images"], arrays["lines"]
    found = {"text": (images[..., 0] < 0).astype(np.float32)}
    characters = np.zeros((len(lines), 2 * max(map(len, words)) + 1), np.int64)
    for place, k in zip(characters, range(len(lines)), strict=True):
        word = LETTERS.encode(words[k % len(words)])
        place[1 : 2 * len(word) : 2] = word
    found["characters"], found["scores"] = characters, np.full(characters.shape, 0.9, np.float32)
    down = np.array([0.95 if k in turned else 0.1 for k in range(len(arrays["turned"]))], np.float32)
    found["direction"] = np.stack([1 - down, down], axis=1)
    return found
