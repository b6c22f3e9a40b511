"""A stop text ends the same text in one answer, in a stream, beside others and with beams, whatever its tokens are."""

import numpy as np
import pytest

from suites.engine.serving.generation.texts import Growing
from suites.nlp.writing import Limits, Prompt, Search, Writer
from suites.nlp.writing.sampling import BeamSearch
from suites.nlp.writing.stops import StopTexts
from tests.suites.nlp.test_continued import TEXTS, TOKENIZERS

PROMPTS = ("", "a", "a small ", "the cat  ")
LONGEST = 60


@pytest.fixture(scope="module", params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


def scores_of(tokenizer, wanted, n=1):
    """Log-probabilities [n, V] of which that of one word is the largest by far."""
    scores = np.full((n, len(tokenizer.vocabulary)), -20.0, np.float32)
    scores[:, wanted] = -1e-6
    return scores


def written(tokenizer, before, texts, stops, **search):
    """What a `Writer` writes to prompts side by side: of each its text, its words and whether it ended by itself."""
    start, stop = before[0], tokenizer.closing
    how = Search(max_length=LONGEST, stop=tuple(stops), cached=False, **search)
    writer = Writer([Prompt(tuple(before[1:])) for _ in texts], Limits(start, stop, past=1), how, tokenizer.continued)
    while writer.batch() is not None:
        rows = []
        for live in writer._chooser.live:
            ids, at = texts[live.text], len(live.ids) - len(before) + 1
            rows.append(scores_of(tokenizer, ids[at] if at < len(ids) else stop)[0])
        writer.take({"scores": np.stack(rows), "totals": np.zeros(len(rows))})
    found = []
    for (best, *_), own in zip(writer.results(), writer.before, strict=True):
        ids = best.ids[len(before) - 1 :]
        found.append((writer.cut(tokenizer.continued(own, ids)), len(ids), best.complete))
    return found


def streamed(tokenizer, before, ids, stops):
    """What a server tells of one text in pieces."""
    growing, told, count = Growing(tokenizer.text, stops, before), "", 0
    for token in ids:
        told, count = told + growing.add(token), count + 1
        if growing.stopped:
            return told, count, True
    return told + growing.end(), count, True


def with_beams(tokenizer, before, ids, stops):
    """What a server writes by beams."""
    texts = StopTexts(stops, tokenizer.continued)
    beams = BeamSearch(Search(beam=2), before, tokenizer.closing, LONGEST, texts, before)
    going = [(0, 0)]
    seen = [()]
    while going:
        rows = [scores_of(tokenizer, ids[len(own)] if len(own) < len(ids) else tokenizer.closing)[0] for own in seen]
        going = beams.advance(np.stack(rows), np.zeros(len(rows)))
        seen = [(*seen[row], word) for row, word in going]
    best, complete = beams.results()[0]
    told, count, _ = streamed(tokenizer, before, best, stops)
    return told, count, complete


def some_stops(rng, text):
    """Parts of a text: with the space before a word, inside of each other, the whole, and what is not there."""
    found = [text, text[:1], "never there", "\u6f22", "\U0001f44d"]
    for _ in range(3):
        at = int(rng.integers(len(text)))
        part = text[at : at + int(rng.integers(1, 7))]
        found += [part, part[1:], f" {part}", part[:-1]]
    spaces = [at for at, letter in enumerate(text) if letter == " "]
    found += [text[at : at + 3] for at in spaces[:2]]
    return [each for each in found if each]


def test_a_stop_text_ends_the_same_text_everywhere(tokenizer):
    rng = np.random.default_rng(0)
    opening = tokenizer.closing if tokenizer.opening is None else tokenizer.opening
    cut = 0
    for number in range(30):
        before = [opening, *tokenizer.encode([PROMPTS[number % len(PROMPTS)]])[0].ids.tolist()]
        source = TEXTS[number % 3][int(rng.integers(12)) :]
        ids = tokenizer.encode([source])[0].ids.tolist()[: LONGEST - 1]
        whole = tokenizer.continued(before, ids)
        if not whole:
            continue
        stops = rng.choice(some_stops(rng, whole), int(rng.integers(1, 4))).tolist()
        told = streamed(tokenizer, before, ids, stops)
        assert whole.startswith(told[0]) and not any(stop in told[0] for stop in stops)
        cut += told[0] != whole
        (alone,) = written(tokenizer, before, [ids], stops)
        assert alone == told, (whole, stops)
        other = ids[::-1]
        assert written(tokenizer, before, [other, ids, ids[:2]], stops)[1] == alone
        (drawn,) = written(tokenizer, before, [ids], stops, temperature=0.1)
        assert drawn == alone
        (best,) = written(tokenizer, before, [ids], stops, beam=2)
        assert best == alone
        assert with_beams(tokenizer, before, ids, stops) == alone
    assert cut > 15
