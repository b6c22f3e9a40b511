"""Which words may be drawn, and how often they are."""

import itertools

import numpy as np
import pytest

from suites.nlp.writing import Search
from suites.nlp.writing.choosing import filtered

from .helpers import STOP, random_table, write

LOGS = np.log(np.array([0.1, 0.4, 0.3, 0.15, 0.05]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, [1, 2, 3, 0, 4]),
        ({"top_k": 2}, [1, 2]),
        ({"top_p": 0.0}, [1]),
        ({"top_p": 0.5}, [1, 2]),
        ({"top_p": 0.75}, [1, 2, 3]),
        ({"top_p": 1.0}, [1, 2, 3, 0, 4]),
        ({"min_p": 0.3}, [1, 2, 3]),
        ({"min_p": 1.0}, [1]),
        ({"top_k": 3, "top_p": 0.99, "min_p": 0.5}, [1, 2]),
    ],
)
def test_words_that_may_be_drawn(settings, words):
    found, chances = filtered(LOGS, Search(temperature=1.0, **settings))
    assert found.tolist() == words
    np.testing.assert_allclose(chances, np.exp(LOGS)[words] / np.exp(LOGS)[words].sum(), rtol=1e-12)


def test_a_low_temperature_takes_the_likeliest_and_a_high_one_any():
    assert filtered(LOGS, Search(temperature=1e-3))[1][0] == pytest.approx(1.0)
    np.testing.assert_allclose(filtered(LOGS, Search(temperature=1e6))[1], 0.2, rtol=1e-5)


def test_what_is_drawn_has_the_words_probabilities():
    logits = np.array([-99.0, -99.0, 0.0, 1.0, 2.0])
    found = write(lambda seen: logits, search=Search(temperature=1.0, results=4000, max_length=1))
    counts = np.bincount([h.ids[0] for h in found[0]], minlength=5)
    expected = np.exp(logits) / np.exp(logits).sum()
    # 5 standard deviations of a count of 4,000 draws
    assert np.abs(counts / 4000 - expected).max() < 5 * np.sqrt(0.25 / 4000)


def test_a_seed_gives_the_same_again_whatever_else_is_written():
    search = Search(temperature=1.0, max_length=20, seed=3)
    alone = write(random_table(), ((4,),), search)[0]
    assert write(random_table(), ((2, 3), (4,), ()), search)[1] == alone
    other = Search(temperature=1.0, max_length=20, seed=4)
    assert write(random_table(), ((4,),), other)[0] != alone


def test_repeated_words_become_less_likely():
    flat = np.array([-99.0, -9.0, 1.0, 0.9, 0.8])
    (best,) = write(lambda seen: flat, search=Search(max_length=3, repetition_penalty=2.0))[0]
    assert best.ids == (2, 3, 4)
    (plain,) = write(lambda seen: flat, search=Search(max_length=3))[0]
    assert plain.ids == (2, 2, 2)


def test_a_wide_beam_finds_the_best_of_all():
    table = random_table(words=5)
    search = Search(beam=64, results=5, max_length=3, length_penalty=0.0)
    found = [h for h in write(table, search=search)[0] if h.complete]

    def score(ids):
        logits = [table(list(ids[:k])) for k in range(len(ids) + 1)]
        return sum(x[w] - np.log(np.exp(x).sum()) for x, w in zip(logits, [*ids, STOP], strict=True))

    every = [ids for n in range(4) for ids in itertools.product((0, 2, 3, 4), repeat=n)]
    best = sorted(every, key=score, reverse=True)
    assert [h.ids for h in found] == best[: len(found)] and found


def test_at_the_longest_length_all_hypotheses_end_with_their_own_scores():
    """The best one's next word may be any of many, and so none of the likeliest of all."""

    def table(seen):
        if not seen:
            return np.log([1e-9, 1e-9, 0.6, 0.4, 1e-9, 1e-9, 1e-9])
        return np.zeros(7) if seen[0] == 2 else np.log([1e-9, 1e-9, 0.5, 0.5, 1e-9, 1e-9, 1e-9])

    found = write(table, search=Search(beam=2, max_length=1, length_penalty=0.0, results=2))[0]
    assert [h.ids for h in found] == [(2,), (3,)] and not any(h.complete for h in found)
    assert [h.score for h in found] == pytest.approx(np.log([0.6, 0.4]), abs=1e-5)
