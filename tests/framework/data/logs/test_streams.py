"""Logs that keep coming: passes with done-files and a file that grows, read once each and resumed at the exact row."""

import gzip
import itertools
import json
import threading
import time

import pytest

from framework import limits
from framework.data import FaultPolicy, World
from framework.data.logs import LogFolders, LogTail, Patience
from framework.errors import AttributeValueError, CheckpointError, DataError

SCHEMA = {"columns": ["label", "id"], "dense": [{"name": "id", "column": 1}], "labels": [{"name": "y", "column": 0}]}


def lines(begin, end):
    return "".join(f"{i % 2},{i}\n" for i in range(begin, end)).encode()


def ids(batches):
    return [int(i) for batch in batches for i in batch["dense"][:, 0]]


def add(root, name, begin, end, done=True, file="part-0.csv"):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    data = lines(begin, end)
    (folder / file).write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
    if done:
        (folder / "_SUCCESS").touch()


def folders(root, **options):
    return LogFolders(root, SCHEMA, 10, block_bytes=60, **options)


def test_passes_are_read_in_order_and_only_when_their_done_file_is_there(tmp_path):
    add(tmp_path, "20261122/0905", 30, 45)
    add(tmp_path, "20261122/0900", 0, 20)
    add(tmp_path, "20261122/0900", 20, 30, file="part-1.csv.gz")
    add(tmp_path, "20261122/0910", 45, 60, done=False)
    add(tmp_path, "20261123/0000", 60, 70)
    (tmp_path / "20261122/0900/_log").write_text("no row")
    log = folders(tmp_path)
    with log:
        assert ids(log) == list(range(45)) and log.name == "20261122/0905"
        (tmp_path / "20261122/0910/_SUCCESS").touch()
        assert ids(log) == list(range(45, 70))
        assert ids(log) == []


def test_a_pass_is_a_reader_of_its_own(tmp_path):
    add(tmp_path, "20261122/0900", 0, 25)
    add(tmp_path, "20261122/0905", 25, 30)
    log, found = folders(tmp_path, shuffle=True), []
    for part in log.passes():
        before = ids(part)  # predict first
        part.epoch = log.number
        assert ids(part) == before  # then train on the same rows
        found.append((log.name, sorted(before)))
    assert found == [("20261122/0900", list(range(25))), ("20261122/0905", list(range(25, 30)))]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 3, 4, 5, 8])
def test_a_stream_of_folders_continues_at_the_exact_row(tmp_path, shuffle, taken):
    for k in range(3):
        add(tmp_path, f"20261122/09{k:02d}", 35 * k, 35 * k + 35)
    whole = [ids([batch]) for batch in folders(tmp_path, shuffle=shuffle, shuffle_rows=20)]
    first = folders(tmp_path, shuffle=shuffle, shuffle_rows=20)
    before = [ids([batch]) for batch in itertools.islice(first, taken)]
    state = json.loads(json.dumps(first.state_dict()))
    again = folders(tmp_path, shuffle=shuffle, shuffle_rows=20)
    again.load_state_dict(state)
    assert before + [ids([batch]) for batch in again] == whole
    assert len(whole) == 12 and sorted(itertools.chain(*whole)) == list(range(105))


def test_a_pass_that_is_late_is_told_or_waited_for(tmp_path, caplog):
    add(tmp_path, "20261122/2350", 0, 10)
    add(tmp_path, "20261123/0000", 20, 30)
    patient = folders(tmp_path, every=5)
    assert ids(patient) == list(range(10))
    hasty = folders(tmp_path)
    assert ids(hasty) == [*range(10), *range(20, 30)]
    add(tmp_path, "20261122/2355", 10, 20)
    assert ids(patient) == list(range(10, 30)) and patient.late == []
    add(tmp_path, "20261123/0010", 40, 50)
    assert ids(hasty) == list(range(40, 50))
    add(tmp_path, "20261123/0005", 30, 40)
    assert ids(hasty) == [] and hasty.late == ["20261123/0005"]
    assert "0005: it came after a later pass was read" in caplog.text


def test_begin_end_and_a_done_file_beside_the_folder(tmp_path):
    for k in range(4):
        add(tmp_path, f"d/{k}", 10 * k, 10 * k + 10, done=False)
        (tmp_path / f"d/{k}.done").touch()
    patience = Patience(60)  # not waited for: the end is known
    log = folders(tmp_path, begin="d/1", end="d/2", done="../{name}.done", patience=patience)
    assert ids(log) == list(range(10, 30))


def test_another_process_may_follow_the_passes_and_leave_the_reading_to_others(tmp_path):
    for number, begin in enumerate((0, 25)):
        add(tmp_path, f"d/{number}", begin, begin + 25)
    follower, reader, found = folders(tmp_path, end="d/1", drop_last=True), folders(tmp_path, drop_last=True), []
    while follower.look():
        seen = follower.open(follower.name, follower.number)
        assert seen.units > 1
        part = reader.open(follower.name, follower.number, drop_last=False)
        assert part.files_digest == seen.files_digest and part.epoch == follower.number
        found += ids(part)
    assert found == list(range(50)) and follower.ended
    (tmp_path / "d/1" / "late.csv").write_bytes(lines(0, 3))
    assert reader.open("d/1", 1).files_digest != seen.files_digest
    assert reader.open("d/2", 2) is None


def test_a_stream_with_a_last_pass_says_when_its_last_batch_was_given(tmp_path):
    for number in range(2):
        add(tmp_path, f"d/{number}", 0, 20)
    log = folders(tmp_path, end="d/1")
    assert [log.ended for _ in log] == [False, False, False, True]
    again = folders(tmp_path, end="d/1")
    again.load_state_dict(log.state_dict())
    assert again.ended and ids(again) == [] and not folders(tmp_path, end="d/1").ended


def test_the_next_pass_is_waited_for_within_a_time(tmp_path):
    add(tmp_path, "20261122/0900", 0, 10)
    later = threading.Timer(0.3, add, (tmp_path, "20261122/0905", 10, 20))
    later.start()
    started = time.monotonic()
    assert ids(folders(tmp_path, patience=Patience(1, poll=0.02))) == list(range(20))
    assert 1.2 < time.monotonic() - started < 30
    with pytest.raises(DataError, match=r"no pass after 20261122/0905 in 0\.05 s"):
        ids(folders(tmp_path, patience=Patience(0.05, poll=0.02, then="error")))


def test_processes_share_each_pass(tmp_path):
    add(tmp_path, "20261122/0900", 0, 100)
    parts = []
    for rank in range(2):
        log = folders(tmp_path)
        log.split(World(rank, 2))
        parts.append(ids(log))
    assert all(parts) and sorted(parts[0] + parts[1]) == list(range(100))


def test_positions_of_other_streams_are_refused(tmp_path):
    add(tmp_path, "20261122/0900", 0, 25)
    log = folders(tmp_path)
    next(iter(log))
    state = log.state_dict()
    with pytest.raises(CheckpointError, match="batch_size 10, not 5"):
        LogFolders(tmp_path, SCHEMA, 5).load_state_dict(state)
    add(tmp_path, "20261122/0900", 0, 26)
    with pytest.raises(CheckpointError, match="files"):
        folders(tmp_path).load_state_dict(state)
    with pytest.raises(AttributeValueError, match="levels is 0"):
        folders(tmp_path, levels=0)


def tail(path, **options):
    return LogTail(path, SCHEMA, 10, **options)


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


@pytest.mark.parametrize("step", [1, 7, 100])
def test_a_growing_file_gives_whole_lines_only_and_the_same_batches_however_it_grows(tmp_path, step):
    path, data = tmp_path / "log.csv", lines(0, 35)
    log, found = tail(path), []
    assert list(log) == []  # not there yet
    for at in range(0, len(data), step):
        append(path, data[at : at + step])
        found += list(log)
    assert [ids([batch]) for batch in found] == [list(range(10 * k, 10 * k + 10)) for k in range(3)]


@pytest.mark.parametrize("taken", [0, 1, 2, 3, 5])
def test_a_tail_continues_at_the_exact_row(tmp_path, taken):
    path = tmp_path / "log.csv"
    append(path, b"label,id\n" + lines(0, 35)[:-3] + b"bad\n" + lines(35, 62))
    options = {"faults": FaultPolicy(skipped=1.0)}
    schema = SCHEMA | {"header": True}

    def opened(block_bytes):
        return LogTail(path, schema, 10, block_bytes=block_bytes, **options)

    whole = [ids([batch]) for batch in opened(1000)]
    first = opened(60)
    before = [ids([batch]) for batch in itertools.islice(first, taken)]
    again = opened(25)
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert before + [ids([batch]) for batch in again] == whole and len(whole) == 6
    assert again.skipped.bad_rows == 1 and again.skipped.messages[0].startswith(f"{path}:36: ")
    append(path, lines(62, 63))
    append(path, lines(63, 80))
    assert ids(again)[0] == whole[-1][-1] + 1


def test_lines_of_a_tail_that_are_too_long_are_left_out(tmp_path):
    path = tmp_path / "log.csv"
    log = tail(path, faults=FaultPolicy(skipped=1.0), block_bytes=50)
    found = []
    with limits.allow(line_bytes=100):
        for data in (lines(0, 9), b"1," + b"5" * 5000, b"5" * 500, b"\n" + lines(9, 10), lines(10, 20)):
            append(path, data)
            found += list(log)
    assert ids(found) == list(range(20)) and log.skipped.kinds == {"line": 1}
    assert log.skipped.messages[0].startswith(f"{path}:10: ")


def test_a_file_that_was_replaced_is_an_error(tmp_path):
    path = tmp_path / "log.csv"
    append(path, lines(0, 25))
    log = tail(path)
    assert len(list(log)) == 2
    path.write_bytes(lines(0, 3))
    with pytest.raises(DataError, match=r"it has 12 bytes, and .* were read: it was replaced or cut"):
        list(log)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read any more"):
        list(log)


def test_a_tail_is_waited_for_and_refuses_what_it_cannot_follow(tmp_path):
    path = tmp_path / "log.csv"
    threading.Timer(0.2, append, (path, lines(0, 10))).start()
    assert ids(itertools.islice(tail(path, patience=Patience(30, poll=0.01)), 1)) == list(range(10))
    with pytest.raises(AttributeValueError, match="read by one process"):
        tail(path).split(World(1, 2))
    (tmp_path / "log.gz").write_bytes(gzip.compress(lines(0, 10)))
    with pytest.raises(AttributeValueError, match="cannot be followed"):
        list(tail(tmp_path / "log.gz"))
    with pytest.raises(AttributeValueError, match="complete or none"):
        LogTail(path, SCHEMA | {"kind": "parquet"}, 10)
    with pytest.raises(AttributeValueError, match="seconds is -1"):
        Patience(-1)
