"""Writing step by step: rows are kept and given back, whatever goes on and whatever ends."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.nlp.writing import Limits, Prompt, Search, Writer

from .helpers import LIMITS, START, STOP, random_table, write


@pytest.mark.parametrize("search", [Search(max_length=9), Search(beam=4, max_length=9, results=4),
                                    Search(temperature=1.0, results=3, max_length=9)])  # fmt: skip
def test_with_rows_that_are_kept_the_same_is_written(search):
    prompts = ((), (3, 4), (5,))
    uncached = Search(**{**search.__dict__, "cached": False})
    assert write(random_table(), prompts, search) == write(random_table(), prompts, uncached)


def test_a_batch_writes_what_each_prompt_alone_does():
    search = Search(beam=3, results=3, max_length=8)
    together = write(random_table(), ((2,), (3, 4), ()), search)
    assert together == [write(random_table(), (p,), search)[0] for p in ((2,), (3, 4), ())]


def test_rows_that_nobody_sees_are_forgotten():
    """A prompt of hundreds of words ends at once; the other goes on for long, and still sees its own words."""
    long = tuple(2 + i % 4 for i in range(600))

    def table(seen):
        ends = len(seen) >= 600 and seen[:600] == list(long)
        logits = np.full(7, -9.0)
        logits[STOP if ends else 2 + len(seen) % 5] = 9.0
        return logits

    found = write(table, (long, (2,)), Search(max_length=700), Limits(START, STOP, 1))
    assert found[0][0].ids == long
    assert found[1][0].ids == (2, *(2 + i % 5 for i in range(1, 701)))


def test_a_prompt_is_kept_and_counts_for_no_score():
    (best,) = write(random_table(), ((5, 5),), Search(max_length=4, length_penalty=0.0))[0]
    assert best.ids[:2] == (5, 5) and len(best.ids) <= 6
    logits = [random_table()(list(best.ids[:k])) for k in range(2, len(best.ids))]
    if best.complete:
        logits.append(random_table()(list(best.ids)))
    chosen = [*best.ids[2:], *([STOP] if best.complete else [])]
    logs = [x[w] - np.log(np.exp(x).sum()) for x, w in zip(logits, chosen, strict=True)]
    assert best.score == pytest.approx(sum(logs), abs=1e-5)


def spelled(before, ids):
    return "".join("__cdefg"[i] for i in ids)


def test_a_stop_text_ends_a_result_and_is_no_part_of_it():
    def table(seen):
        logits = np.full(7, -9.0)
        logits[2 + len(seen) % 5] = 9.0
        return logits

    search = Search(max_length=50, stop=("ef", "zz"))
    writer = Writer([Prompt()], LIMITS, search)
    (best,) = write(table, search=search, continued=spelled)[0]
    assert best.complete and best.ids == (2, 3, 4, 5)
    assert writer.cut("cdef") == "cd" and writer.cut("cd") == "cd"


def test_a_stop_text_in_the_prompt_ends_nothing():
    search = Search(max_length=3, stop=("f",))
    (best,) = write(lambda seen: np.eye(7)[2] * 9, ((5,),), search, continued=spelled)[0]
    assert best.ids == (5, 2, 2, 2) and not best.complete


def test_what_has_no_room_is_refused_and_what_has_little_is_cut():
    with pytest.raises(DataError, match="prompt 0 has 7 words; the model has places for 6"):
        write(random_table(), ((2,) * 7,), limits=Limits(START, STOP, 1, length=8))
    (best,) = write(lambda seen: np.eye(7)[2] * 9, ((2,) * 3,), limits=Limits(START, STOP, 1, length=8))[0]
    assert len(best.ids) == 7 and not best.complete


def test_rows_of_no_word_are_never_written():
    found = write(lambda seen: np.arange(7), search=Search(max_length=3), limits=Limits(START, STOP, 1, words=5))
    assert found[0][0].ids == (4, 4, 4)


def test_no_numbers_are_an_error():
    with pytest.raises(DataError, match="no numbers"):
        write(lambda seen: np.full(7, np.nan))
