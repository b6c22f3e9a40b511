"""The log of a shard: what was written is read, a torn end is cut, and no other damage passes."""

import os
import struct

import pytest

from framework.errors import AttributeValueError, CheckpointError, StateError
from framework.table.remote.log import Durability, UpdateLog, numbers, path_of, read

MODEL = b"m" * 16


def written(folder, records, number=1, **options):
    log = UpdateLog(folder, MODEL, number, Durability(**options))
    for record in records:
        log.append(record)
    log.commit()
    return log


def records_of(folder, since=1, model=MODEL, **options):
    return list(read(folder, model, since, **options))


def test_records_come_back_in_order_over_several_files(tmp_path):
    log = written(tmp_path, [[b"a", b"", b"bc"], [b"d"]], fsync="always")
    assert log.rotate() == 2
    log.append([b"e" * 1000])
    log.close()
    assert records_of(tmp_path) == [b"abc", b"d", b"e" * 1000]
    assert records_of(tmp_path, since=2) == [b"e" * 1000]
    log.remove_before(2)
    assert numbers(tmp_path) == [2]


def test_a_record_is_readable_before_the_file_is_closed(tmp_path):
    written(tmp_path, [[b"acknowledged"]], fsync="never")
    assert records_of(tmp_path) == [b"acknowledged"]


@pytest.mark.parametrize("cut", range(1, 16 + 7))
def test_a_record_written_in_part_is_cut_off_and_no_other(tmp_path, cut, caplog):
    log = written(tmp_path, [[b"first"], [b"seconds"]])
    log.close()
    path = path_of(tmp_path, 1)
    whole = path.stat().st_size
    os.truncate(path, whole - cut)
    assert records_of(tmp_path) == [b"first"]
    assert path.stat().st_size == whole - 16 - 7
    assert cut == 23 or "never acknowledged" in caplog.text
    assert records_of(tmp_path) == [b"first"]


def test_reading_alone_cuts_nothing(tmp_path):
    written(tmp_path, [[b"first"], [b"second"]]).close()
    path = path_of(tmp_path, 1)
    os.truncate(path, path.stat().st_size - 1)
    size = path.stat().st_size
    assert records_of(tmp_path, cut=False) == [b"first"]
    assert path.stat().st_size == size


def test_a_changed_byte_anywhere_is_an_error_that_says_where(tmp_path):
    written(tmp_path, [[b"first"], [b"second"]]).close()
    path = path_of(tmp_path, 1)
    whole = bytearray(path.read_bytes())
    for at in range(32, len(whole)):
        changed = whole.copy()
        changed[at] ^= 0x40
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"damaged at byte (32|53)"):
            records_of(tmp_path)


def test_a_torn_end_before_the_last_file_is_an_error(tmp_path):
    log = written(tmp_path, [[b"first"], [b"second"]])
    log.rotate()
    log.close()
    path = path_of(tmp_path, 1)
    os.truncate(path, path.stat().st_size - 2)
    with pytest.raises(CheckpointError, match="damaged at byte 53"):
        records_of(tmp_path)


def test_a_missing_file_another_model_and_another_file_are_refused(tmp_path):
    log = written(tmp_path, [[b"a"]])
    log.rotate()
    log.rotate()
    log.close()
    with pytest.raises(CheckpointError, match="log of another model"):
        records_of(tmp_path, model=b"n" * 16)
    path_of(tmp_path, 2).unlink()
    with pytest.raises(CheckpointError, match="do not follow 1 without a gap"):
        records_of(tmp_path)
    path_of(tmp_path, 3).write_bytes(b"x" * 64)
    with pytest.raises(CheckpointError, match="no log of a shard"):
        records_of(tmp_path, since=3)


def test_a_file_that_was_just_begun_when_the_process_was_killed_is_no_damage(tmp_path):
    written(tmp_path, [[b"a"]]).close()
    path_of(tmp_path, 2).write_bytes(b"PDL")
    assert records_of(tmp_path) == [b"a"]
    assert numbers(tmp_path) == [1]


def test_a_full_disk_takes_back_what_was_written_of_a_record(tmp_path, monkeypatch):
    log = written(tmp_path, [[b"first"]])
    real = os.writev

    def half(fd, views):
        real(fd, [views[0][:5]])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", half)
    with pytest.raises(StateError, match="No space left on device"):
        log.append([b"second"])
    monkeypatch.undo()
    log.append([b"third"])
    log.close()
    assert records_of(tmp_path) == [b"first", b"third"]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, views: real(fd, [views[0][:3]]))
    written(tmp_path, [[b"one", b"two" * 5], [b"three"]]).close()
    monkeypatch.undo()
    assert records_of(tmp_path) == [b"one" + b"two" * 5, b"three"]


def test_fsync_follows_the_durability(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(fd) or real(fd))
    for how, expected in (("always", 3), ("never", 0), ("interval", 0)):
        folder = tmp_path / how
        folder.mkdir()
        log = UpdateLog(folder, MODEL, 1, Durability(fsync=how, seconds=60.0))
        synced.clear()
        for _ in range(3):
            log.append([b"x"])
            log.commit()
        log.commit()
        assert len(synced) == expected, how
    with pytest.raises(AttributeValueError, match="fsync is 'sometimes'"):
        Durability(fsync="sometimes")


def test_a_length_that_is_no_length_is_damage_and_not_a_torn_end(tmp_path):
    written(tmp_path, [[b"first"]]).close()
    path = path_of(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[32:40] = struct.pack("<Q", 1 << 40)
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged at byte 32"):
        records_of(tmp_path)
