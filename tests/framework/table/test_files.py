"""A table's files: nothing changes on the way, deltas follow each other, and damage is one clear error."""

import json
import shutil

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, CheckpointError
from framework.table import FTRL, SGD, Adagrad, Adam, ByCount, DenseAdam, Eviction, Normal, Table, Uniform, Zeros

RULES = [SGD(), Adagrad(), Adagrad(shared=True), Adam(), DenseAdam(lr=0.05), DenseAdam(weight_decay=0.1), FTRL(l1=0.01)]
KEYS = np.concatenate([np.arange(300), [-1, -(2**63), 2**63 - 1]])


def make(rule=None, **options) -> Table:
    settings = {"init": [(1, Zeros()), (4, Normal(0.1))], "seed": 3, "name": "signs"}
    return Table(5, rule=rule or Adam(lr=0.05), **settings | options)


def train(table: Table, seed: int, steps: int = 4) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        keys = rng.choice(KEYS, 80)
        table.update(keys, rng.normal(size=(80, 5)), 0.05, clicks=rng.integers(0, 2, 80).astype(np.float32))


def contents(table: Table) -> dict:
    """Everything that a table holds, by key: what is in a row and what waits for one."""
    rows = {}
    for bucket in range(table._native.buckets):
        arrays = [framework.Tensor(a).numpy() for a in table._native.read_rows(bucket, bucket + 1, 0, False)]
        for key, *parts in zip(*arrays, strict=True):
            rows[int(key)] = b"".join(np.asarray(p).tobytes() for p in parts)
    waiting = [framework.Tensor(a).numpy().tolist() for a in table._native.read_candidates(0, table._native.buckets)]
    return {"rows": rows, "waiting": dict(zip(*waiting, strict=True)), "rates": table._native.rates().numpy().tolist()}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{type(r).__name__}-{r.weight_decay}{getattr(r, 'shared', '')}")
def test_a_table_comes_back_bit_for_bit_and_goes_on_alike(rule, tmp_path):
    table = make(rule)
    train(table, 0)
    table.save(tmp_path / "base")
    again = make(rule)
    again.load(tmp_path / "base")
    assert contents(again) == contents(table)
    for t in (table, again):
        train(t, 1)
        t.shrink()
    assert contents(again) == contents(table)


def test_the_order_of_rows_comes_back_too(tmp_path):
    table = make()
    train(table, 0)
    table.forget([3, 5, 8])
    table.save(tmp_path / "base", parts=7)
    again = Table.open(tmp_path / "base")
    for one, two in zip(*(t._native.read_rows(0, 256, 0, False) for t in (table, again)), strict=True):
        np.testing.assert_array_equal(framework.Tensor(one).numpy(), framework.Tensor(two).numpy())


@pytest.mark.parametrize("admission", [None, ByCount(4)], ids=["all", "count"])
def test_a_base_and_its_deltas_are_the_table(admission, tmp_path):
    """With rows that go and come back, ends of passes between them, and rows that no delta has."""
    eviction = Eviction(decay=0.7, least_score=0.05, most_unseen=2)
    table = make(admission=admission, eviction=eviction)
    live = None
    train(table, 0, 20)
    table.save(tmp_path / "base")
    for i in range(4):
        table.update([5, 250 + i, 1000 + i], np.ones((3, 5)), 0.05)
        assert table.shrink() >= 0
        table.forget([7, 8, 9 + i])
        table.update([8], np.ones((1, 5)), 0.05)
        table.set_shows([8, 20], np.array([50, 60]), np.array([1, 2]))
        if i == 2:
            table.shrink()
        table.save_delta(tmp_path / f"delta{i}")
        again = Table.open(tmp_path / "base", [tmp_path / f"delta{k}" for k in range(i + 1)])
        assert contents(again) == contents(table)
        assert again.passes == table.passes
        if live is None:
            live = Table.open(tmp_path / "base")
        live.load_delta(tmp_path / f"delta{i}")
        assert contents(live) == contents(table)


def test_a_delta_has_the_rows_that_were_touched(tmp_path):
    table = make()
    table.update(np.arange(1000), np.ones((1000, 5)))
    table.save(tmp_path / "base")
    table.update([3, 4], np.ones((2, 5)))
    table.lookup(np.arange(500))
    table.save_delta(tmp_path / "delta")
    from framework.io import load_tensors

    assert sorted(load_tensors(tmp_path / "delta" / "rows-00000.safetensors")["keys"].tolist()) == [3, 4]


def test_training_goes_on_after_a_load_with_deltas_of_its_own(tmp_path):
    table = make()
    train(table, 0)
    table.save(tmp_path / "base")
    again = Table.open(tmp_path / "base")
    train(again, 1)
    again.save_delta(tmp_path / "delta")
    assert contents(Table.open(tmp_path / "base", [tmp_path / "delta"])) == contents(again)


def test_any_number_of_files_goes_into_any_number_of_buckets(tmp_path):
    table = make()
    train(table, 0)
    table.save(tmp_path / "one")
    for i, (parts, buckets) in enumerate([(3, 1), (16, 64), (1, 1024), (200, 256)]):
        resharded = Table.open(tmp_path / ("one" if i == 0 else str(i - 1)), buckets=buckets)
        resharded.save(tmp_path / str(i), parts=min(parts, buckets))
        assert contents(resharded) == contents(table)
    assert len(list((tmp_path / "3").glob("rows-*"))) == 200


def test_open_makes_the_table_as_it_was(tmp_path):
    table = make(Adagrad(shared=True), init=[(2, Uniform(0.5)), (3, Zeros())], admission=ByCount(2), show_weight=0.3)
    table.save(tmp_path / "base")
    again = Table.open(tmp_path / "base")
    assert again.config() == table.config()
    again.update([1, 1, 2], np.zeros((3, 5)))
    assert 1 in again and 2 not in again


def test_rows_can_be_written_while_others_train(tmp_path):
    import threading

    table = make()
    train(table, 0)
    stop = threading.Event()

    def work():
        i = 0
        while not stop.is_set():
            train(table, i := i + 1)

    thread = threading.Thread(target=work)
    thread.start()
    table.save(tmp_path / "base")
    for i in range(5):
        table.save_delta(tmp_path / f"delta{i}")
    stop.set()
    thread.join()
    table.save_delta(tmp_path / "delta5")
    assert contents(Table.open(tmp_path / "base", [tmp_path / f"delta{i}" for i in range(6)])) == contents(table)


def test_text_has_every_number_exactly(tmp_path):
    table = make(DenseAdam(lr=0.05))
    train(table, 0)
    assert table.export_text(tmp_path / "rows.txt") == len(table)
    with framework.no_grad():
        for line in (tmp_path / "rows.txt").read_text().splitlines():
            key, show, click, values = line.split("\t")
            row = np.array(values.split(" "), np.float32)
            np.testing.assert_array_equal(row, table.lookup(np.array([int(key)], np.uint64)).numpy()[0])
            np.testing.assert_array_equal(
                [float(show), float(click)], table.counts(np.array([int(key)], np.uint64))[0, :2]
            )


# -- what is refused
@pytest.fixture
def saved(tmp_path):
    table = make()
    train(table, 0)
    table.save(tmp_path / "base", parts=2)
    train(table, 1)
    table.save_delta(tmp_path / "delta0")
    train(table, 2)
    table.save_delta(tmp_path / "delta1")
    return tmp_path


def refused(message, call, *args):
    with pytest.raises(CheckpointError, match=message):
        call(*args)


def test_deltas_follow_each_other(saved):
    base, first, second = (saved / n for n in ("base", "delta0", "delta1"))
    refused("delta1: follows .*, but the files before it are .*; a delta is missing", Table.open, base, [second])
    refused("is a delta of .*; give the base first", Table.open, first)
    table = Table.open(base)
    refused("delta1: this delta follows .*; table 'signs' stands at", table.load_delta, second)
    refused("is a base, not a delta; use load", table.load_delta, base)
    refused("table 'signs' was neither loaded nor saved", make().load_delta, first)
    refused("a delta needs a base before it; call save", make().save_delta, saved / "x")


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"name": "users"}, "name is 'signs', here it is 'users'"),
        ({"seed": 4}, "seed is 3, here it is 4"),
        ({"init": Zeros()}, "init is"),
        ({"rule": SGD()}, r"rule is \('Adam', None\), here it is \('SGD', None\)"),
    ],
)
def test_files_of_another_table_are_refused(saved, other, what):
    table = make(**other)
    table.update([1], np.ones((1, 5)))
    refused(f"base: is of another table: its {what}", table.load, saved / "base")
    assert len(table) == 1


def test_another_dim_is_refused(saved):
    refused("its dim is 5, here it is 6", Table(6, name="signs").load, saved / "base")


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: cut(f / "rows-00001.safetensors"), "rows-00001.safetensors: its digest is not that of table.json"),
        (lambda f: flip(f / "rows-00000.safetensors"), "rows-00000.safetensors: its digest is not that of table.json"),
        (lambda f: (f / "rows-00000.safetensors").unlink(), "rows-00000.safetensors: cannot be read"),
        (lambda f: cut(f / "table.json"), "table.json: cannot be read as a table's manifest"),
        (lambda f: (f / "table.json").unlink(), "table.json: cannot be read as a table's manifest"),
        (lambda f: (f / "table.json").write_text("[1]"), "is no manifest of a table in format 1"),
        (lambda f: (f / "table.json").write_bytes(b"\xff\xfe"), "cannot be read as a table's manifest"),
    ],
)
def test_damaged_files_are_refused_before_a_row_is_replaced(saved, damage, message):
    table = make()
    train(table, 9)
    before = contents(table)
    damage(saved / "base")
    refused(message, table.load, saved / "base")
    assert contents(table) == before


@pytest.mark.parametrize(
    "change",
    [
        {"files": [{"name": "../base/rows-00000.safetensors", "sha256": "0"}]},
        {"files": None},
        {"id": 5},
        {"passes": -1},
        {"passes": "3"},
        {"table": []},
        {"kind": "other"},
        {"files": []},
    ],
)
def test_a_hostile_manifest_is_refused(saved, change):
    path = saved / "base" / "table.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused("table.json", make().load, saved / "base")


def test_a_manifest_that_describes_no_table_is_refused(saved):
    path = saved / "base" / "table.json"
    manifest = json.loads(path.read_text())
    for change in (
        {"dim": -1},
        {"dim": "x"},
        {"rule": {"type": "Evil"}},
        {"init": [[5, {"type": "Zeros", "what": 1}]]},
    ):
        path.write_text(json.dumps(manifest | {"table": manifest["table"] | change}))
        refused("describes no table", Table.open, saved / "base")


def test_other_tensors_are_refused(saved):
    import hashlib

    from framework.io import save_tensors

    folder = saved / "base"
    save_tensors(folder / "rows-00000.safetensors", {"keys": framework.tensor(np.arange(3))})
    manifest = json.loads((folder / "table.json").read_text())
    manifest["files"][0]["sha256"] = hashlib.sha256((folder / "rows-00000.safetensors").read_bytes()).hexdigest()
    (folder / "table.json").write_text(json.dumps(manifest))
    refused("its tensors are not those of table 'signs'", make().load, folder)


def test_a_folder_is_not_overwritten_and_a_full_disk_leaves_nothing(saved):
    table = make()
    refused("base: the table cannot be written there", table.save, saved / "base")
    (saved / "file").write_text("")
    refused("cannot be written there", table.save, saved / "file" / "x")
    with pytest.raises(AttributeValueError, match=r"save: parts is 0; it must lie in \[1, 256\]"):
        table.save(saved / "new", parts=0)
    assert not (saved / "new").exists()
    shutil.rmtree(saved / "base")
    table.save(saved / "base")
