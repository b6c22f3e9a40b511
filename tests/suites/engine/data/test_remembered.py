"""What was read of a file is kept while the file stays as it is, and no longer."""

import os

import numpy as np
import pytest

from framework.errors import DataError
from suites.engine.data.remembered import Remembered
from suites.engine.data.sources import open_source


def aged(path, seconds=60):
    """Lets a file have been changed some time ago, as far as a program may."""
    past = path.stat().st_mtime - seconds
    os.utime(path, (past, past))


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    monkeypatch.setattr("suites.engine.data.remembered._SETTLED", -1e9)


def test_a_file_is_read_once_until_it_changes(tmp_path):
    kept, path, reads = Remembered(10), tmp_path / "a", []

    def read():
        reads.append(path.read_bytes())
        return reads[-1]

    path.write_bytes(b"one")
    assert [kept.get(str(path), read) for _ in range(3)] == [b"one"] * 3 and len(reads) == 1
    path.write_bytes(b"more")
    assert kept.get(str(path), read) == b"more" and len(reads) == 2
    aged(path)
    kept.get(str(path), read)
    assert len(reads) == 3


def test_what_is_new_or_missing_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("suites.engine.data.remembered._SETTLED", 1e9)
    kept, values = Remembered(10), iter(range(9))
    path = tmp_path / "a"
    path.write_bytes(b"")
    assert [kept.get(str(path), lambda: next(values)) for _ in range(2)] == [0, 1]
    assert [kept.get(str(tmp_path / "none"), lambda: next(values)) for _ in range(2)] == [2, 3]


def test_no_more_is_kept_than_is_allowed(tmp_path):
    kept, made = Remembered(3), []
    for name in "abcd":
        (tmp_path / name).write_text(name)
    for name in "abcda":
        kept.get(str(tmp_path / name), lambda name=name: made.append(name))
    assert made == list("abcda")


def test_a_folder_is_listed_anew_when_it_changes(tmp_path):
    (tmp_path / "2.txt").write_text("")
    assert open_source(tmp_path).names() == ["2.txt"]
    (tmp_path / "10.txt").write_text("")
    assert open_source(tmp_path).names() == ["2.txt", "10.txt"]
    (tmp_path / "2.txt").unlink()
    assert open_source(tmp_path).names() == ["10.txt"]


def test_what_lies_in_a_folder_and_is_not_read_is_told_each_time(tmp_path):
    (tmp_path / ".hidden").write_text("")
    for _ in range(2):
        source = open_source(tmp_path)
        assert source.names() == [] and str(source.passed) == "1 hidden (.hidden)"


def test_a_link_that_is_mended_is_seen(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link.txt").symlink_to(tmp_path / "target.txt")
    assert open_source(tmp_path / "data").names() == []
    (tmp_path / "target.txt").write_text("")
    assert open_source(tmp_path / "data").names() == ["link.txt"]


@pytest.mark.parametrize("size", [0, 100, 8192, 9000])
def test_digests_tell_files_apart_by_their_ends_or_as_a_whole(tmp_path, size):
    content = bytes(range(256)) * (size // 256 + 1)
    middle = bytearray(content[:size])
    if size:
        middle[size // 2] ^= 1
    for name, data in (("a", content[:size]), ("b", content[:size]), ("c", bytes(middle))):
        (tmp_path / name).write_bytes(data)
    table = open_source(tmp_path).table(["a", "b", "c", "none"])
    ends, whole = table.end_digests(np.arange(4), 4096), [table.digest(at) for at in range(3)]
    assert ends[0] == ends[1] and whole[0] == whole[1]
    assert (whole[2] != whole[0]) == (size > 0)
    assert (ends[2] != ends[0]) == (0 < size <= 8192)
    assert table.sizes().tolist() == [size, size, size, -1] and ends[3] is None
    with pytest.raises(DataError):
        table.digest(3)
