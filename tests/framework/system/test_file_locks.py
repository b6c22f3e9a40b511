"""file_locks: one descriptor at a time, or several that share, by either way."""

import os
import subprocess
import sys

import pytest

from framework.system import file_locks
from framework.system.file_locks import lock_file, unlock_file


@pytest.fixture(params=["flock", "portalocker"])
def way(request, monkeypatch):
    if request.param == "portalocker":
        pytest.importorskip("portalocker", reason="portalocker is not installed")
        monkeypatch.setattr(file_locks, "fcntl", None)
    elif file_locks.fcntl is None:
        pytest.skip("this system has no flock")


@pytest.fixture
def opened(tmp_path):
    """Opens the same file again and again."""
    held = []

    def make():
        held.append(os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT))
        return held[-1]

    yield make
    for fd in held:
        os.close(fd)


def test_a_second_lock_is_refused_until_the_first_is_gone(way, opened):
    first, second = opened(), opened()
    lock_file(first)
    with pytest.raises(BlockingIOError):
        lock_file(second)
    unlock_file(first)
    lock_file(second)


def test_those_that_share_keep_out_one_that_does_not(way, opened):
    first, second, third = opened(), opened(), opened()
    lock_file(first, shared=True)
    lock_file(second, shared=True)
    with pytest.raises(BlockingIOError):
        lock_file(third)


def test_a_lock_ends_with_its_process(way, opened, tmp_path):
    text = "import os, sys\nfrom framework.system import file_locks\n"
    if file_locks.fcntl is None:
        text += "file_locks.fcntl = None\n"
    text += "file_locks.lock_file(os.open(sys.argv[1], os.O_RDWR))\nprint('held', flush=True)\nsys.stdin.read()\n"
    own = opened()
    words = [sys.executable, "-c", text, str(tmp_path / "f")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError):
            lock_file(own)
        child.kill()
        child.wait()
    lock_file(own)


def test_what_cannot_be_locked_is_an_oserror(way):
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with pytest.raises((OSError, ValueError)):
        lock_file(fd)
