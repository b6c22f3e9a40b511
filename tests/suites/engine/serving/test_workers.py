"""Workers: a bad item harms nobody else, a death is made good, too many end the server, nothing hangs."""

import threading
import time

import pytest

from suites.engine.serving.batcher import Batcher, Limits
from suites.engine.serving.errors import Broken
from suites.engine.serving.readers import Hung
from suites.engine.serving.workers import Workers, run_isolated


def double(values):
    if "bad" in values:
        raise ValueError("bad is bad")
    if "die" in values:
        raise SystemExit("the end")
    return [value * 2 for value in values]


@pytest.fixture
def batcher():
    found = Batcher(Limits())
    yield found
    found.close()


def start(batcher, runs=(double,), **options):
    workers = Workers(batcher, runs, **options)
    workers.start()
    return workers


def test_only_the_item_that_fails_gets_the_error():
    found = run_isolated(double, ["a", "b", "bad", "c", "bad"])
    assert [found[i] for i in (0, 1, 3)] == ["aa", "bb", "cc"]
    assert isinstance(found[2], ValueError) and isinstance(found[4], ValueError)


def test_a_processor_with_too_few_results_is_an_error():
    (found,) = run_isolated(lambda values: [], ["a"])
    assert "1 items gave 0 results" in str(found)


def test_workers_answer_and_end_when_the_queue_is_closed(batcher):
    done = []
    workers = start(batcher, [double, double], on_batch=done.append)
    tickets = [batcher.submit([f"{i}"], [3]) for i in range(50)]
    assert [ticket.future.result(5) for ticket in tickets] == [[f"{i}" * 2] for i in range(50)]
    batcher.close()
    assert workers.join(5)
    assert sum(batch.items for batch in done) == 50 and sum(batch.cost for batch in done) == 150


def test_a_worker_that_dies_fails_its_batch_and_is_replaced(batcher):
    deaths = []
    workers = start(batcher, on_death=lambda error, given_up: deaths.append(given_up))
    with pytest.raises(Broken, match=r"the worker died \(SystemExit: the end\)"):
        batcher.submit(["die"], [1]).future.result(5)
    assert batcher.submit(["a"], [1]).future.result(5) == ["aa"]
    assert workers.trouble() is None and deaths == [False]


def test_too_many_deaths_end_it_and_nobody_waits_for_ever(batcher):
    ended = threading.Event()
    workers = start(batcher, max_deaths=1, on_death=lambda error, given_up: ended.set() if given_up else None)
    waiting = []
    for _ in range(2):
        with pytest.raises(Broken):
            batcher.submit(["die"], [1]).future.result(5)
        waiting = [batcher.submit(["a"], [1])] if not batcher.closed else waiting
    assert ended.wait(5)
    assert workers.trouble() == "workers died too often" and batcher.closed
    assert all(ticket.future.done() for ticket in waiting)


def test_a_stuck_worker_is_reported(batcher):
    begun, end = threading.Event(), threading.Event()

    def stuck(values):
        begun.set()
        assert end.wait(20)
        return values

    workers = start(batcher, [stuck], stuck_after=0.05)
    ticket = batcher.submit(["a"], [1])
    assert begun.wait(20)
    time.sleep(0.06)
    assert workers.trouble().startswith("worker 0 has been busy with one batch for ")
    end.set()
    ticket.future.result(5)
    batcher.close()
    assert workers.join(5)


def test_items_beside_many_that_hang_are_answered_one_by_one(batcher):
    def prepare(payloads, slow):
        if "hang" in payloads:
            raise Hung("a batch", 5)
        return payloads

    tickets = [batcher.submit([word], [1]) for word in ["hang"] * 20 + ["a"] + ["hang"] * 20 + ["b"]]
    workers = start(batcher, prepare=prepare)
    found = [ticket.future.exception(20) or ticket.future.result() for ticket in tickets]
    assert [row for row in found if not isinstance(row, Hung)] == [["aa"], ["bb"]]
    assert workers.trouble() is None and batcher.waiting == 0


def test_a_batch_that_is_slow_to_prepare_holds_nobody_up_and_is_answered(batcher):
    begun, end = threading.Event(), threading.Event()

    def prepare(payloads, slow):
        if payloads == ["slow"]:
            begun.set()
            slow()
            assert end.wait(20)
        return payloads

    workers = start(batcher, prepare=prepare, spare=1)
    late = batcher.submit(["slow"], [1])
    assert begun.wait(20)
    assert [batcher.submit([f"{i}"], [1]).future.result(20) for i in range(5)] == [[f"{i}" * 2] for i in range(5)]
    assert not late.future.done()
    end.set()
    assert late.future.result(20) == ["slowslow"]
    batcher.close()
    assert workers.join(5)
