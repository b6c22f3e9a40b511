"""Beams in the engine: hypotheses share pages and part, and write what one request alone does, with few pages too."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from framework.errors import DataError
from suites.engine.contract.capabilities.generating import Prompt, Sampling
from suites.engine.serving.errors import Broken, RequestError, TooLarge
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits, Wish
from tests.waiting import until

WORDS, END = 12, 11


def scores_after(tokens):
    """Log-probabilities of what follows, of all tokens before: whoever reads a wrong page gets others."""
    seed = [len(tokens), *(int(token) for token in tokens)]
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(WORDS))).astype(np.float32)


class Widest:
    """The likeliest hypotheses; one that ends is a result."""

    def __init__(self, width, results, room):
        self.width, self.count, self.room, self.live, self.done = width, results, room, [((), 0.0)], []

    def advance(self, scores, totals):
        if np.isnan(scores).any():
            raise DataError("the model gave no numbers (NaN)")
        assert len(scores) == len(self.live)
        sums = scores + np.array([[score] for _, score in self.live], np.float32)
        found = [(float(sums[at, t]), at, t) for at in range(len(sums)) for t in range(WORDS)]
        going, before = [], self.live
        for score, at, token in sorted(found, key=lambda each: (-each[0], each[1:]))[: 2 * self.width]:
            if token == END or len(before[at][0]) == self.room:
                self.done.append((before[at][0], token == END, score))
            elif len(going) < self.width:
                going.append((at, token, score))
        self.live = [((*before[at][0], token), score) for at, token, score in going]
        ended = len(self.done) >= self.width
        return [] if ended else [(at, token) for at, token, _ in going]

    def results(self):
        return [(ids, ended) for ids, ended, _ in sorted(self.done, key=lambda each: -each[2])[: self.count]]


class Branching:
    """A model whose scores depend on all tokens of its cache and of its source's; 99 in a prompt is no number."""

    context, stops = 24, frozenset({END})

    def __init__(self, pages=40, page=4, source=0):
        self.pages, self.page, self.longest_source = pages, page, source
        self.cache = np.full((pages, page), -1)
        self.gate, self.copied, self.computed, self.copies_fail = threading.Semaphore(10**9), 0, 0, False

    def text(self, ids):
        return "".join(f"{number} " for number in ids)

    def beams(self, sampling, results, prompt, room, stops):
        return Widest(sampling.beam, results, room)

    def copy(self, pages, to):
        if self.copies_fail:
            raise RuntimeError("a bug")
        self.copied += len(pages)
        self.cache[list(to)] = self.cache[list(pages)]

    def read(self, source, pages):
        flat = np.full(len(pages) * self.page, -1)
        flat[: len(source)] = source
        self.cache[list(pages)] = flat.reshape(-1, self.page)

    def step(self, arrays):
        self.gate.acquire()
        self.computed += len(arrays["ids"])
        rows = arrays["rows"].tolist()
        scores = np.zeros((len(rows), WORDS), np.float32)
        for b, (begin, end) in enumerate(zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True)):
            length, table = arrays["lengths"][b], arrays["tables"][b]
            for place, token in zip(range(length - (end - begin), length), arrays["ids"][begin:end], strict=True):
                self.cache[table[place // self.page], place % self.page] = token
            tokens = self.cache[table].ravel()[:length].tolist()
            if self.longest_source:
                tokens = self.cache[arrays["source_tables"][b]].ravel()[: arrays["source_lengths"][b]].tolist() + tokens
            if end - 1 in rows:
                scores[rows.index(end - 1)] = np.nan if 99 in tokens else scores_after(tokens)
        return scores, np.zeros(len(rows), np.float32)


def alone(prompt, width, results, room, source=()):
    """What beams write without an engine."""
    chooser, live = Widest(width, results, room), [()]
    while True:
        scores = np.stack([scores_after([*source, *prompt, *ids]) for ids in live])
        going = chooser.advance(scores, np.zeros(len(live)))
        if not going:
            return chooser.results()
        live = [(*live[at], token) for at, token in going]


@pytest.fixture
def engine():
    made = []

    def make(generator, **limits):
        found = Engine(generator, EngineLimits(**limits), lambda text: None)
        found.start()
        made.append(found)
        return found

    yield make
    for each in made:
        assert each.close(10)


def ask(engine, prompt, width, results, room, source=(), client=""):
    pieces, done = {}, threading.Semaphore(0)

    def deliver(piece):
        pieces[piece.number] = piece
        done.release()

    wish = Wish(Prompt(list(prompt), list(source)), room, results, Sampling(0.0, beam=width), (), client)
    ticket = engine.submit(wish, deliver)
    for _ in range(results):
        assert done.acquire(timeout=30)
    assert ticket.reused >= 0
    for piece in pieces.values():
        if piece.error is not None:
            raise piece.error
    return [(pieces[number].text, pieces[number].finish, pieces[number].tokens) for number in range(results)]


def told(found):
    return [("".join(f"{n} " for n in ids), "stop" if ended else "length", len(ids) + ended) for ids, ended in found]


PROMPTS = [[1 + k % 7, k % 5, *range(k % 6)] for k in range(12)]


@pytest.mark.parametrize(("pages", "page", "source"), [(60, 4, 0), (24, 4, 0), (14, 4, 6), (44, 1, 0), (24, 2, 6)])
def test_texts_are_those_of_one_request_alone_when_pages_run_out_too(engine, pages, page, source):
    generator = Branching(pages, page, source)
    generator.gate = threading.Semaphore(0)
    own = engine(generator, sequences=15, step_tokens=12)
    sources = [tuple(range(1 + k % source)) if source else () for k in range(len(PROMPTS))]
    expected = [told(alone(p, 3, 2, 7, s)) for p, s in zip(PROMPTS, sources, strict=True)]
    with ThreadPoolExecutor(len(PROMPTS)) as threads:
        asked = [threads.submit(ask, own, p, 3, 2, 7, s, f"c{k % 3}")
                 for k, (p, s) in enumerate(zip(PROMPTS, sources, strict=True))]  # fmt: skip
        until(lambda: own.scheduler.running + own.scheduler.waiting + len(own._new) == len(PROMPTS))
        generator.gate.release(10**6)
        assert [each.result() for each in asked] == expected
    assert own.pool.available == pages and own.scheduler.running == own.scheduler.waiting == 0


def test_a_common_beginning_is_computed_once_and_a_page_is_copied_where_hypotheses_part(engine):
    generator = Branching(page=4)
    own = engine(generator, sequences=4)
    prompt = [1, 2, 3, 4, 5, 6]
    ask(own, prompt, 4, 1, 1)
    assert generator.computed <= len(prompt) + 4 and generator.copied == 3  # the first page is shared
    whole = Branching(page=2)
    ask(engine(whole, sequences=4), prompt, 4, 1, 1)
    assert whole.copied == 0  # all pages are full where they part


def test_numbers_that_are_none_and_copies_that_fail_end_their_text_only(engine):
    own = engine(Branching())
    with pytest.raises(Broken, match="NaN"):
        ask(own, [99], 3, 2, 5)
    own.generator.copies_fail = True
    with pytest.raises(Broken, match="copying pages failed: a bug"):
        ask(own, [1, 2], 3, 2, 5)
    own.generator.copies_fail = False
    assert ask(own, [1, 2], 3, 2, 5) == told(alone([1, 2], 3, 2, 5))
    assert own.pool.available == own.pool.size


def test_a_cancelled_text_frees_the_pages_of_all_hypotheses(engine):
    generator = Branching()
    generator.gate = threading.Semaphore(3)
    own = engine(generator)
    ticket = own.submit(Wish(Prompt([1, 2, 3]), 12, 1, Sampling(0.0, beam=4)), lambda piece: None)
    own.cancel(ticket)
    generator.gate.release(10**6)
    assert ask(own, [1, 2], 3, 2, 5) == told(alone([1, 2], 3, 2, 5))
    assert own.pool.available == own.pool.size and own.scheduler.running == 0


@pytest.mark.parametrize(
    ("width", "results", "error", "match"),
    [
        (5, 1, RequestError, "beam: is 5; it must lie between 1 and 4"),
        (0, 1, RequestError, "beam: is 0"),
        (2, 3, RequestError, "n: is 3; a beam of 2 gives 2 texts at most"),
        (4, 1, TooLarge, "may have 7, 4 times; the cache has room for 24"),
    ],
)
def test_beams_that_cannot_be_are_refused(engine, width, results, error, match):
    own = engine(Branching(pages=6), sequences=4)
    with pytest.raises(error, match=match):
        own.submit(Wish(Prompt([1, 2]), 7, results, Sampling(0.0, beam=width)), lambda piece: None)


def test_fewer_texts_than_were_asked_for_are_told(engine):
    class Few(Widest):
        def results(self):
            return super().results()[:1]

    generator = Branching()
    generator.beams = lambda sampling, results, prompt, room, stops: Few(sampling.beam, results, room)
    with pytest.raises(RequestError, match="n: is 2, but there are 1 different texts"):
        ask(engine(generator), [1, 2], 2, 2, 3)
