"""A file as a lock: one process at a time, nothing left behind, and no link followed."""

import multiprocessing
import os
import time

import pytest

from framework.errors import CheckpointError
from framework.locks import alone, is_still
from tests.waiting import until


def _hold(path, log):
    with alone(path):
        with log.open("a") as out:
            out.write("in\n")
        time.sleep(0.1)
        with log.open("a") as out:
            out.write("out\n")


def _hold_for_ever(path):
    with alone(path):
        time.sleep(600)


def test_of_several_processes_one_is_inside_at_a_time(tmp_path):
    log = tmp_path / "log"
    all_of_them = [
        multiprocessing.get_context("spawn").Process(target=_hold, args=(tmp_path / "l", log)) for _ in "abc"
    ]
    for process in all_of_them:
        process.start()
    for process in all_of_them:
        process.join(60)
    assert log.read_text().split() == ["in", "out"] * 3
    assert os.listdir(tmp_path) == ["log"], "the lock is gone"


def test_who_waits_is_told_once_and_gets_in_when_the_other_is_killed(tmp_path):
    path, told = tmp_path / "lock", []
    other = multiprocessing.get_context("spawn").Process(target=_hold_for_ever, args=(path,))
    other.start()
    until(path.exists)
    time.sleep(0.2)

    def waiting():
        told.append("waiting")
        other.kill()

    with alone(path, waiting) as file:
        file.write(b"mine")
    other.join()
    assert told == ["waiting"] and path.read_bytes() == b"mine", "what was written to stays"


def test_a_link_is_no_lock(tmp_path):
    (tmp_path / "l").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="link"), alone(tmp_path / "l"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_was_replaced_is_another_one(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        assert is_still(tmp_path / "a", fd)
        (tmp_path / "b").replace(tmp_path / "a")
        assert not is_still(tmp_path / "a", fd) and not is_still(tmp_path / "nowhere", fd)
    finally:
        os.close(fd)
