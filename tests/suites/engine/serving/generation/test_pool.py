"""PagePool: pages are never lost or given twice, and prefixes are shared."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import AttributeValueError
from suites.engine.serving.generation.pool import ROOT, PagePool, digest_of, root_of


def filled(pool, tokens):
    """Pages of a sequence, the full ones known."""
    pages = pool.find(tokens)
    taken = pool.take(-(-len(tokens) // pool.page) - len(pages))
    if taken is None:
        pool.release(pages)
        return None
    pages += taken
    digest = ROOT
    for k in range(len(tokens) // pool.page):
        digest = digest_of(digest, tokens[k * pool.page : (k + 1) * pool.page])
        pool.publish(pages[k], digest)
    return pages


def test_a_prefix_is_shared_and_its_last_token_never_is():
    pool = PagePool(8, 2)
    first = filled(pool, [1, 2, 3, 4, 5, 6])
    assert pool.find([1, 2, 3, 4, 5, 6]) == first[:2]
    assert pool.find([1, 2, 9, 4, 5]) == first[:1]
    assert pool.find([9, 2, 3, 4, 5]) == []
    assert pool.hits == 6


def test_the_same_page_behind_another_beginning_is_another():
    pool = PagePool(8, 2)
    filled(pool, [1, 2, 3, 4])
    assert pool.find([3, 4, 5]) == []


def test_what_nobody_uses_stays_until_it_is_needed_and_ends_go_first():
    pool = PagePool(3, 2)
    pages = filled(pool, [1, 2, 3, 4, 5])
    pool.release(pages)
    assert pool.available == 3
    taken = pool.take(2)  # the page that is not full, then the second
    again = pool.find([1, 2, 3, 4, 5])
    assert again == pages[:1] and pool.take(1) is None
    pool.release(taken)
    assert pool.available == 2


def test_a_source_is_there_as_a_whole_or_not_at_all():
    pool = PagePool(4, 2)
    pages = pool.take(3)
    pool.publish_source(pages, [1, 2, 3, 4, 5])
    assert pool.find_source([1, 2, 3, 4, 5]) == pages and pool.hits == 5
    assert pool.find_source([1, 2, 3, 4]) == pool.find_source([]) == []
    assert pool.find([1, 2, 3], root_of([1, 2, 3, 4, 5])) == []
    pool.release(pages)
    pool.release(pages)
    assert pool.count_source([1, 2, 3, 4, 5]) == (3, 3)
    taken = pool.take(2)  # the free one, and the source's last
    assert pool.find_source([1, 2, 3, 4, 5]) == [] and pool.available == 2
    pool.release(taken)


def test_a_page_cannot_be_released_twice():
    pool = PagePool(2, 2)
    pages = pool.take(1)
    pool.release(pages)
    with pytest.raises(AttributeValueError, match="nobody uses it"):
        pool.release(pages)
    with pytest.raises(AttributeValueError, match="0 pages"):
        PagePool(0, 16)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 3),
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 1), min_size=1, max_size=9)), max_size=40),
)
def test_pages_are_never_lost_and_hold_what_they_are_said_to(count, page, actions):
    pool, held, content = PagePool(count, page), [], {}
    for releases, tokens in actions:
        if releases and held:
            pool.release(held.pop(len(tokens) % len(held))[0])
            continue
        pages = filled(pool, tokens)
        if pages is None:
            assert pool.available < -(-len(tokens) // page)
            continue
        for k in range(len(tokens) // page):
            whole = tuple(tokens[: (k + 1) * page])
            users = sum(pages[k] in own for own, _ in held)
            if users:
                assert content[pages[k]] == whole  # nobody's page is written to while it is used
            content[pages[k]] = whole
        held.append((pages, tokens))
        used = {number for own, _ in held for number in own}
        assert pool.available == count - len(used)
        for own, words in held:
            assert all(content.get(own[k]) == tuple(words[: (k + 1) * page]) for k in range(len(words) // page))
    for pages, _ in held:
        pool.release(pages)
    assert pool.available == count
