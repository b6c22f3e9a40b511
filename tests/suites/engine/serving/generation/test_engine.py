"""Engine, with a model that counts: what requests get, in any company, and what becomes of those that are wrong."""

import queue
import threading
import time

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.engine.contract.capabilities.generating import Prompt, Sampling
from suites.engine.serving.errors import Broken, Closed, DeadlineExceeded, QueueFull, RequestError, TooLarge
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits, Wish

WORDS = 50


class Counting:
    """After token t comes t + 1; 49 ends a text, and 48 is no number.  It keeps its cache as an engine says."""

    context, stops, longest_source = 40, frozenset({49}), 0

    def __init__(self, pages=20, page=4):
        self.pages, self.page = pages, page
        self.cache = np.full(pages * page, -1)
        self.gate, self.steps, self.computed = threading.Semaphore(10**9), 0, 0

    def encode(self, text):
        return Prompt([int(word) for word in text.split()])

    def text(self, ids):
        return "".join(f"{number} " for number in ids)

    def chooser(self, sampling, number, prompt):
        if sampling.temperature < 0:
            raise AttributeValueError("Search: temperature is -1; it must be 0 or more")
        return Choosing(number)

    def step(self, arrays):
        self.gate.acquire()
        self.steps += 1
        self.computed += len(arrays["ids"])
        if (arrays["ids"] == 47).any():
            raise RuntimeError("a bug")
        for b, (begin, end) in enumerate(zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True)):
            places = np.arange(arrays["lengths"][b])
            rows = arrays["tables"][b][places // self.page] * self.page + places % self.page
            self.cache[rows[len(rows) - (end - begin) :]] = arrays["ids"][begin:end]
            whole = self.cache[rows]
            assert (whole == whole[0] + places).all(), whole  # what a sequence reads is its own
        scores = np.full((len(arrays["rows"]), WORDS), -10.0, np.float32)
        last = arrays["ids"][arrays["rows"]]
        scores[np.arange(len(last)), last + 1] = 0
        scores[last == 47 + 1] = np.nan
        return scores, np.zeros(len(last), np.float32)


class Repeating(Counting):
    """Writes the tokens of its source, then 49; 47 in a source is a bug."""

    longest_source, page = 20, 4

    def __init__(self, pages=40, page=4):
        super().__init__(pages, page)
        self.read_tokens = 0

    def read(self, source, pages):
        self.read_tokens += len(source)
        if 47 in source:
            raise RuntimeError("a bug")
        rows = self.rows(np.array(pages), len(source))
        self.cache[rows] = source

    def rows(self, pages, count):
        places = np.arange(count)
        return pages[places // self.page] * self.page + places % self.page

    def step(self, arrays):
        self.gate.acquire()
        self.computed += len(arrays["ids"])
        scores = np.full((len(arrays["rows"]), WORDS), -10.0, np.float32)
        for b, (begin, end) in enumerate(zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True)):
            rows = self.rows(arrays["tables"][b], arrays["lengths"][b])
            self.cache[rows[len(rows) - (end - begin) :]] = arrays["ids"][begin:end]
            source = self.cache[self.rows(arrays["source_tables"][b], arrays["source_lengths"][b])]
            written = self.cache[rows][1:]
            assert (written == source[: len(written)]).all()  # what it reads is its own, of both sides
            if end - 1 in arrays["rows"]:
                row = arrays["rows"].tolist().index(end - 1)
                scores[row, source[len(written)] if len(written) < len(source) else 49] = 0
        return scores, np.zeros(len(scores), np.float32)


@pytest.mark.parametrize("limits", [{"new_tokens": 0}, {"waiting": 0}, {"step_tokens": -1}, {"seconds": 0.0}])
def test_limits_with_which_nothing_could_be_written_are_refused(limits):
    with pytest.raises(
        AttributeValueError, match=f"EngineLimits: .*{next(iter(limits))} is {next(iter(limits.values())):g}"
    ):
        EngineLimits(**limits)


class Choosing:
    def __init__(self, number):
        self.number = number

    def choose(self, scores, total):
        if np.isnan(scores).any():
            raise DataError("the model gave no numbers (NaN)")
        return int(np.argmax(scores))


@pytest.fixture
def engine():
    made = []

    def make(generator=None, **limits):
        found = Engine(generator or Counting(), EngineLimits(**limits), lambda text: None)
        found.start()
        made.append(found)
        return found

    yield make
    for each in made:
        each.generator.gate.release(10**6)
        assert each.close(5)


class Told:
    """What a request is told."""

    def __init__(self, engine, prompt, source=(), **wish):
        self.pieces = queue.Queue()
        self.ticket = engine.submit(Wish(Prompt(prompt, list(source)), **wish), self.pieces.put)

    def result(self):
        """Text, tokens, and why it is done."""
        text = ""
        while True:
            piece = self.pieces.get(timeout=10)
            if piece.error:
                raise piece.error
            text += piece.text
            if piece.finish:
                return text, piece.tokens, piece.finish


def test_a_text_goes_on_until_its_end_or_its_length(engine):
    own = engine()
    assert Told(own, [3, 4], new_tokens=3).result() == ("5 6 7 ", 3, "length")
    assert Told(own, [44, 45, 46], new_tokens=1).result()[2] == "length"
    assert Told(own, [3, 4], new_tokens=9, stops=["7 8"]).result() == ("5 6 ", 4, "stop")
    assert Told(own, list(range(30))).result() == ("".join(f"{n} " for n in range(30, 40)), 10, "length")


def test_texts_are_the_same_alone_and_beside_others_when_pages_run_out(engine):
    own = engine(Counting(pages=8, page=2), sequences=6, step_tokens=5)
    asked = [[k, k + 1, k + 2] for k in range(20)]
    told = [Told(own, prompt, new_tokens=9, client=f"c{k % 3}") for k, prompt in enumerate(asked)]
    for prompt, each in zip(asked, told, strict=True):
        assert each.result() == ("".join(f"{prompt[-1] + n} " for n in range(1, 10)), 9, "length")
    assert own.pool.available == 8


def test_a_common_prefix_is_computed_once(engine):
    own = engine()
    first = Told(own, list(range(20)), new_tokens=1)
    first.result()
    before = own.generator.computed
    other = Told(own, list(range(21)), new_tokens=1)
    assert other.result()[0] == "21 "
    assert own.generator.computed - before == 1 and other.ticket.reused == 20


def test_texts_are_written_to_their_own_sources_when_pages_run_out(engine):
    own = engine(Repeating(pages=12), sequences=6, step_tokens=5)
    asked = [[k % 40, 1, *range(k % 15)] for k in range(30)]
    told = [Told(own, [0], source, client=f"c{k % 3}") for k, source in enumerate(asked)]
    for source, each in zip(asked, told, strict=True):
        assert each.result() == ("".join(f"{n} " for n in source), len(source) + 1, "stop")
    assert own.pool.available == 12


def test_a_source_is_read_once_and_what_was_written_to_another_is_not_shared(engine):
    own = engine(Repeating())
    source = list(range(10))
    assert Told(own, [0], source).result()[1] == 11
    again = Told(own, [0], source)
    assert again.result()[1] == 11 and own.generator.read_tokens == 10 and again.ticket.reused == 10
    both = Told(own, [0], [7, 8, 7], results=2)  # they come in with the same step
    texts = {0: "", 1: ""}
    left = 2
    while left:
        piece = both.pieces.get(timeout=10)
        texts[piece.number] += piece.text
        left -= piece.finish is not None
    assert texts == {0: "7 8 7 ", 1: "7 8 7 "} and own.generator.read_tokens == 13
    other = Told(own, [0, *range(9)], [*range(9), 30])
    assert other.result() == ("30 ", 2, "stop")
    assert own.generator.read_tokens == 23 and other.ticket.reused == 0


def test_a_source_that_cannot_be_read_fails_its_text_only(engine):
    own = engine(Repeating())
    bad, good = Told(own, [0], [47, 1]), Told(own, [0], [3, 4])
    with pytest.raises(Broken, match="reading a source failed: a bug"):
        bad.result()
    assert good.result()[0] == "3 4 " and own.pool.available == own.pool.size
    with pytest.raises(RequestError, match="has 21 tokens; the model reads 20 at most"):
        Told(own, [0], [1] * 21)
    with pytest.raises(TooLarge, match="the cache has room for 16"):
        Told(engine(Repeating(pages=4)), [0], [1] * 14)


def test_a_cancelled_text_frees_its_pages_and_ends_nobody_elses(engine):
    generator = Counting()
    generator.gate = threading.Semaphore(2)
    own = engine(generator)
    gone, stays = Told(own, [1], new_tokens=30), Told(own, [2], new_tokens=4)
    own.cancel(gone.ticket)
    generator.gate.release(100)
    assert stays.result() == ("3 4 5 6 ", 4, "length")
    assert own.pool.available == own.pool.size


def test_a_client_that_reads_nothing_keeps_nobody_waiting(engine):
    own = engine()
    slow = Told(own, [1], new_tokens=30)  # its pieces lie in its queue
    assert Told(own, [2], new_tokens=20).result()[1] == 20
    assert slow.result()[1] == 30


def test_numbers_that_are_none_fail_their_text_only(engine):
    own = engine()
    bad, good = Told(own, [48], new_tokens=5), Told(own, [3], new_tokens=5)
    with pytest.raises(Broken, match="NaN"):
        bad.result()
    assert good.result()[1] == 5
    assert own.pool.available == own.pool.size


def test_a_step_that_fails_fails_its_texts_and_the_next_is_written(engine):
    own = engine()
    with pytest.raises(Broken, match="a step of generation failed: a bug"):
        Told(own, [46, 47], new_tokens=5).result()
    assert Told(own, [3], new_tokens=2).result() == ("4 5 ", 2, "length")
    assert own.trouble() is None and own.pool.available == own.pool.size


def test_a_chooser_that_fails_fails_its_text_only(engine):
    own = engine()
    own.generator.chooser = lambda sampling, number, prompt: Choosing(number) if prompt[0] == 3 else None
    bad, good = Told(own, [4], new_tokens=2), Told(own, [3], new_tokens=2)
    with pytest.raises(Broken, match="choosing a token failed: 'NoneType'"):
        bad.result()
    assert good.result() == ("4 5 ", 2, "length") and own.trouble() is None


def test_whoever_waits_for_a_thread_that_dies_is_told_and_so_are_those_who_ask_later(engine):
    own = engine()
    own.generator.gate = threading.Semaphore(0)
    told = [Told(own, [k], new_tokens=2) for k in range(3)]
    own.on_step = lambda seconds: 1 / 0
    own.generator.gate.release(10**6)
    for each in told:
        with pytest.raises(Broken, match="the generation thread failed: division by zero"):
            each.result()
    with pytest.raises(Broken, match="the generation thread failed"):
        Told(own, [1])
    assert own.trouble() == "the generation thread failed: division by zero"


@pytest.mark.parametrize(
    ("wish", "error", "match"),
    [
        ({"prompt": [1] * 40}, RequestError, "the prompt has 40 tokens; the model has places for 40"),
        ({"prompt": [1], "new_tokens": 0}, RequestError, "max_tokens: is 0; it must lie between 1 and 30"),
        ({"prompt": [1], "new_tokens": 31}, RequestError, "max_tokens: is 31"),
        ({"prompt": [1], "results": 0}, RequestError, "n: is 0; it must lie between 1 and 16"),
        ({"prompt": [1], "results": 17}, RequestError, "n: is 17"),
        ({"prompt": [1], "stops": [""]}, RequestError, "stop: has an empty text"),
        ({"prompt": [1], "sampling": Sampling(-1.0)}, RequestError, "^temperature is -1"),
        ({"prompt": [1] * 11, "new_tokens": 2}, TooLarge, "the cache has room for 12"),
        ({"prompt": [1] * 12}, TooLarge, "has 12 tokens and the answer may have 1; the cache has room for 12"),
    ],
)
def test_what_cannot_be_written_is_refused(engine, wish, error, match):
    own = engine(Counting(pages=3), new_tokens=30)
    with pytest.raises(error, match=match):
        own.submit(Wish(**{**wish, "prompt": Prompt(wish["prompt"])}), lambda piece: None)


def test_a_thousand_requests_with_one_page_wait_or_are_turned_away(engine):
    generator = Counting(pages=1)
    generator.gate = threading.Semaphore(0)
    own, told = engine(generator, waiting=100), []
    with pytest.raises(QueueFull, match="100 texts wait") as refused:
        for _ in range(1000):
            told.append(Told(own, [1, 2], new_tokens=2))
    assert refused.value.retry_after == 1 and 100 <= len(told) <= 101
    generator.gate.release(10**6)
    assert {each.result() for each in told} == {("3 4 ", 2, "length")}


def test_a_late_text_is_told_so(engine):
    own = engine(Counting(), seconds=1e-9)
    with pytest.raises(DeadlineExceeded, match="not written within 0 s"):
        Told(own, [1], new_tokens=30).result()


def test_an_engine_that_ends_finishes_what_it_took(engine):
    own = engine()
    told = Told(own, [1], new_tokens=30)
    assert own.close(10)
    assert told.result()[1] == 30
    with pytest.raises(Closed):
        Told(own, [1])


def test_clients_take_turns(engine):
    generator = Counting(pages=100)
    generator.gate = threading.Semaphore(0)
    own = engine(generator, sequences=1)
    order = []
    for k in range(6):
        own.submit(Wish(Prompt([1]), 3, client="many"), lambda piece, k=k: piece.finish and order.append(f"many {k}"))
    own.submit(Wish(Prompt([1]), 3, client="one"), lambda piece: piece.finish and order.append("one"))
    generator.gate.release(10**6)
    deadline = time.monotonic() + 10
    while len(order) < 7 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert order.index("one") <= 1
