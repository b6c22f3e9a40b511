"""Logs in memory: what batches hold, and what becomes of rows that do not fit."""

from pathlib import Path

import numpy as np
import pytest
import xxhash

from framework.data import DataLoader
from framework.errors import ConfigError, DataError
from suites.ctr.datasets import ClickLog, Columns, MovieLens100K
from suites.ctr.datasets.base import EveryNth, TimeSpan
from suites.ctr.schema.signs import missing_sign
from tests.suites.ctr.helpers import columns, schema, write_csv

MASK = (1 << 52) - 1


def sign(slot, text):
    return np.uint64(slot << 52 | xxhash.xxh64_intdigest(text.encode()) & MASK).astype(np.int64)


def log_of(tmp_path, text, **changes):
    (tmp_path / "log.csv").write_text(text)
    options = {key: changes.pop(key) for key in ("rows", "max_skipped", "ordered") if key in changes}
    return ClickLog(schema(**changes), str(tmp_path), ["log.csv"], **options)


SMALL = {"features": {"user": {"type": "Sparse"}, "price": {"type": "Dense"}}, "group": None, "time": None}


def test_a_batch_is_what_the_contract_says(tmp_path):
    found = columns()
    rows = ClickLog(schema(), str(write_csv(tmp_path / "log.csv", found)), [])
    rows.learn()
    batch = rows.batch(np.array([5, 2, 599]))
    user, item = sign(1, found["user"][2]), sign(2, found["item"][2])
    both = np.uint64(3 << 52 | xxhash.xxh64_intdigest(np.array([user, item]).astype("<i8").tobytes()) & MASK)
    assert batch["sparse"].dtype == np.int64 and batch["sparse"][1].tolist() == [user, item, both.astype(np.int64)]
    liked = [found["liked"][i].split("|")[-4:] if found["liked"][i] else [] for i in (5, 2, 599)]  # the latest four
    assert batch["liked"].tolist() == [sign(2, text) for row in liked for text in row]
    assert batch["liked.offsets"].tolist() == np.cumsum([0, *map(len, liked)]).tolist()
    price = np.array(found["price"], np.float64)
    np.testing.assert_allclose(batch["dense"][:, 0], ((price - price.mean()) / price.std())[[5, 2, 599]], rtol=1e-5)
    assert batch["labels"].tolist() == [[float(found["click"][i])] for i in (5, 2, 599)]
    assert batch["time"].tolist() == [5, 2, 599]
    assert batch["group"].tolist() == [xxhash.xxh64_intdigest(found["user"][i].encode()) & MASK for i in (5, 2, 599)]


def test_columns_in_memory_have_the_signs_of_the_file(tmp_path):
    texts = columns()
    from_file = ClickLog(schema(), str(write_csv(tmp_path / "log.csv", texts)), [])
    values = {**texts, "price": np.array(texts["price"], np.float64), "click": np.array(texts["click"], np.int64)}
    values["tags"] = [text.split("|") if text else [] for text in texts["tags"]]
    found = Columns(schema(), values)
    for name, array in from_file.clicks.batch().items():
        np.testing.assert_array_equal(found.clicks.batch()[name], array, err_msg=name)


def test_a_table_of_pyarrow_is_read():
    pyarrow = pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")
    table = pyarrow.table({"user": ["a", None, "b"], "price": [1.5, None, 3.0], "click": [True, False, True]})
    rows = Columns(schema(**SMALL, labels={"click": {"positive": ["true"]}}), table)
    assert rows.clicks.sparse[:, 0].tolist() == [sign(1, "a"), missing_sign(1), sign(1, "b")]
    assert np.isnan(rows.clicks.dense[1, 0]) and rows.clicks.labels[:, 0].tolist() == [1, 0, 1]


def test_missing_values_are_a_sign_of_their_own_and_a_0_after_the_transform(tmp_path):
    text = "user,price,click\n?,5,1\nb,,0\n,?,1\n"
    features = {"user": {"type": "Sparse"}, "price": {"type": "Dense", "transform": "min_max"}}
    rows = log_of(tmp_path, text, features=features, group=None, time=None, format={"missing": ["?"]})
    rows.learn()
    assert rows.clicks.sparse[:, 0].tolist() == [missing_sign(1), sign(1, "b"), missing_sign(1)]
    assert rows.clicks.dense[:, 0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [("none", [-3, 0, 9]), ("log", [-np.log(4), 0, np.log(10)]), ("min_max", [0, 0.25, 1]), ("standard", None)],
)
def test_numbers_are_transformed_as_declared(tmp_path, transform, expected):
    features = {"user": {"type": "Sparse"}, "price": {"type": "Dense", "transform": transform}}
    rows = log_of(tmp_path, "user,price,click\na,-3,1\nb,0,0\nc,9,1\n", features=features, group=None, time=None)
    rows.learn()
    expected = expected or ((np.array([-3, 0, 9]) - 2) / np.std([-3, 0, 9])).tolist()
    np.testing.assert_allclose(rows.clicks.dense[:, 0], expected, rtol=1e-6, atol=1e-7)


def test_an_evaluation_set_has_the_scale_of_the_training_set(tmp_path):
    features = {"user": {"type": "Sparse"}, "price": {"type": "Dense", "transform": "standard"}}
    train = log_of(tmp_path, "user,price,click\na,0,1\nb,10,0\n", features=features, group=None, time=None)
    other = log_of(tmp_path, "user,price,click\na,100,1\nb,100,0\n", features=features, group=None, time=None)
    other.follow(train.learn())
    assert other.clicks.dense[:, 0].tolist() == [19.0, 19.0]


BAD = [
    ("a,1", "has 2 columns but there are 3"),
    ("a,1,1,9", "has 4 columns but there are 3"),
    ("a,cheap,1", "'price' is 'cheap', which is no finite number"),
    ("a,inf,1", "'price' is 'inf', which is no finite number"),
    ("a,nan,1", "'price' is 'nan', which is no finite number"),
    ("a,1_0,1", "'price' is '1_0', which is no finite number"),
    ("a,1,2", "the label 'click' is '2'; it must be 0 or 1, or the schema must say which values are positive"),
    ("a,1,", "the label 'click' is missing"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_row_that_does_not_fit_is_named_by_file_and_line(tmp_path, row, reason, caplog):
    good = "".join(f"u{i},{i},{i % 2}\n" for i in range(9))
    text = f"user,price,click\n{good}{row}\n"
    with pytest.raises(DataError, match=rf"log\.csv:11: {reason}"):
        log_of(tmp_path, text, **SMALL, max_skipped=0.0)
    rows = log_of(tmp_path, text, **SMALL, max_skipped=0.1)
    assert len(rows) == 9
    assert f"1 of 10 rows are wrong and were left out: {tmp_path}/log.csv:11: {reason}" in caplog.text


def test_too_many_wrong_rows_are_one_error_that_counts_them(tmp_path):
    text = "user,price,click\na,1,1\nb,x,0\nc,y,0\nd,2,0\n"
    with pytest.raises(
        DataError, match=r"log\.csv:3: 'price' is 'x'.*so are 1 others of 4 rows, max_skipped allows 0.01"
    ):
        log_of(tmp_path, text, **SMALL)


@pytest.mark.parametrize("bad", ["u2,x,1", "u2,2", "u2,2,1,1"])
def test_the_places_of_rows_stay_where_others_were_left_out(tmp_path, bad):
    text = "user,price,click\n" + "".join(f"{bad}\n" if i == 2 else f"u{i},{i},1\n" for i in range(8))
    parts = [log_of(tmp_path, text, **SMALL, max_skipped=0.2, rows=EveryNth(4, (k,))) for k in range(4)]
    assert [part.clicks.dense[:, 0].tolist() for part in parts] == [[0, 4], [1, 5], [6], [3, 7]]
    assert parts[2].name_of(0).endswith("log.csv:8")


def test_rows_of_slots_and_spans_of_time_stay_where_a_row_was_left_out(tmp_path):
    options = {"features": {"user": {"type": "Sparse"}}, "labels": {"click": {}}, "group": None, "time": "when"}
    lines = [f"{at % 2} {at} user:{at}" for at in range(8)]
    form = {"kind": "slot", "head": ["click", "when"]}
    for bad in (None, "1 2 user", "1"):
        lines[2] = lines[2] if bad is None else bad
        text, took = "\n".join(lines), {}
        for rows in (EveryNth(2, (1,)), TimeSpan(0.5, 1.0)):
            took[rows] = log_of(tmp_path, text, **options, format=form, max_skipped=0.2, rows=rows).clicks.time.tolist()
        assert list(took.values()) == [[1, 3, 5, 7], [4, 5, 6, 7]]


def test_signs_of_any_number_and_long_values_are_ordinary(tmp_path):
    names = ["0", str(2**64 - 1), "x" * 100_000, "naïve 漢字", "-1"]
    text = "user,price,click\n" + "".join(f"{name},1,0\n" for name in names)
    rows = log_of(tmp_path, text, **SMALL)
    assert rows.clicks.sparse[:, 0].tolist() == [sign(1, name) for name in names]


def test_bytes_that_are_no_text_keep_their_sign(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"user,price,click\n\xff\xfe,1,0\n")
    rows = ClickLog(schema(**SMALL), str(tmp_path), ["log.csv"])
    assert int(rows.clicks.sparse[0, 0]) & MASK == xxhash.xxh64_intdigest(b"\xff\xfe") & MASK


def test_empty_and_very_long_sequences_are_taken_as_declared(tmp_path):
    features = {"item": {"type": "Sparse"}, "past": {"type": "Sequence", "vocabulary": "item", "max_length": 3}}
    many = "|".join(map(str, range(10_000)))
    text = f"item,past,click\na,,0\nb,{many},1\n"
    rows = log_of(tmp_path, text, features=features, group=None, time=None)
    values, offsets = rows.clicks.ragged["past"]
    assert offsets.tolist() == [0, 0, 3] and values.tolist() == [sign(1, t) for t in ("9997", "9998", "9999")]
    features["past"]["keep"] = "first"
    values, _ = log_of(tmp_path, text, features=features, group=None, time=None).clicks.ragged["past"]
    assert values.tolist() == [sign(1, t) for t in ("0", "1", "2")]


def test_sequences_that_go_together_must_be_equally_long(tmp_path):
    features = {"a": {"type": "Sequence"}, "b": {"type": "Sequence", "along": "a"}}
    with pytest.raises(DataError, match=r"log\.csv:3: 'b' has 1 values, not as many as the sequence it goes along"):
        log_of(tmp_path, "a,b,click\n1|2,3|4,0\n1|2,3,1\n", features=features, group=None, time=None)


def test_times_that_run_backwards_are_told_refused_or_left_out(tmp_path, caplog):
    changes = {"features": {"user": {"type": "Sparse"}}, "group": None, "time": "time"}
    text = "user,time,click\na,10,0\nb,9,1\nc,11,0\nd,10,1\ne,12,1\n"
    assert len(log_of(tmp_path, text, **changes)) == 5
    assert "log.csv:3: the time is 9, but 10 came before it; times run backwards at 2 of 5 rows" in caplog.text
    with pytest.raises(DataError, match="so it is with 2 of 5 rows; sort the log, or set ordered: false"):
        log_of(tmp_path, text, **changes, ordered=True)
    rows = log_of(tmp_path, text, **changes, ordered=True, max_skipped=0.5)
    assert rows.clicks.time.tolist() == [10, 11, 12]
    with pytest.raises(DataError, match="the time 'time' is 'noon'; it must be whole seconds"):
        log_of(tmp_path, "user,time,click\na,noon,0\nb,9,1\n", **changes)


def test_a_weight_below_0_is_refused(tmp_path):
    changes = {"features": {"user": {"type": "Sparse"}}, "group": None, "time": None, "weight": "w"}
    with pytest.raises(DataError, match=r"log\.csv:2: the weight 'w' is '-1'; it must be a number of 0 or more"):
        log_of(tmp_path, "user,w,click\na,-1,0\nb,9,1\n", **changes)


def test_parts_by_time_are_shares_of_the_rows_the_oldest_first():
    values = {"user": list("abcdefghij"), "click": [0, 1] * 5, "time": [5, 3, 9, 1, 7, 2, 8, 4, 6, 0]}
    plain = schema(features={"user": {"type": "Sparse"}}, group=None)
    old, new = (Columns(plain, values, rows=TimeSpan(*span)) for span in ((0.0, 0.7), (0.7, 1.0)))
    assert sorted(old.clicks.time) == list(range(7)) and sorted(new.clicks.time) == [7, 8, 9]


def test_parts_by_time_may_be_shares_of_each_users_rows():
    values = {"user": list("aabaabbaba"), "click": [0, 1] * 5, "time": [5, 3, 9, 1, 7, 2, 8, 4, 6, 0]}
    plain = schema(features={"user": {"type": "Sparse"}}, group="user")
    old, new = (Columns(plain, values, rows=TimeSpan(*span, each_group=True)) for span in ((0.0, 0.5), (0.5, 1.0)))
    assert old.clicks.time.tolist() == [3, 1, 2, 6, 0] and new.clicks.time.tolist() == [5, 9, 7, 8, 4]
    with pytest.raises(ConfigError, match="each_group needs a group column"):
        Columns(schema(features={"user": {"type": "Sparse"}}, group=None), values, rows=TimeSpan(each_group=True))


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no column 'user', which the schema names; did you mean 'usr'\?"):
        log_of(tmp_path, "usr,price,click\na,1,0\n", **SMALL)
    with pytest.raises(DataError, match="the file is empty; expected a line with the names of the columns"):
        log_of(tmp_path, "", **SMALL)
    with pytest.raises(DataError, match="there are no rows"):
        log_of(tmp_path, "user,price,click\n", **SMALL)
    with pytest.raises(DataError, match=r"log\.csv:2: a quote is opened and not closed"):
        log_of(tmp_path, 'user,price,click\na,"1,0\n' + "b,1,0\n" * 50, **SMALL)
    with pytest.raises(DataError, match=r"the columns differ in length: {'user': 1, 'click': 2}"):
        Columns(schema(**SMALL), {"user": ["a"], "click": [1, 0]})
    with pytest.raises(DataError, match=r"other\.csv:1: its columns are a, b; expected are user, price, click"):
        (tmp_path / "log.csv").write_text("user,price,click\na,1,0\n")
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        ClickLog(schema(**SMALL), str(tmp_path), ["log.csv", "other.csv"])


def test_batches_of_workers_are_those_of_one_process(tmp_path):
    rows = Columns(schema(), columns())
    rows.learn()
    found = []
    for workers in (0, 2):
        with DataLoader(rows, 64, shuffle=True, seed=3, workers=workers) as loader:
            found.append([{name: array.copy() for name, array in batch.items()} for batch in loader])
    for a, b in zip(*found, strict=True):
        assert a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def small_movielens(folder: Path) -> Path:
    folder.mkdir()
    (folder / "ml-100k.user").write_text("user_id:token\tage:token\tgender:token\n1\t24\tM\n2\t53\tF\n")
    items = "item_id:token\tmovie_title:token_seq\tclass:token_seq\n" + "".join(
        f"{i}\tFilm {i}\t{'Drama' if i % 2 else 'Comedy War'}\n" for i in range(1, 6)
    )
    (folder / "ml-100k.item").write_text(items)
    ratings = [(1, 1, 5, 10), (1, 2, 2, 20), (2, 1, 4, 20), (1, 3, 4, 30), (1, 4, 3, 30), (1, 5, 5, 40)]
    text = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    (folder / "ml-100k.inter").write_text(text + "".join("\t".join(map(str, row)) + "\n" for row in reversed(ratings)))
    return folder


def test_movielens_knows_of_each_rating_what_came_strictly_before(tmp_path):
    features = {
        "item_id": {"type": "Sparse"},
        "liked": {"type": "Sequence", "vocabulary": "item_id"},
        "disliked": {"type": "Sequence", "vocabulary": "item_id"},
        "genres": {"type": "MultiValued"},
        "user_mean": {"type": "Dense"},
        "item_count": {"type": "Dense"},
    }
    labels = {"like": {"column": "rating", "at_least": 4}}
    found = MovieLens100K(schema(features=features, labels=labels, group="user_id", time="timestamp"),
                          str(small_movielens(tmp_path / "ml")))  # fmt: skip
    texts = {str(sign(1, str(i))): str(i) for i in range(1, 6)}
    last = max(range(6), key=lambda i: found.clicks.time[i])
    batch = found.batch(np.array([last]))
    assert [texts[str(s)] for s in batch["liked"]] == ["1", "3"] and [texts[str(s)] for s in batch["disliked"]] == [
        "2",
        "4",
    ]
    assert batch["dense"][0].tolist() == [3.5, 0.0] and batch["labels"].tolist() == [[1.0]]
    same_second = [i for i in range(6) if found.clicks.time[i] == 30]
    for i in same_second:  # neither knows of the other
        assert [texts[str(s)] for s in found.batch(np.array([i]))["liked"]] == ["1"]


def test_movielens_says_where_it_may_come_from(tmp_path):
    with pytest.raises(DataError, match=r"MovieLens100K: .*none/ml-100k.inter: no such file;.* there only$"):
        MovieLens100K(schema(), str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("config", "rows", "share"),
    [("adult", 29305, 0.24), ("bank", 32553, 0.116), ("criteo", 7200, 0.216), ("avazu", 8087, 0.17)],
)
def test_the_real_sets_are_read_as_their_configs_say(shared_data, config, rows, share):
    from suites.engine.config.building import build_task, read_config

    path = {"adult": "deepfm_adult", "bank": "dnn_bank", "criteo": "deepfm_criteo", "avazu": "deepfm_avazu"}[config]
    archive = next(shared_data("ctr").glob(f"{config}*/*.zip"))
    task = build_task(read_config(Path(f"configs/ctr/{path}.yml"), [f"data.root={archive}"]))
    clicks = task._train_set.clicks
    assert len(clicks) == rows and clicks.labels.mean() == pytest.approx(share, abs=0.01)
    assert np.isfinite(clicks.dense).all() and len(task._eval_set)


def test_a_stray_quote_costs_its_own_row_in_memory_as_in_a_stream(tmp_path):
    rows = ["u1,1,0\n"] * 300
    rows[100] = 'u1,"1,0\n'
    rows[150] = 'u1,1",0\n'
    log = log_of(
        tmp_path, "user,price,click\n" + "".join(rows), features={"user": {"type": "Sparse"}}, group=None, time=None
    )
    assert len(log) == 299 and log.left_out.reasons == [(f"{tmp_path}/log.csv:102", "a quote is opened and not closed")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_a_log_in_another_encoding_is_read(tmp_path, encoding):
    (tmp_path / "log.csv").write_bytes("用户,price,click\n北,1,0\n京,2,1\n".encode(encoding))
    declared = schema(
        features={"用户": {"type": "Sparse"}, "price": {"type": "Dense"}},
        group=None, time=None, format={"encoding": "gb18030"},
    )  # fmt: skip
    assert [row["用户"] for row in ClickLog(declared, str(tmp_path), ["log.csv"]).examples] == ["北", "京"]


def test_names_of_columns_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes("用户,click\na,1\n".encode("gbk"))
    with pytest.raises(DataError, match=r"log.csv:1: is no UTF-8 text .* set format.encoding of the schema"):
        ClickLog(schema(features={"a": {"type": "Sparse"}}, group=None, time=None), str(tmp_path), ["log.csv"])
