"""Files from outside: what Git LFS leaves in a file's place is no file of anything."""

import pytest

from framework.errors import CheckpointError, DataError
from framework.io import load_tensors
from framework.outside import open_file, read_bytes

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def test_a_pointer_of_git_lfs_is_told_by_whoever_opens_the_file(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(POINTER)
    with pytest.raises(CheckpointError, match=r"model.safetensors: is a pointer of Git LFS, .* run `git lfs pull`"):
        open_file(path, None)
    with pytest.raises(DataError, match=r"image a.png: is a pointer of Git LFS"):
        read_bytes(path, error=DataError, what="image a.png")


@pytest.mark.parametrize("data", [b"", b"version https://git-lfs", POINTER[:20] + b"x" * 200, b" " + POINTER])
def test_small_files_are_read_from_their_beginning(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    assert read_bytes(tmp_path / "a") == data
    with open_file(tmp_path / "a", None) as file:
        assert file.read() == data


@pytest.mark.parametrize("path", ["https://a.b/c.png", "s3:/bucket/c.png"])
def test_an_address_is_told_as_that(path):
    with pytest.raises(DataError, match=r"is an address, not a file or folder of this machine; download it"):
        read_bytes(path, error=DataError)
    with pytest.raises(CheckpointError, match=r"is an address"):
        load_tensors(path)


def test_a_file_that_is_called_as_an_address_begins_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "http:").mkdir()
    (tmp_path / "http:" / "a").write_bytes(b"b")
    assert read_bytes("http://a") == b"b"
