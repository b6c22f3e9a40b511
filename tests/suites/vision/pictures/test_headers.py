"""Sizes of pictures by their headers: what the decoder reads, in a bounded time, for hostile files as well."""

import time

import cv2
import numpy as np
import pytest

from suites.vision.pictures.headers import image_size


@pytest.mark.parametrize(
    "gap", [b" " * 4000, b"#\n" * 2000, b" #\n" * 1300, b"#" * 4000, b"\n" * 10_000_000, b"#\r" * 40]
)
@pytest.mark.parametrize("kind", [b"P1", b"P5"])
def test_a_header_that_never_ends_is_refused_at_once(gap, kind):
    start = time.monotonic()
    assert image_size(kind + gap + b"x") is None
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    "header",
    [
        b"P5 3 2 255\n",
        b"P5\n# a comment\n3 2\n255\n",
        b"P5 # ends by CR\r3 2\n#99 99\n255\n",
        b"P5 #30 20\r3 2 255\n",
        b"P5\t3\t\v\f2 255\n",
        b"P5 3 #9\n2\n255\n",
    ],
)
def test_a_pnm_header_is_read_as_opencv_reads_it(header):
    picture = cv2.imdecode(np.frombuffer(header + bytes(1000), np.uint8), cv2.IMREAD_UNCHANGED)
    found = image_size(header + bytes(1000))
    assert found == picture.shape[:2] == (2, 3)


def test_what_opencv_reads_otherwise_than_others_is_refused():
    for header in (
        b"P5 3#9\n2 255\n",
        b"P5 3x2 255\n",
        b"P5 3,2 255\n",
        b"P5 99999999999 2 255\n",
        b"P5 3 2",
        b"P5#a\n3 2 255 ",
        b"P7 3 2 1 ",
    ):
        assert image_size(header) is None, header
