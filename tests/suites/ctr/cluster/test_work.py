"""Shares of a pass are dealt out once, change hands, and are remembered."""

import json

import pytest

from framework.errors import CheckpointError, WorkerError
from suites.ctr.cluster.places import Places, Running
from suites.ctr.cluster.watch import Watch
from suites.ctr.cluster.work import LogPass, Work


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def work(path, shares=3, epochs=2, steps=None, clock=None):
    return Work(path / "work.json", shares, epochs, steps, clock or Clock())


def test_a_share_belongs_to_one_trainer_until_it_is_done(tmp_path):
    found = work(tmp_path)
    a, b = found.lease("a"), found.lease("b")
    assert {a.share, b.share} == {0, 1} and found.lease("a") is a  # asked again
    assert found.beat("a", a.worker, 5) and found.batches == 5
    assert not found.beat("a", b.worker, 9) and not found.beat("nobody", 0, 1)
    found.done("a", a.worker)
    found.done("a", a.worker)  # told again
    assert found.lease("a").share == 2
    assert found.lease("c") is None and not found.pass_done


def test_a_share_whose_trainer_is_gone_goes_to_another_with_a_higher_incarnation(tmp_path):
    found = work(tmp_path)
    first = found.lease("a")
    found.release("a")
    second = found.lease("b")
    assert second.worker == first.worker and second.incarnation > first.incarnation
    found.done("a", first.worker)  # too late
    assert not found.pass_done and not found.beat("a", first.worker, 3)


def test_passes_follow_each_other_and_then_it_is_over(tmp_path):
    found = work(tmp_path, shares=2)
    seen = []
    while not found.over:
        lease = found.lease("a")
        seen.append((lease.epoch, lease.share, lease.worker))
        found.done("a", lease.worker)
        if found.pass_done:
            found.next_pass()
    assert seen == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]
    assert found.lease("a") is None and found.idle


def test_steps_end_it_in_the_middle_of_a_share(tmp_path):
    found = work(tmp_path, epochs=None, steps=10)
    lease = found.lease("a")
    assert found.beat("a", lease.worker, 9) and not found.beat("a", lease.worker, 10)
    assert found.over and found.lease("b") is None


def test_a_trainer_that_says_nothing_is_named(tmp_path):
    clock = Clock()
    found = work(tmp_path, clock=clock)
    lease = found.lease("a")
    found.lease("b")
    clock.now = 50.0
    found.beat("a", lease.worker, 1)
    clock.now = 70.0
    assert found.silent(60.0) == ["b"]


def test_what_is_done_is_remembered_and_leases_are_not(tmp_path):
    found = work(tmp_path)
    first = found.lease("a")
    found.beat("a", first.worker, 7)
    found.done("a", first.worker)
    open_one = found.lease("a")
    again = work(tmp_path)
    assert again.batches == 7 and again.idle
    taken = again.lease("b")
    assert taken.share == open_one.share and taken.incarnation > open_one.incarnation


def test_a_batch_counts_the_same_whoever_is_away(tmp_path):
    """Changes of dense weights are divided by how many there would be, not by how many there are."""
    found = Work(tmp_path / "work.json", 3, 2, None, Clock(), trainers=2)
    assert found.together == 2 and found.live == 0
    found.lease("a")
    found.lease("b")
    found.release("b")  # it died
    assert found.live == 1 and found.together == 2
    found.trainers = 8  # more are wanted, and no more than three have a share
    assert found.together == 3


def test_trainers_without_a_share_of_the_part_do_not_count(tmp_path):
    found = Work(tmp_path / "work.json", 3, None, None, Clock(), parts=True, trainers=3)
    found.open(LogPass("d/1", "f1", ("d/1",)), units=2)
    assert found.together == 2
    again = Work(tmp_path / "work.json", 3, None, None, Clock(), parts=True, trainers=3)
    assert again.together == 2
    again.open(LogPass("d/2", "f2", ("d/1", "d/2")), units=0)
    assert again.together == 1


def parts(path):
    return Work(path / "work.json", 3, None, None, Clock(), parts=True)


def test_of_a_log_that_keeps_coming_nothing_is_dealt_out_until_the_next_part_is_there(tmp_path):
    found = parts(tmp_path)
    assert found.waiting and found.lease("a") is None and not found.pass_done
    found.open(LogPass("d/1", "f1", ("d/1",)), units=2)
    leases = [found.lease(who) for who in "abc"]
    assert [(each.part, each.files, each.share) for each in leases[:2]] == [("d/1", "f1", 0), ("d/1", "f1", 1)]
    assert leases[2] is None  # a share without a block has nothing in it
    found.done("a", leases[0].worker)
    again = parts(tmp_path)  # in the middle of a part
    assert not again.waiting and again.part == found.part and again.lease("d").share == 1
    again.done("d", leases[1].worker)
    assert again.pass_done
    again.next_pass()
    last = parts(tmp_path)  # between two parts
    assert last.waiting and not last.pass_done and last.part.name == "d/1" and last.epoch == 1
    assert last.lease("a") is None
    last.open(LogPass("d/2", "f2", ("d/1", "d/2")), units=0)
    assert last.pass_done  # without files
    last.end()
    assert last.over


def test_a_damaged_file_and_other_shares_are_refused(tmp_path):
    found = work(tmp_path)
    found.done("a", found.lease("a").worker)
    with pytest.raises(CheckpointError, match=r"in 3 shares, not 4.*cluster.shares=3"):
        work(tmp_path, shares=4)
    for text in ("{", json.dumps({"format": 9}), "[]"):
        (tmp_path / "work.json").write_text(text)
        with pytest.raises(CheckpointError, match="cannot be read"):
            work(tmp_path)


class FakeRunning(Running):
    def __init__(self):
        self.code, self.killed = None, False

    def status(self):
        return self.code

    def kill(self):
        self.code, self.killed = -9, True

    def about(self):
        return "process 1; the end of its log:\nboom"


class FakePlaces(Places):
    def __init__(self):
        self.started = []

    def start(self, kind, name, spec):
        self.started.append((kind, name, spec, FakeRunning()))
        return self.started[-1][-1]

    def close(self):
        pass


def watch(most=2):
    places, lost = FakePlaces(), []
    return places, lost, Watch(places, lambda line: None, lost.append, most)


def test_a_process_that_died_is_started_again_under_another_name(monkeypatch):
    monkeypatch.setattr("suites.ctr.cluster.watch._FIRST_PAUSE", 0.0)
    places, lost, watching = watch()
    watching.add("trainer", "trainer-0", lambda name: f"spec of {name}")
    places.started[0][3].code = 1
    watching.look()
    watching.look()
    assert [each[:3] for each in places.started] == [
        ("trainer", "trainer-0.0", "spec of trainer-0.0"),
        ("trainer", "trainer-0.1", "spec of trainer-0.1"),
    ]
    assert lost == ["trainer-0.0"] and watching.running("trainer") == 1


def test_a_process_that_dies_again_and_again_ends_the_run_with_its_last_words(monkeypatch):
    monkeypatch.setattr("suites.ctr.cluster.watch._FIRST_PAUSE", 0.0)
    places, _, watching = watch(most=2)
    watching.add("shard", "shard-0", str)
    with pytest.raises(WorkerError, match=r"(?s)shard-0 died 3 times within 10 minutes.*boom"):
        for _ in range(10):
            places.started[-1][3].code = 2
            watching.look()


def test_a_process_that_ended_on_purpose_stays_away():
    places, lost, watching = watch()
    watching.add("trainer", "trainer-0", str)
    places.started[0][3].code = 0
    for _ in range(3):
        watching.look()
    assert len(places.started) == 1 and lost == ["trainer-0.0"]
    watching.add("trainer", "trainer-1", str)
    watching.retire("trainer-1")
    assert places.started[1][3].killed and watching.names("trainer") == ["trainer-0"]
