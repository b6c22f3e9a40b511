"""Small pictures for reports: bounded in size, wide ones told, no picture is an error."""

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.vision.pictures.thumbnails import thumbnail


def picture(height, width, ending=".png"):
    return cv2.imencode(ending, np.full((height, width, 3), 90, np.uint8))[1].tobytes()


def size_of(content):
    return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR).shape[:2]


@pytest.mark.parametrize(
    ("given", "made", "wide"),
    [((100, 200), (100, 200), False), ((2000, 1000), (640, 320), False), ((300, 3000), (96, 960), True)],
)
def test_a_picture_becomes_small_and_keeps_its_shape(given, made, wide):
    content, told = thumbnail(picture(*given))
    assert content.startswith(b"\xff\xd8") and size_of(content) == made and told is wide


@pytest.mark.parametrize("content", [b"", b"no picture", picture(50, 50)[:40]])
def test_what_is_no_picture_is_an_error(content):
    with pytest.raises(DataError, match=r"empty|not an image|cut off"):
        thumbnail(content)
