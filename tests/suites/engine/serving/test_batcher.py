"""The queue: batches within their budget, fair order, nothing lost, nothing unbounded."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import AttributeValueError, DataError
from suites.engine.serving.batcher import Batcher, Limits
from suites.engine.serving.errors import Cancelled, Closed, DeadlineExceeded, QueueFull


class Clock:
    """Seconds that pass when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make(**limits):
    clock = Clock()
    return Batcher(Limits(**limits), clock), clock


def payloads(batch):
    return [entry.payload for entry in batch]


def answer(batcher, batch, seconds=0.01):
    batcher.finish(batch, [entry.payload.upper() for entry in batch], seconds)


def test_a_batch_stays_within_its_cost_and_its_items():
    batcher, _ = make(max_cost=10, max_items=3)
    batcher.submit("abcd", [4, 4, 4, 1])
    batcher.submit("xyz", [1, 1, 1])
    batches = [batcher.take() for _ in range(3)]
    assert [payloads(batch) for batch in batches] == [["x", "y", "z"], ["a", "b"], ["c", "d"]]


def test_an_item_over_the_budget_goes_alone():
    batcher, _ = make(max_cost=10)
    batcher.submit("a", [50])
    batcher.submit("b", [1])
    assert sorted(payloads(batcher.take()) + payloads(batcher.take())) == ["a", "b"]


def test_results_come_back_in_the_order_of_the_items():
    batcher, _ = make(max_items=2)
    ticket = batcher.submit("abcde", [1] * 5)
    batches = [batcher.take() for _ in range(3)]
    for batch in reversed(batches):
        answer(batcher, batch)
    assert ticket.future.result(0) == list("ABCDE")


def test_a_short_request_overtakes_the_tail_of_a_long_one_but_not_what_came_long_before():
    batcher, clock = make(max_items=1)
    batcher.submit([f"long{i}" for i in range(10)], [5000] * 10)  # 5 s alone, at the assumed rate
    clock.now += 0.6
    batcher.submit(["short"], [10])
    assert [payloads(batcher.take())[0] for _ in range(4)] == ["long0", "short", "long1", "long2"]


def test_nobody_starves_while_short_requests_keep_coming():
    batcher, clock = make(max_items=1)
    batcher.submit(["long"], [20000])  # 2 s alone
    taken = []
    for _ in range(100):
        batcher.submit(["short"], [100])
        taken += payloads(batcher.take())
        clock.now += 0.05
    assert taken.index("long") == pytest.approx(2 / 0.05, abs=2)


def test_a_batch_that_is_not_full_waits_as_long_as_allowed():
    batcher = Batcher(Limits(max_items=2, max_wait=30.0))
    start = time.monotonic()
    batcher.submit(["a"], [1])
    threading.Timer(0.03, lambda: batcher.submit(["b"], [1])).start()
    assert payloads(batcher.take()) == ["a", "b"]
    assert time.monotonic() - start < 20  # full, so it went at once
    batcher = Batcher(Limits(max_items=2, max_wait=0.1))
    start = time.monotonic()
    batcher.submit(["c"], [1])
    assert payloads(batcher.take()) == ["c"]
    assert time.monotonic() - start >= 0.1


def test_a_full_queue_says_when_to_come_back():
    batcher, _ = make(max_queue=3)
    batcher.submit("ab", [30000, 30000])
    with pytest.raises(QueueFull, match=r"2 items wait, 2 more are over its limit of 3; try again in 6 s") as caught:
        batcher.submit("cd", [1, 1])
    assert caught.value.retry_after == 6 and caught.value.status == 503
    batcher.submit("c", [1])


def test_a_cancelled_request_leaves_the_queue():
    batcher, _ = make(max_queue=2)
    ticket = batcher.submit("ab", [1, 1])
    batcher.cancel(ticket)
    assert batcher.waiting == 0
    batcher.submit("cd", [1, 1])
    assert payloads(batcher.take()) == ["c", "d"]
    with pytest.raises(Cancelled):
        ticket.future.result(0)


def test_cancelled_items_do_not_pile_up():
    batcher, _ = make()
    batcher.submit(["first"], [1])
    for _ in range(1000):
        batcher.cancel(batcher.submit(["late"], [10**6]))
    assert len(batcher._heap) < 100


def test_an_item_whose_time_is_over_is_not_run():
    batcher, clock = make()
    late = batcher.submit("a", [1], timeout=1.0)
    batcher.submit("b", [1], timeout=9.0)
    clock.now += 2
    assert payloads(batcher.take()) == ["b"]
    with pytest.raises(DeadlineExceeded, match=r"no worker was free for 2\.0 s"):
        late.future.result(0)


def test_a_failed_item_fails_its_own_request_only_and_the_rest_of_it_is_dropped():
    batcher, _ = make(max_items=2)
    bad = batcher.submit("pqr", [1, 1, 1])
    good = batcher.submit("g", [1])
    first = batcher.take()
    batcher.finish(first, [DataError("p is bad") if e.payload == "p" else e.payload.upper() for e in first], 0.1)
    while batcher.waiting:
        batch = batcher.take()
        assert payloads(batch) == ["g"]
        answer(batcher, batch)
    assert good.future.result(0) == ["G"]
    with pytest.raises(DataError, match="p is bad"):
        bad.future.result(0)


def test_items_that_go_alone_share_no_batch():
    batcher, clock = make()
    batcher.submit("a", [1])
    clock.now += 1
    batcher.submit("R", [1], alone=True)
    clock.now += 1
    batcher.submit("b", [1])
    assert [payloads(batcher.take()) for _ in range(3)] == [["a"], ["R"], ["b"]]


def test_closing_finishes_what_waits_and_takes_nothing_new():
    batcher, _ = make(max_wait=50.0)
    batcher.submit("a", [1])
    batcher.close()
    with pytest.raises(Closed):
        batcher.submit("b", [1])
    assert payloads(batcher.take()) == ["a"]
    assert batcher.take() is None


def test_a_request_without_items_is_answered_at_once():
    assert make()[0].submit([], []).future.result(0) == []


@pytest.mark.parametrize("wrong", [{"max_cost": 0}, {"max_items": 0}, {"max_queue": -1}, {"max_wait": -1.0}])
def test_limits_out_of_range_are_refused(wrong):
    with pytest.raises(AttributeValueError, match=next(iter(wrong))):
        Limits(**wrong)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.booleans()), max_size=12))
def test_every_item_is_taken_exactly_once_unless_its_request_was_cancelled(requests):
    batcher, clock = make(max_cost=40, max_items=4)
    tickets = []
    for number, (costs, cancelled) in enumerate(requests):
        clock.now += 0.001
        tickets.append(batcher.submit([f"r{number}.{i}" for i in range(len(costs))], costs))
        if cancelled:
            batcher.cancel(tickets[-1])
    batcher.close()
    taken = []
    while (batch := batcher.take()) is not None:
        assert len(batch) <= 4 and (len(batch) == 1 or sum(entry.cost for entry in batch) <= 40)
        taken += payloads(batch)
        answer(batcher, batch)
    expected = [
        f"r{n}.{i}" for n, (costs, cancelled) in enumerate(requests) if not cancelled for i in range(len(costs))
    ]
    assert sorted(taken) == sorted(expected) and batcher.waiting == batcher.waiting_cost == 0
    assert all(ticket.future.done() for ticket in tickets)
