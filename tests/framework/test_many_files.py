"""What is read of many files at once is what is read of each by itself; only regular files are read."""

import hashlib
import os

import numpy as np
import pytest

from framework import many_files
from framework.errors import AttributeValueError
from framework.many_files import Paths

SIZES = [0, 1, 11, 12, 16, 17, 27, 28, 127, 128, 129, 255, 256, 257, 8191, 8192, 8193, 100_000]
RNG = np.random.default_rng(0)


def paths_of(root, names):
    encoded = [os.fsencode(name) for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return Paths(os.fsencode(root), np.frombuffer(b"".join(encoded), np.uint8), ends)


def digest(data):
    return hashlib.blake2b(data, digest_size=16).digest()


@pytest.fixture
def files(tmp_path):
    contents = [RNG.integers(0, 256, size, np.uint8).tobytes() for size in SIZES]
    for at, content in enumerate(contents):
        (tmp_path / f"é {at}").write_bytes(content)
    return paths_of(tmp_path, [f"é {at}" for at in range(len(SIZES))]), contents


def test_files_of_all_sizes_are_read_to_the_byte(files):
    paths, contents = files
    every = np.arange(len(contents))
    assert many_files.sizes(paths, every).tolist() == SIZES
    sizes, ends = many_files.ends(paths, every, 16, 12)
    assert sizes.tolist() == SIZES
    for content, row in zip(contents, ends, strict=True):
        assert row.tobytes() == content[:16].ljust(16, b"\0") + content[-12:].ljust(12, b"\0")
    sizes, digests = many_files.end_digests(paths, every, 4096)
    shortened = [c if len(c) <= 8192 else b"%d " % len(c) + c[:4096] + c[-4096:] for c in contents]
    assert sizes.tolist() == SIZES and [row.tobytes() for row in digests] == list(map(digest, shortened))
    sizes, digests, headers = many_files.pictures(paths, every, 1 << 30)
    assert sizes.tolist() == SIZES and [row.tobytes() for row in digests] == list(map(digest, contents))
    assert not headers.any()


def test_places_choose_files_and_many_are_read_by_all_threads(tmp_path):
    for at in range(300):
        (tmp_path / str(at)).write_bytes(bytes(at))
    paths = paths_of(tmp_path, map(str, range(300)))
    places = RNG.permutation(np.arange(300).repeat(3))
    assert many_files.sizes(paths, places).tolist() == places.tolist()
    assert many_files.pictures(paths, places, 200)[0].tolist() == [at if at <= 200 else -1 for at in places.tolist()]


def test_what_is_no_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "whole").write_bytes(b"123")
    (tmp_path / "link").symlink_to("whole")
    names = ["pipe", "folder", "device", "broken", "none", "who\0le", "", "whole", "link"]
    paths, every = paths_of(tmp_path, names), np.arange(len(names))
    unread = [-1] * 7 + [3, 3]
    assert many_files.ends(paths, every, 16, 12)[0].tolist() == unread
    assert many_files.end_digests(paths, every, 4)[0].tolist() == unread
    assert many_files.pictures(paths, every, 1 << 20)[0].tolist() == unread
    assert many_files.sizes(paths, every)[[3, 4, 5, 7, 8]].tolist() == [-1, -1, -1, 3, 3]


def test_places_and_names_that_are_none_are_refused(tmp_path):
    paths = paths_of(tmp_path, ["a"])
    with pytest.raises(AttributeValueError, match="place 1 is -1 of 1 files"):
        many_files.sizes(paths, np.array([0, -1]))
    with pytest.raises(AttributeValueError, match="end 1 of the names is 9; they have 1 bytes"):
        many_files.sizes(Paths(paths.root, paths.names, np.array([0, 9])), np.array([0]))
    with pytest.raises(AttributeValueError, match="ends of 0 and 0"):
        many_files.ends(paths, np.array([0]), 0, 0)
