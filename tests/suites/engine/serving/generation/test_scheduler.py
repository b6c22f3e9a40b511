"""Scheduler, with a step that writes what it was told: all sequences end, whatever pages and clients there are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import AttributeValueError
from suites.engine.serving.generation.pool import PagePool
from suites.engine.serving.generation.scheduler import Scheduler, Sequence


def scheduler(pages=64, page=4, **limits):
    return Scheduler(PagePool(pages, page), **limits)


def step(own, cells=None, ends=lambda sequence: False):
    """Compute what is planned: a page's cells hold the source and the sequence's tokens so far.  Returns the parts."""
    parts = own.plan()
    for part in parts:
        s, page = part.sequence, own.pool.page
        if not own.has_read(s):
            if cells is not None:
                cells.update({(s.source_pages[t // page], t % page): (t, *s.source) for t in range(len(s.source))})
            own.read(s)
        assert part.begin == s.computed < part.end <= len(s.tokens) and len(s.pages) * page >= part.end
        for t in range(part.begin, part.end):
            if cells is not None:
                cells[s.pages[t // page], t % page] = (tuple(s.source), *s.tokens[: t + 1])
    if cells is not None:
        for part in parts:
            s, page = part.sequence, own.pool.page
            for t in range(part.end):  # what attention would read is its own
                assert cells[s.pages[t // page], t % page] == (tuple(s.source), *s.tokens[: t + 1])
            for t in range(len(s.source)):
                assert cells[s.source_pages[t // page], t % page] == (t, *s.source)
    own.done(parts)
    for part in parts:
        if part.asks:
            part.sequence.tokens.append(100 + len(part.sequence.tokens))
            if len(part.sequence.tokens) >= part.sequence.most or ends(part.sequence):
                own.remove(part.sequence)
    return parts


def test_prompts_come_in_parts_and_do_not_hold_back_those_that_write():
    own = scheduler(tokens=8)
    first, second = Sequence("a", [1, 2], 20), Sequence("b", list(range(30)), 40)
    own.add(first)
    step(own)
    own.add(second)
    parts = [{part.sequence.client: (part.begin, part.end) for part in step(own)} for _ in range(5)]
    assert parts == [
        {"a": (2, 3), "b": (0, 7)},
        {"a": (3, 4), "b": (7, 14)},
        {"a": (4, 5), "b": (14, 21)},
        {"a": (5, 6), "b": (21, 28)},
        {"a": (6, 7), "b": (28, 30)},
    ]


def test_a_common_prefix_is_computed_once():
    own, prefix = scheduler(pages=600, tokens=2000), list(range(1000))
    own.add(Sequence("a", [*prefix, 7], 1010))
    step(own)
    others = [Sequence(name, [*prefix, 8, k], 1010) for k, name in enumerate("bcd")]
    for each in others:
        own.add(each)
    parts = [part for part in step(own) if part.sequence in others]
    assert [(part.begin, part.end) for part in parts] == [(1000, 1002)] * 3
    assert [each.reused for each in others] == [1000] * 3


def test_a_source_is_read_once_and_has_its_own_continuations():
    own, cells = scheduler(pages=20, page=2), {}
    first = Sequence("a", [1, 2, 3], 5, [7, 8, 9])
    own.add(first)
    step(own, cells)
    pages = list(first.source_pages)
    same, other = Sequence("b", [1, 2, 3], 5, [7, 8, 9]), Sequence("b", [1, 2, 3], 5, [7, 8])
    own.add(same)
    own.add(other)
    step(own, cells)
    assert same.source_pages == pages and same.reused == 3 + 2 and other.reused == 0
    while own.running:
        step(own, cells)
    assert own.pool.available == 20


def test_sources_count_among_the_tokens_of_a_step():
    own = scheduler(tokens=10)
    for k in range(5):
        own.add(Sequence("a", [1], 5, [k] * 6))
    assert [len(step(own)) for _ in range(4)] == [2, 4, 5, 5]  # a source more as long as there is room


def test_when_pages_run_out_the_last_one_waits_and_goes_on_later():
    own, cells = scheduler(pages=4, page=2), {}
    first, second = Sequence("a", [1, 2], 8), Sequence("b", [5, 6], 8)
    own.add(first)
    own.add(second)
    seen = []
    while own.running or own.waiting:
        step(own, cells)
        seen.append((own.running, own.waiting))
    assert (1, 1) in seen and first.tokens[2:] == second.tokens[2:] == [102, 103, 104, 105, 106, 107]
    assert own.pool.available == 4


def test_a_client_with_many_requests_does_not_keep_another_waiting():
    own = scheduler(sequences=2)
    for _ in range(50):
        own.add(Sequence("greedy", [1, 2, 3], 9))
    for _ in range(12):
        step(own)
    late = Sequence("late", [4, 5, 6], 9)
    own.add(late)
    for _ in range(14):
        step(own)
    assert len(late.tokens) == 9 and own.waiting > 30


def test_what_is_removed_gives_its_pages_back_while_it_writes_or_waits():
    own = scheduler(pages=4, page=2, sequences=1)
    first, second = Sequence("a", [1, 2, 3], 8), Sequence("a", [4], 8)
    own.add(first)
    own.add(second)
    step(own)
    own.remove(first)
    own.remove(first)
    assert own.pool.available == 4 and own.running == 0
    own.remove(second)
    assert (own.waiting, own.plan()) == (0, [])


def test_siblings_share_pages_come_in_and_leave_together():
    pool = PagePool(8, 2)
    scheduler = Scheduler(pool, sequences=4)
    first = Sequence("a", [1, 2, 3], 6, width=2)
    scheduler.add(first)
    scheduler.done(scheduler.plan())
    other, copied = scheduler.fork(first, [1, 2, 3, 9])
    assert other.pages[0] == first.pages[0] and copied == (first.pages[1], other.pages[1])
    first.tokens.append(4)
    assert [(part.sequence, part.begin, part.end) for part in scheduler.plan()] == [(first, 3, 4), (other, 3, 4)]
    wide = Sequence("b", [5] * 3, 8)
    scheduler.add(wide)
    scheduler.plan()
    held = pool.take(pool.available)  # no page is left, and `wide` came last
    scheduler.done(scheduler.plan())
    first.tokens.append(5)
    scheduler.plan()
    assert scheduler.running == 2 and scheduler.waiting == 1
    scheduler.remove(first)
    scheduler.remove(other)
    scheduler.remove(wide)
    pool.release(held)
    assert pool.available == pool.size and scheduler.running == scheduler.waiting == 0


def test_a_sibling_without_a_page_to_copy_computes_its_end_again():
    pool = PagePool(2, 2)
    scheduler = Scheduler(pool)
    first = Sequence("a", [1, 2, 3], 4)
    scheduler.add(first)
    scheduler.done(scheduler.plan())
    other, copied = scheduler.fork(first, [1, 2, 3, 9])
    assert copied is None and other.pages == first.pages[:1] and other.computed == 2


def test_siblings_that_never_have_room_are_refused():
    scheduler = Scheduler(PagePool(8, 2), sequences=2)
    with pytest.raises(AttributeValueError, match="do not fit into 8 pages of 2 as 2 siblings"):
        scheduler.add(Sequence("a", [1], 10, width=2))
    with pytest.raises(AttributeValueError, match="a text of 3 siblings; 2 sequences write at the same time"):
        scheduler.add(Sequence("a", [1], 4, width=3))


def test_a_sequence_that_never_has_room_is_refused():
    own = scheduler(pages=2, page=4)
    with pytest.raises(AttributeValueError, match="grows to 9, and a source of 0, do not fit"):
        own.add(Sequence("a", [1], 9))
    with pytest.raises(AttributeValueError, match="a sequence of 0 tokens"):
        own.add(Sequence("a", [], 4))
    with pytest.raises(AttributeValueError, match="0 tokens and 1 sequences"):
        scheduler(tokens=0, sequences=1)


def test_a_thousand_requests_with_one_page_come_one_by_one():
    own = scheduler(pages=1, page=4)
    for k in range(1000):
        own.add(Sequence(f"client {k % 7}", [k], 3))
    steps = 0
    while own.running or own.waiting:
        step(own)
        steps += 1
        assert own.running <= 1
    assert steps <= 2000 and own.pool.available == 1


@settings(max_examples=150, deadline=None)
@given(
    st.integers(3, 10),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 1), min_size=1, max_size=6),
                       st.integers(1, 6), st.integers(0, 40), st.lists(st.integers(0, 1), max_size=5)), max_size=14),
)  # fmt: skip
def test_every_sequence_ends_and_reads_only_its_own_tokens(pages, page, tokens, sequences, asked):
    own, cells, all_, cancelled = scheduler(pages, page, tokens=tokens, sequences=sequences), {}, [], {}
    for client, prompt, more, cancel, source in asked:
        sequence = Sequence(client, list(prompt), len(prompt) + more, source)
        if not own.fits(sequence.most, len(source)):
            continue
        own.add(sequence)
        all_.append(sequence)
        if cancel % 3 == 0:
            cancelled[id(sequence)] = cancel
    for count in range(3000):
        for sequence in all_:
            if cancelled.get(id(sequence)) == count:
                own.remove(sequence)
        if not own.running and not own.waiting:
            break
        assert step(own, cells) or not own.running
    assert own.pool.available == pages and not own.waiting
    assert all(len(s.tokens) == s.most for s in all_ if id(s) not in cancelled)
