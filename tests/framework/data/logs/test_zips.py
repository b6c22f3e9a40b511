"""Logs inside of zips: their rows are those of the files, and whatever is wrong with a zip is one clear error."""

import io
import json
import random
import zipfile

import pytest

from framework import limits
from framework.data import FaultPolicy
from framework.data.logs import LogReader
from framework.errors import DataError, PaddockError
from tests.framework.data.logs.reference import CRITEO, assert_same, batch_of, csv_rows, joined
from tests.mutations import mutated

SCHEMA = {
    "columns": ["y", "a"],
    "sparse": [{"name": "a", "column": 1, "slot": 1}],
    "labels": [{"name": "y", "column": 0}],
}
ALL = FaultPolicy(skipped=1.0)


def zipped(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def read(files, schema=SCHEMA, **options):
    with LogReader(files, schema, 64, **options) as log:
        return joined(list(log))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("block_bytes", [100, 1 << 20])
def test_a_file_in_a_zip_gives_its_rows(tmp_path, criteo_text, method, block_bytes):
    path = zipped(tmp_path / "logs.zip", {"a/day.tsv": criteo_text}, method)
    wanted = batch_of(csv_rows(criteo_text, CRITEO), CRITEO)
    assert_same(read(path / "a" / "day.tsv", CRITEO, block_bytes=block_bytes), wanted)


def test_a_zip_is_all_its_files_in_order_and_a_pattern_names_some(tmp_path):
    files = {f"day_{i}.csv": f"{i % 2},v{i}\n" * 3 for i in (2, 0, 1)}
    others = {"__MACOSX/day_0.csv": "junk", ".hidden": "junk", "sub/day_3.csv": "1,v3\n", "sub/": ""}
    path = zipped(tmp_path / "logs.zip", files | others)
    text = "".join(files[f"day_{i}.csv"] for i in range(3))
    assert_same(read(f"{path}/day_*.csv"), batch_of(csv_rows(text, SCHEMA), SCHEMA))
    assert_same(read(path), batch_of(csv_rows(text + "1,v3\n", SCHEMA), SCHEMA))
    assert_same(read(f"{path}/sub/*"), batch_of(csv_rows("1,v3\n", SCHEMA), SCHEMA))
    zipped(tmp_path / "more.ZIP", {"x.csv": "0,x\n"})
    assert len(read([f"{tmp_path}/*.zip", tmp_path / "more.ZIP"])["labels"]) == 11


def test_a_header_and_a_drawn_order_and_a_position(tmp_path):
    rows = [f"{i % 2},v{i}\n" for i in range(400)]
    parts = {f"{k}.csv": "y,a\n" + "".join(rows[100 * k : 100 * k + 100]) for k in range(4)}
    path = zipped(tmp_path / "logs.zip", parts)
    options = {"shuffle": True, "shuffle_rows": 50, "block_bytes": 200, "seed": 1}
    with LogReader(path, SCHEMA | {"header": True}, 30, **options) as log:
        whole = joined(list(log))
        batches = iter(log)
        state = [next(batches), json.loads(json.dumps(log.state_dict()))][1]
        rest = joined(list(batches))
    with LogReader(path, SCHEMA | {"header": True}, 30, **options) as again:
        again.load_state_dict(state)
        assert_same(joined(list(again)), rest)
    wanted = batch_of(csv_rows("".join(rows), SCHEMA), SCHEMA)["sparse"]
    assert sorted(whole["sparse"].tolist()) == sorted(wanted.tolist()) and whole["sparse"].tolist() != wanted.tolist()


def test_a_folder_may_be_called_like_a_zip(tmp_path):
    (tmp_path / "logs.zip").mkdir()
    (tmp_path / "logs.zip" / "a.csv").write_text("1,x\n")
    assert len(read(f"{tmp_path}/logs.zip/*.csv")["labels"]) == 1


def test_names_that_lead_out_of_the_zip_are_left_out(tmp_path):
    (tmp_path / "secret.csv").write_text("1,s\n")
    names = ["../secret.csv", f"{tmp_path}/secret.csv", "a.csv"]
    path = zipped(tmp_path / "logs.zip", dict.fromkeys(names, "1,x\n"))
    assert len(read(path)["labels"]) == 1
    with pytest.raises(DataError, match=r"\.\./secret\.csv: the zip has no such file"):
        read(path / ".." / "secret.csv")


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("b.csv", r"logs\.zip/b\.csv: the zip has no such file; it has a\.csv, x\.csv\.gz"),
        ("*.tsv", r"log reader: no file matches .*logs\.zip/\*\.tsv"),
        ("x.csv.gz", r"x\.csv\.gz: a file of this kind is not read inside of a zip; unpack the zip"),
    ],
)
def test_what_a_zip_does_not_give_is_told(tmp_path, inside, said):
    path = zipped(tmp_path / "logs.zip", {"a.csv": "1,x\n", "x.csv.gz": b"any"})
    with pytest.raises(DataError, match=said):
        read(f"{path}/{inside}")


def test_a_parquet_log_in_a_zip_is_refused(tmp_path):
    path = zipped(tmp_path / "logs.zip", {"a.pq": b"PAR1"})
    with pytest.raises(DataError, match="a Parquet log is not read inside of a zip"):
        read(path, SCHEMA | {"kind": "parquet"})


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "locked"])
def test_a_damaged_zip_is_one_bad_file(tmp_path, damage):
    rng = random.Random(0)
    path = zipped(tmp_path / "logs.zip", {"a.csv": "".join(f"1,{rng.randrange(10**9)}\n" for _ in range(9000))})
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flipped":
        data[len(data) // 2 : len(data) // 2 + 9] = b"\xff" * 9
    elif damage == "locked":
        for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.find(mark) + flags] |= 1
    path.write_bytes({"empty": b"", "text": b"1,x\n" * 9}.get(damage, bytes(data)))
    (tmp_path / "good.csv").write_text("1,x\n" * 5)
    with pytest.raises(DataError, match=r"logs\.zip.*make or fetch it again"):
        read([path, tmp_path / "good.csv"])
    with LogReader([path, tmp_path / "good.csv"], SCHEMA, 10, faults=ALL, bad_files=1, block_bytes=500) as log:
        assert sum(len(batch["labels"]) for batch in log) >= 5
        assert len(log.skipped.files) == 1


def test_a_bomb_is_refused(tmp_path):
    path = zipped(tmp_path / "logs.zip", {"a.csv": "1,x\n" * 1_000_000})
    with (
        limits.allow(free_bytes=1 << 20, log_growth=20),
        pytest.raises(DataError, match=r"grow to more than .* over 20 times as many.*allow\(log_growth="),
    ):
        read(path)


def test_damaged_zips_never_crash(tmp_path):
    rng, made = random.Random(3), io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", "1,x\n" * 50)
        archive.writestr("b.csv", "0,y\n" * 50)
    for _ in range(150):
        path = tmp_path / "logs.zip"
        path.write_bytes(mutated(made.getvalue(), rng))
        try:
            with LogReader(path, SCHEMA, 7, faults=ALL, bad_files=2, block_bytes=60) as log:
                assert all(len(batch["labels"]) <= 7 for batch in log)
        except PaddockError:
            pass
