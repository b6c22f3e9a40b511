"""Saves that share files: each holds everything to the bit, damage is one clear error, nothing depends on luck."""

import os
import shutil

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError
from framework.table import Adam, ByCount, DenseAdam, Eviction, Table
from framework.table.chained import Chained
from tests.framework.table.test_files import contents, make, train


def saved(folder, count, most=16, **options):
    """A table, its saves `s0`, `s1` ... and what it held at each."""
    table = make(**options)
    chained, held = Chained(table, most), []
    for k in range(count):
        train(table, k, steps=1 if k else 8)
        chained.save(folder / f"s{k}")
        held.append(contents(table))
    return table, chained, held


def parts(path):
    return sorted(each.name for each in path.iterdir() if each.is_dir())


@pytest.mark.parametrize("rule", [Adam(lr=0.05), DenseAdam(lr=0.05)])
@pytest.mark.parametrize("most", [0, 2, 16])
def test_each_save_holds_everything_also_when_those_before_are_gone(tmp_path, most, rule):
    *_, held = saved(tmp_path, 7, most, rule=rule, admission=ByCount(2), eviction=Eviction(most_unseen=3))
    for k in range(6):
        if k != 3:
            shutil.rmtree(tmp_path / f"s{k}")
    for k in (3, 6):
        again = make(rule=rule, admission=ByCount(2), eviction=Eviction(most_unseen=3))
        Chained(again).load(tmp_path / f"s{k}")
        assert contents(again) == held[k]
        assert contents(Table.open(tmp_path / f"s{k}")) == held[k]
        assert len(parts(tmp_path / f"s{k}")) <= most + 1


def test_passes_and_keys_that_went_are_in_the_saves(tmp_path):
    table = make(eviction=Eviction(decay=0.9, most_unseen=1))
    chained = Chained(table)
    train(table, 0, steps=8)
    chained.save(tmp_path / "a")
    table.forget(np.arange(50))
    table.shrink()
    chained.save(tmp_path / "b")
    table.shrink()
    train(table, 1, steps=1)
    chained.save(tmp_path / "c")
    assert len(parts(tmp_path / "c")) == 3
    assert contents(Table.open(tmp_path / "c")) == contents(table)


def test_a_save_writes_what_changed_and_links_the_rest(tmp_path):
    table = make()
    table.update(np.arange(20000), np.ones((20000, 5), np.float32), 0.1)
    chained = Chained(table)
    chained.save(tmp_path / "a")
    table.update(np.arange(10), np.ones((10, 5), np.float32), 0.1)
    chained.save(tmp_path / "b")
    base = list((tmp_path / "b" / "0000").iterdir())
    assert all(os.path.samefile(p, tmp_path / "a" / "0000" / p.name) for p in base)
    assert sum(p.stat().st_size for p in (tmp_path / "b" / "0001").iterdir()) < 0.05 * sum(
        p.stat().st_size for p in base
    )


def test_deltas_as_large_as_the_base_end_in_a_base(tmp_path):
    table = make()
    chained = Chained(table, 100)
    lengths = []
    for k in range(8):
        table.update(np.arange(5000), np.ones((5000, 5), np.float32), 0.1)
        chained.save(tmp_path / f"s{k}")
        lengths.append(len(parts(tmp_path / f"s{k}")))
    assert max(lengths) <= 3 and lengths.count(1) > 1


def test_training_goes_on_to_the_same_bits_and_the_chain_goes_on_too(tmp_path):
    table, chained, _ = saved(tmp_path, 3)
    again = make()
    other = Chained(again)
    other.load(tmp_path / "s2")
    for each, kept, name in ((table, chained, "x"), (again, other, "y")):
        train(each, 9)
        kept.save(tmp_path / name)
    assert contents(table) == contents(again)
    assert parts(tmp_path / "x") == parts(tmp_path / "y") == ["0000", "0001", "0002", "0003"]
    assert contents(Table.open(tmp_path / "x")) == contents(Table.open(tmp_path / "y"))


@pytest.mark.parametrize("harm", ["cut", "missing file", "missing folder", "another's"])
def test_a_damaged_delta_is_one_error_that_names_the_last_good_state(tmp_path, harm):
    *_, held = saved(tmp_path, 4)
    delta = tmp_path / "s3" / "0002"
    (rows,) = delta.glob("rows-*")
    if harm == "cut":
        data = rows.read_bytes()
        rows.unlink()  # the link, not the file that other saves share
        rows.write_bytes(data[:-8])
    elif harm == "missing file":
        rows.unlink()
    else:
        shutil.rmtree(delta)
    if harm == "another's":
        shutil.copytree(tmp_path / "s3" / "0001", delta)
    table = make()
    train(table, 5)
    before = contents(table)
    with pytest.raises(
        CheckpointError, match=r"the save is whole up to 0001: Table\.open\(.*0000', deltas=\[\.\.\.\]\)"
    ):
        Chained(table).load(tmp_path / "s3")
    assert contents(table) == before
    good = [tmp_path / "s3" / name for name in ("0000", "0001")]
    assert contents(Table.open(good[0], good[1:])) == held[1]
    assert contents(Table.open(tmp_path / "s2")) == held[2]


def test_a_damaged_base_or_list_is_one_error(tmp_path):
    saved(tmp_path, 3)
    shutil.rmtree(tmp_path / "s1" / "0000")
    with pytest.raises(CheckpointError, match="0000: is missing; it is the base, so nothing of this save can be used"):
        Table.open(tmp_path / "s1")
    for text in ("", "[]", '{"format": 1, "ids": []}', '{"format": 9, "ids": ["a"]}'):
        (tmp_path / "s2" / "chain.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"chain\.json: cannot be read .*; take an earlier save"):
            Table.open(tmp_path / "s2")


def test_a_base_of_an_older_run_still_loads(tmp_path):
    table = make()
    train(table, 0)
    table.save(tmp_path / "plain")
    again = make()
    chained = Chained(again)
    chained.load(tmp_path / "plain")
    assert contents(again) == contents(table)
    train(again, 1)
    chained.save(tmp_path / "next")
    assert parts(tmp_path / "next") == ["0000"] and contents(Table.open(tmp_path / "next")) == contents(again)


def test_who_removed_what_a_save_would_share_gets_a_base(tmp_path):
    table, chained, _ = saved(tmp_path, 2)
    shutil.rmtree(tmp_path / "s1")
    train(table, 7)
    chained.save(tmp_path / "next")
    assert parts(tmp_path / "next") == ["0000"] and contents(Table.open(tmp_path / "next")) == contents(table)


def test_a_save_that_failed_loses_nothing(tmp_path, monkeypatch):
    table, chained, _ = saved(tmp_path, 2)
    train(table, 7)
    with monkeypatch.context() as patch:
        patch.setattr("framework.table.chained.write_text", lambda *_: (_ for _ in ()).throw(OSError(28, "disk full")))
        with pytest.raises(CheckpointError, match="the table cannot be written there"):
            chained.save(tmp_path / "lost")
    assert not (tmp_path / "lost").exists()
    train(table, 8)
    chained.save(tmp_path / "next")
    assert contents(Table.open(tmp_path / "next")) == contents(table)


def test_without_hard_links_everything_is_written(tmp_path, monkeypatch, caplog):
    table, chained, _ = saved(tmp_path, 1)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(1, "no links here")))
    train(table, 7)
    chained.save(tmp_path / "next")
    assert parts(tmp_path / "next") == ["0000"] and "everything is written again" in caplog.text
    assert contents(Table.open(tmp_path / "next")) == contents(table)


def test_a_bound_below_zero_is_refused():
    with pytest.raises(AttributeValueError, match="most is -1 deltas; it must be 0 or more"):
        Chained(make(), -1)
