"""Every form of log gives the batches that a plain-Python reader of the same rows gives."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework import _core
from framework.data import FaultPolicy
from framework.data.logs import LogReader
from framework.errors import AttributeValueError, DataError
from tests.framework.data.logs.reference import (
    CRITEO,
    assert_same,
    batch_of,
    csv_rows,
    joined,
    slot_rows,
)


def read(path, schema, batch_size=64, **options):
    with LogReader(path, schema, batch_size, **options) as reader:
        return joined(list(reader))


def written(tmp_path, text, name="log"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@given(st.binary(max_size=100))
def test_the_hash_is_xxh64(data):
    import xxhash

    assert _core.hash64(data) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_criteo_rows(tmp_path, criteo_text, ending):
    path = written(tmp_path, criteo_text.replace("\n", ending))
    assert_same(read(path, CRITEO), batch_of(csv_rows(criteo_text, CRITEO), CRITEO))


def test_the_last_line_needs_no_end(tmp_path, criteo_text):
    assert_same(read(written(tmp_path, criteo_text[:-1]), CRITEO), batch_of(csv_rows(criteo_text, CRITEO), CRITEO))


@pytest.mark.parametrize("block_bytes", [1, 100, 257, 1 << 20])
def test_blocks_of_any_size_give_the_same_rows(tmp_path, criteo_text, block_bytes):
    wanted = batch_of(csv_rows(criteo_text, CRITEO), CRITEO)
    assert_same(read(written(tmp_path, criteo_text), CRITEO, block_bytes=block_bytes), wanted)
    packed = written(tmp_path, gzip.compress(criteo_text.encode()), "log.gz")
    assert_same(read(packed, CRITEO, block_bytes=block_bytes), wanted)


def test_a_file_of_several_gzip_members_is_read_whole(tmp_path, criteo_text):
    lines = criteo_text.splitlines(keepends=True)
    data = b"".join(gzip.compress("".join(part).encode()) for part in (lines[:7], lines[7:], []))
    wanted = batch_of(csv_rows(criteo_text, CRITEO), CRITEO)
    assert_same(read(written(tmp_path, data + bytes(16), "log.gz"), CRITEO), wanted)


def test_zstd(tmp_path, criteo_text):
    zstd = pytest.importorskip("backports.zstd", reason="the package backports.zstd is not installed")
    data = zstd.compress(criteo_text[:1000].encode()) + zstd.compress(criteo_text[1000:].encode())
    wanted = batch_of(csv_rows(criteo_text, CRITEO), CRITEO)
    assert_same(read(written(tmp_path, data, "log.zst"), CRITEO), wanted)
    with pytest.raises(DataError, match=r"cut\.zst: it ends in the middle of its compressed data"):
        read(written(tmp_path, data[:-20], "cut.zst"), CRITEO)


QUOTED = {
    "delimiter": ",",
    "quote": '"',
    "columns": ["y", "a", "b"],
    "sparse": [{"name": "a", "column": 1, "slot": 4095}, {"name": "b", "column": 2, "slot": 1}],
    "labels": [{"name": "y", "column": 0}],
}


def test_quoted_values(tmp_path):
    text = '1,"a,""b""",x\n0,"",""\n1,mid"dle,"é ü"\n"0",plain,""""\n'
    assert_same(read(written(tmp_path, text), QUOTED), batch_of(csv_rows(text, QUOTED), QUOTED))


@given(st.lists(st.tuples(st.text(alphabet='ab",é', max_size=70), st.text(max_size=5)), min_size=1, max_size=8))
def test_any_quoted_text_comes_back(tmp_path_factory, values):
    import csv
    import io

    out = io.StringIO()
    rows = [["1", a, "".join(c for c in b if c >= " " and c not in "\x7f\x85\u2028\u2029")] for a, b in values]
    csv.writer(out, lineterminator="\n").writerows(rows)
    path = written(tmp_path_factory.mktemp("quoted"), out.getvalue())
    assert_same(read(path, QUOTED), batch_of(csv_rows(out.getvalue(), QUOTED), QUOTED))


SEQUENCES = {
    "delimiter": ";",
    "strip": True,
    "missing": ["?"],
    "columns": ["y", "items", "cats", "user", "when", "w", "s0", "s1", "s2"],
    "sparse": [{"name": "user", "column": 3, "slot": 1}],
    "ragged": [
        {"name": "items", "column": 1, "slot": 2, "separator": "|", "max_length": 3},
        {"name": "cats", "column": 2, "slot": 3, "separator": "|", "max_length": 2, "keep": "first"},
        {"name": "spread", "column": 6, "slot": 2, "count": 3},
    ],
    "labels": [{"name": "y", "column": 0, "at_least": 4}],
    "weight": 5,
    "group": 3,
    "time": 4,
}


def test_sequences_weights_groups_and_times(tmp_path):
    text = (
        "5 ;a|b|c|d;x|y|z;u1;100;0.5;1;2;3\n"
        "3.5;;?;?;101;1;;?;7\n"
        "4; a ;a|?|a;u1;102.0;2e0;1;;\n"
        f"1;{'|'.join(map(str, range(5000)))};|;u2;-3;0;;;\n"
    )
    batch = read(written(tmp_path, text), SEQUENCES)
    assert_same(batch, batch_of(csv_rows(text, SEQUENCES), SEQUENCES))
    assert batch["labels"].ravel().tolist() == [1, 0, 1, 0]
    assert batch["items.offsets"].tolist() == [0, 3, 3, 4, 7] and batch["items"][0] == batch["items"][0]


SLOTS = {
    "kind": "slot",
    "head": ["click"],
    "columns": ["click", "6", "7", "8"],
    "sparse": [{"name": "u", "column": 1, "slot": 6}],
    "ragged": [{"name": "items", "column": 2, "slot": 7, "max_length": 2}, {"name": "all", "column": 3, "slot": 8}],
    "labels": [{"name": "click", "column": 0}],
}


def test_sequences_that_go_together_keep_places_and_must_be_equally_long(tmp_path):
    schema = {
        "columns": ["items", "cats"],
        "missing": ["?"],
        "ragged": [
            {"name": "items", "column": 0, "slot": 1, "separator": "|", "max_length": 3},
            {"name": "cats", "column": 1, "slot": 2, "separator": "|", "max_length": 3, "along": 0},
        ],
    }
    text = "a|b|c|d,x||z|?\n,\na,?\n1|2,3|4\n"
    path = written(tmp_path, text)
    with pytest.raises(DataError, match=r":3: 'cats' has 0 values, not as many as the sequence it goes along"):
        read(path, schema)
    batch = read(path, schema, faults=FaultPolicy(skipped=0.5))
    text = text.replace("a,?\n", "")
    assert_same(batch, batch_of(csv_rows(text, schema), schema) | {"sparse": batch["sparse"], "dense": batch["dense"]})
    assert batch["cats"][0] == batch["cats"][2] == 2 << 52  # missing, each in its place


def test_missing_numbers_can_be_told_from_zeros(tmp_path):
    schema = {"columns": ["a"], "missing": ["?"], "dense": [{"name": "a", "column": 0}], "missing_numbers": "nan"}
    np.testing.assert_array_equal(read(written(tmp_path, "0\n?\n2\n"), schema)["dense"].ravel(), [0, np.nan, 2])


def test_slot_logs_with_signs_of_all_64_bits(tmp_path):
    top = 2**64 - 1
    text = f"1 6:0 7:5 7:{top} 7:1 99:4\n0\t8:1 6:{top} 8:2 8:1 8:0\n1\n"
    batch = read(written(tmp_path, text), SLOTS)
    assert_same(batch, batch_of(slot_rows(text, SLOTS), SLOTS))
    assert batch["items.offsets"].tolist() == [0, 2, 2, 2] and batch["all.offsets"].tolist() == [0, 0, 4, 4]
    assert len({int(s) for s in batch["sparse"].ravel()}) == 3  # 0, 2^64 - 1 and "missing" differ


def test_slot_logs_in_elasticctrs_order(tmp_path):
    schema = SLOTS | {
        "order": "sign:slot",
        "head": ["show", "click"],
        "columns": ["show", "click", "6", "7"],
        "sparse": [{"name": "u", "column": 2, "slot": 6}],
        "ragged": [{"name": "items", "column": 3, "slot": 7}],
        "labels": [{"name": "click", "column": 1}],
        "weight": 0,
    }
    text = "1 0 123:6 5:7 6:7\n3 1 4:7\n"
    assert_same(read(written(tmp_path, text), schema), batch_of(slot_rows(text, schema), schema))


def test_a_header_names_the_columns_of_its_file(tmp_path):
    schema = {
        "columns": ["id", "click", "hour", "c1"],
        "header": True,
        "sparse": [{"name": "c1", "column": 3, "slot": 1}, {"name": "id", "column": 0, "slot": 2}],
        "labels": [{"name": "click", "column": 1}],
    }
    one = written(tmp_path, "\ufeffid,click,hour,c1\n7,1,2,x\n8,0,2,y\n", "one.csv")
    two = written(tmp_path, gzip.compress(b"c1,other,id,click\r\nx,,7,1\r\ny,q,8,0"), "two.csv.gz")
    first, second = read(one, schema), read(two, schema)
    assert_same(second, first)
    with pytest.raises(DataError, match=r"bad\.csv: its header lacks click; it has id, clack"):
        read(written(tmp_path, "id,clack,c1\n", "bad.csv"), schema)


def test_a_header_that_only_some_files_have(tmp_path):
    schema = {
        "columns": ["click", "c1"],
        "header": "maybe",
        "sparse": [{"name": "c1", "column": 1, "slot": 1}],
        "labels": [{"name": "click", "column": 0}],
    }
    with_header = read(written(tmp_path, "click,c1\n1,a\n", "with.csv"), schema)
    assert_same(with_header, read(written(tmp_path, "1,a\n", "without.csv"), schema))


def test_labels_by_texts_and_numbers_and_missing_ones(tmp_path):
    schema = {
        "columns": ["a", "b"],
        "labels": [{"name": "a", "column": 0, "positive": ["yes", "y"]}, {"name": "b", "column": 1, "number": True}],
    }
    path = written(tmp_path, "yes,3.25\nno,-1e3\ny,0\n")
    np.testing.assert_array_equal(read(path, schema)["labels"], np.array([[1, 3.25], [0, -1000], [1, 0]], np.float32))
    path = written(tmp_path, ",1\n")
    with pytest.raises(DataError, match=r":1: the label 'a' is missing"):
        read(path, schema)
    labels = read(path, schema | {"labels_optional": True})["labels"]
    assert np.isnan(labels[0, 0]) and labels[0, 1] == 1


def test_log_square_buckets_are_the_signs_of_their_numbers(tmp_path):
    plain = {"columns": ["a"], "sparse": [{"name": "a", "column": 0, "slot": 1}]}
    bucketed = {"columns": ["a"], "sparse": [{"name": "a", "column": 0, "slot": 1, "bucket": "log_square"}]}
    found = read(written(tmp_path, "-2\n0\n1\n2\n3\n1000\n\n"), bucketed)["sparse"]
    wanted = read(written(tmp_path, "-2\n0\n1\n2\n1\n47\n"), plain)["sparse"]  # ln(3)^2 = 1.2, ln(1000)^2 = 47.7
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("member", ["train.tsv", "test.tsv"])
def test_the_real_criteo_piece(tmp_path, real, member):
    text = real("criteo_small", member)
    wanted = batch_of(csv_rows(text, CRITEO), CRITEO)
    assert_same(read(written(tmp_path, text), CRITEO, 1000, block_bytes=10_000, threads=2), wanted)


def test_the_real_avazu_piece(tmp_path, real):
    text = real("avazu_small", "train.csv")
    names, rest = text.split("\n", 1)
    columns = names.strip().split(",")
    schema = {
        "delimiter": ",",
        "header": "maybe",
        "columns": columns,
        "sparse": [{"name": n, "column": i, "slot": i} for i, n in enumerate(columns) if i > 1],
        "labels": [{"name": "click", "column": 1}],
        "time": 2,
    }
    wanted = batch_of(csv_rows(rest, schema), schema)
    assert_same(read(written(tmp_path, text), schema), wanted)
    assert_same(read(written(tmp_path, rest), schema), wanted)


def test_the_real_adult_piece(tmp_path, real):
    text = real("adult", "adult-train.csv")
    schema = {
        "delimiter": ",",
        "strip": True,
        "missing": ["?"],
        "columns": [f"c{i}" for i in range(15)],
        "sparse": [{"name": f"c{i}", "column": i, "slot": i} for i in (1, 3, 5, 6, 7, 8, 9, 13)],
        "dense": [
            {"name": f"c{i}", "column": i, "transform": "standard", "center": 38.5, "scale": 13.6}
            for i in (0, 2, 4, 10, 11, 12)
        ],
        "labels": [{"name": "income", "column": 14, "positive": [">50K", ">50K."]}],
    }
    batch = read(written(tmp_path, text), schema)
    assert_same(batch, batch_of(csv_rows(text, schema), schema))
    assert batch["labels"].mean() == pytest.approx(0.2408, abs=1e-4)


def test_paddlerecs_slot_sample(tmp_path, real):
    text = real("paddlerec_slots", "criteo_slots_100.txt")
    schema = {
        "kind": "slot",
        "columns": ["label", "feat_idx", "feat_value"],
        "sparse": [{"name": f"f{i}", "column": 1, "place": i, "slot": i + 1} for i in range(39)],
        "dense": [{"name": f"v{i}", "column": 2, "place": i} for i in range(39)],
        "labels": [{"name": "label", "column": 0}],
    }
    assert_same(read(written(tmp_path, text), schema), batch_of(slot_rows(text, schema), schema))


def test_paddlerecs_behaviour_sequences(tmp_path, real):
    text = real("paddlerec_slots", "alimama_dmr_sample.txt")
    width = len(text.split("\n", 1)[0].split(","))
    schema = {
        "delimiter": ",",
        "missing": ["0"],
        "columns": [f"c{i}" for i in range(width)],
        "ragged": [
            {"name": "kinds", "column": 0, "count": 50, "slot": 1},
            {"name": "cats", "column": 50, "count": 50, "slot": 2},
        ],
        "sparse": [{"name": "user", "column": 150, "slot": 3}],
        "labels": [{"name": "click", "column": width - 1, "number": True}],
        "labels_optional": True,
    }
    batch = read(written(tmp_path, text), schema)
    schema["labels"] = []
    batch.pop("labels")
    assert_same(batch, batch_of(csv_rows(text, schema), schema))


def test_a_schema_says_what_is_wrong_with_it():
    for fields, said in [
        ({"colums": []}, "there is no 'colums'; there are kind, columns"),
        ({"columns": ["a", "a"]}, "each needs a name of its own"),
        ({"columns": ["a"], "sparse": [{"name": "a", "column": 0}]}, r"sparse\[0\]: 'slot' is needed"),
        ({"columns": ["a"], "sparse": [{"name": "a", "column": 0, "slot": 4096}]}, "slot 4096 is not in 1..4095"),
        ({"columns": ["a"], "sparse": [{"name": "a", "column": 1, "slot": 1}]}, "has column 1 of 1"),
        ({"columns": ["a"], "sparse": [{"name": "x", "members": [0], "slot": 1}]}, "member 0 not before it"),
        ({"columns": ["a"], "dense": [{"name": "a", "column": 0, "transform": "sqrt"}]}, "transform is 'sqrt'; it is"),
        ({"columns": ["a"], "delimiter": "ab"}, "it is one ASCII character"),
        ({"columns": ["a"], "weight": "a"}, "weight is 'a'; it must be a whole number"),
        ({"columns": ["a"], "missing": "?"}, "missing is '[?]'; it must be a list of texts"),
    ]:
        with pytest.raises(AttributeValueError, match=said):
            LogReader([], fields, 1)
