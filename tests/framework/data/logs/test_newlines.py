"""Values in quotes that hold ends of lines: wherever a file is cut, its rows are those of the csv module."""

import csv
import gzip
import io
import json
import random
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework import limits
from framework.data import FaultPolicy
from framework.data.logs import LogReader, LogTail
from framework.errors import AttributeValueError, DataError, PaddockError
from tests.framework.data.logs.reference import assert_same, batch_of, csv_rows, joined
from tests.mutations import mutated

SCHEMA = {
    "quote": '"',
    "newlines": True,
    "columns": ["y", "a", "b"],
    "sparse": [{"name": "a", "column": 1, "slot": 1}, {"name": "b", "column": 2, "slot": 2}],
    "labels": [{"name": "y", "column": 0}],
}
ALL = FaultPolicy(skipped=1.0)
TEXT = '1,"x\ny",z\n0,"",""\n\n1,"a ""b""\r\n,\n","\n\n"\n0,mid"dle,plain\n1,"""","\n"""\n'


def packed(path, data):
    """The file in the form that its name asks for."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("log.csv", data)
    else:
        path.write_bytes(data)
    return path


def read(path, schema=SCHEMA, **options):
    with LogReader(path, schema, 3, faults=ALL, **options) as log:
        return joined(list(log) or [batch_of([], schema)]), log.skipped


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.zip"])
@pytest.mark.parametrize("block_bytes", [1, 7, 16, 1 << 20])
def test_values_over_several_lines(tmp_path, name, block_bytes):
    found, faults = read(packed(tmp_path / name, TEXT.encode()), block_bytes=block_bytes)
    assert not faults, faults.report()
    assert_same(found, batch_of(csv_rows(TEXT, SCHEMA), SCHEMA))


def holds_rows(text):
    """Whether a value's lines all look like rows of three cells, so that its quote is taken for a stray one."""
    lines = text.split("\n")[1:-1]
    return len(lines) > 1 and all(line.count(",") == 2 for line in lines)


TEXTS = st.text('ab",\n\ré', max_size=30).filter(lambda text: not holds_rows(text))


@given(st.lists(st.tuples(TEXTS, st.text('x"\n', max_size=4)), min_size=1, max_size=9))
def test_any_text_in_quotes_comes_back_from_blocks_of_any_size(tmp_path_factory, values):
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(["1", a, b] for a, b in values)
    wanted = batch_of(csv_rows(out.getvalue(), SCHEMA), SCHEMA)
    folder = tmp_path_factory.mktemp("newlines")
    for name, block_bytes in (("log.csv", 1), ("log.csv", 11), ("log.csv.gz", 11)):
        assert_same(read(packed(folder / name, out.getvalue().encode()), block_bytes=block_bytes)[0], wanted)


def test_spaces_around_quotes(tmp_path):
    text = '1 , "a\n" ,b\n0,  "\n,"  ,  "c"\n'
    found, faults = read(packed(tmp_path / "log.csv", text.encode()), SCHEMA | {"strip": True}, block_bytes=4)
    plain = '1,"a\n",b\n0,"\n,",c\n'
    assert not faults
    assert_same(found, batch_of(csv_rows(plain, SCHEMA), SCHEMA))


def test_without_the_option_such_a_row_is_bad_and_the_message_names_it(tmp_path):
    path = packed(tmp_path / "log.csv", b'1,"x\ny",z\n0,a,b\n')
    found, faults = read(path, SCHEMA | {"newlines": False})
    assert len(found["labels"]) == 1 and faults.kinds == {"quote": 1, "columns": 1}
    assert "`newlines: true` takes values over several lines" in faults.messages[0]


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("block_bytes", [5, 1 << 20])
def test_bad_rows_are_told_with_the_line_in_which_they_begin(tmp_path, name, block_bytes):
    path = packed(tmp_path / name, b'1,"x\n\ny",z\n0,a\n1,"\n",b\n"\n",a,b\n')
    _, faults = read(path, block_bytes=block_bytes)
    assert faults.kinds == {"columns": 1, "label": 1}
    assert [m.split(": ")[0] for m in faults.messages] == [f"{path}:4", f"{path}:7"]


@pytest.mark.parametrize("header", ['y,"a\nb",b\n', '\ufeffy,"a\nb",b\n'])
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_header_of_several_lines(tmp_path, name, header):
    path = packed(tmp_path / name, (header + TEXT + "7,a,b\n").encode())
    found, faults = read(path, SCHEMA | {"header": True, "columns": ["y", "a\nb", "b"]}, block_bytes=8)
    assert_same(found, batch_of(csv_rows(TEXT, SCHEMA), SCHEMA))
    assert faults.messages[0].startswith(f"{path}:{2 + TEXT.count(chr(10)) + 1}: the label 'y' is '7'")


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("block_bytes", [10, 64, 1 << 20])
def test_a_quote_that_is_left_open_costs_its_own_row(tmp_path, name, block_bytes):
    good = b"1,a,b\n"
    path = packed(tmp_path / name, good * 3 + b'1,"a,b\n' + good * 100)
    with limits.allow(line_bytes=60):
        found, faults = read(path, block_bytes=block_bytes)
    assert faults.kinds == {"quote": 1} and faults.messages[0].startswith(f"{path}:4: ")
    assert len(found["labels"]) == 3 + 100
    _, faults = read(path, block_bytes=block_bytes)  # the end of the file tells, too
    assert faults.kinds == {"quote": 1} and faults.rows == 103


@pytest.mark.parametrize("block_bytes", [10, 64, 1 << 20])
def test_two_stray_quotes_cost_two_rows_and_not_those_between(tmp_path, block_bytes):
    good = b"1,a,b\n"
    path = packed(tmp_path / "log.csv", good * 3 + b'1,"a,b\n' + good * 50 + b'1,a",b\n' + good * 100)
    found, faults = read(path, block_bytes=block_bytes)
    assert faults.kinds == {"quote": 1} and faults.messages[0].startswith(f"{path}:4: ")
    assert len(found["labels"]) == 3 + 50 + 1 + 100, "a quote within a value is part of it"


def test_a_row_without_end_takes_no_more_memory_than_its_limit(tmp_path):
    import resource

    path = packed(tmp_path / "log.csv", b'1,a,b\n1,"\n' + b"x" * (1 << 26) + b'",b\n1,a,b\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with limits.allow(line_bytes=1000):
        found, faults = read(path, block_bytes=1 << 20)
    assert len(found["labels"]) == 2 and faults.kinds == {"quote": 1, "line": 1}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10  # KiB


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_saved_position_continues_at_the_exact_row(tmp_path, shuffle):
    text = "".join(f'1,"a\n{i}",{"b" * (i % 7)}\n' for i in range(200))
    path = packed(tmp_path / "log.csv", text.encode())
    options = {"shuffle": shuffle, "shuffle_rows": 30, "block_bytes": 50, "seed": 3}
    with LogReader(path, SCHEMA, 7, **options) as log:
        batches = list(log)
        taken = iter(log)
        next(taken)
    with LogReader(path, SCHEMA, 7, threads=1, **options) as log:
        first = [next(iter(log))["sparse"] for _ in range(1)]
        state = json.loads(json.dumps(log.state_dict()))
    with LogReader(path, SCHEMA, 7, **options) as again:
        again.load_state_dict(state)
        rest = [batch["sparse"] for batch in again]
    np.testing.assert_array_equal(np.concatenate(first + rest), joined(batches)["sparse"])
    everything = batch_of(csv_rows(text, SCHEMA), SCHEMA)["sparse"]
    assert sorted(map(tuple, joined(batches)["sparse"])) == sorted(map(tuple, everything))


@pytest.mark.parametrize("step", [1, 5, 1000])
def test_a_tail_gives_whole_rows_only(tmp_path, step):
    path, data, found = tmp_path / "log.csv", TEXT.encode(), []
    with LogTail(path, SCHEMA, 1, block_bytes=6) as log:
        for at in range(0, len(data), step):
            with open(path, "ab") as file:
                file.write(data[at : at + step])
            found += list(log)
    assert_same(joined(found), batch_of(csv_rows(TEXT, SCHEMA), SCHEMA))


def test_the_option_needs_a_csv_with_quotes():
    for wrong in ({"quote": ""}, {"kind": "slot", "head": ["y"]}):
        with pytest.raises(AttributeValueError, match="`newlines` is for a CSV with a quote"):
            LogReader([], SCHEMA | wrong, 1)
    with pytest.raises(AttributeValueError, match="newlines is 1; it must be true or false"):
        LogReader([], SCHEMA | {"newlines": 1}, 1)


def test_damaged_logs_give_the_same_rows_however_they_are_cut(tmp_path):
    """Where quotes are wrong nobody knows the rows; ours finds the same ones in blocks of any size, packed or not."""
    rng = random.Random(4)
    for k in range(120):
        data = mutated(TEXT.encode() * 3, rng) if k % 4 else bytes(rng.choices(b'1,"\n ab\r', k=rng.randrange(200)))
        found = []
        for name, block_bytes in (("log.csv", 1 << 20), ("log.csv", rng.randrange(1, 90)), ("log.csv.gz", 40)):
            try:
                with limits.allow(line_bytes=50):
                    rows, faults = read(packed(tmp_path / name, data), block_bytes=block_bytes)
                where = [message.removeprefix(str(tmp_path / name)).split(": ")[0] for message in faults.messages]
                found.append((rows["sparse"].tolist(), dict(faults.kinds), where))
            except PaddockError as error:
                assert isinstance(error, DataError)
        assert all(each == found[0] for each in found), (k, data, found)
