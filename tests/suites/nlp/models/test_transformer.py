"""The Transformer: exact against its parts, with a cache as without, and it learns to sort."""

import itertools

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import AttributeValueError, DataError
from suites.nlp.models.decoding import decode
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Hypothesis, Search

WORDS, START, STOP = 12, 1, 2


def small(**kwargs) -> Transformer:
    model = Transformer(
        WORDS,
        WORDS,
        16,
        2,
        32,
        2,
        2,
        dropout=kwargs.pop("dropout", 0.0),
        max_length=32,
        start=START,
        stop=STOP,
        **kwargs,
    )
    nn.init.initialize(model, seed=3)
    return model


def ragged(sequences) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([np.asarray(s, np.int64) for s in sequences]), np.cumsum([0, *map(len, sequences)])


SOURCES = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 3, 3], [5, 4]]


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_a_batch_equals_its_sequences_one_by_one(norm_first, shared):
    model = small(norm_first=norm_first, shared=shared).eval()
    targets = [[START, 4, 5], [START], [START, 9, 9, 9], [START, 3]]
    together = model(*map(framework.tensor, (*ragged(SOURCES), *ragged(targets)))).numpy()
    alone = [
        model(*map(framework.tensor, (*ragged([s]), *ragged([t])))).numpy()
        for s, t in zip(SOURCES, targets, strict=True)
    ]
    # Sums of at most 32 terms over 4 layers, of numbers of order 1: some hundred roundings of float32.
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=0, atol=100 * np.finfo(np.float32).eps)


def test_a_word_sees_the_words_before_it_only():
    model = small().eval()
    source = ragged(SOURCES[:1])
    a = model(*map(framework.tensor, (*source, *ragged([[START, 4, 5, 6]])))).numpy()
    b = model(*map(framework.tensor, (*source, *ragged([[START, 4, 9, 3]])))).numpy()
    np.testing.assert_array_equal(a[:2], b[:2])
    assert np.abs(a[2:] - b[2:]).min(axis=1).max() > 1e-3


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("norm_first", [True, False])
def test_decoding_with_a_cache_finds_the_same_words(beam, norm_first):
    model = small(norm_first=norm_first)
    source, offsets = ragged(SOURCES)
    found = {
        cached: decode(model, source, offsets, Search(beam=beam, max_length=9, cached=cached))
        for cached in (True, False)
    }
    for with_cache, without in zip(found[True], found[False], strict=True):
        assert [h.ids for h in with_cache] == [h.ids for h in without]
        np.testing.assert_allclose([h.score for h in with_cache], [h.score for h in without], rtol=1e-5)
    assert model.mode_now()  # as it was


def test_beams_of_a_batch_equal_those_of_its_sources_one_by_one():
    model = small()
    search = Search(beam=4, max_length=6, results=4)
    together = decode(model, *ragged(SOURCES), search)
    for source, found in zip(SOURCES, together, strict=True):
        (alone,) = decode(model, *ragged([source]), search)
        assert [h.ids for h in alone] == [h.ids for h in found]


def test_a_wide_beam_finds_the_best_of_all_sequences():
    """With room for all hypotheses, beam search is exhaustive search."""
    model = Transformer(5, 4, 8, 2, 16, 1, 1, dropout=0.0, max_length=8, start=0, stop=1)
    nn.init.initialize(model, seed=0)
    model.eval()
    source, offsets = ragged([[2, 3]])
    encoded = model.encode(framework.tensor(source), framework.tensor(offsets))
    search = Search(beam=64, max_length=3, length_penalty=0.0, results=64)

    def score(ids) -> float:
        given = framework.tensor(np.array([0, *ids], np.int64))
        logp = ops.log_softmax(model.decode(encoded, given, framework.tensor([0, len(ids) + 1]))).numpy()
        return float(sum(logp[i, word] for i, word in enumerate([*ids, 1])))

    every = [ids for n in range(4) for ids in itertools.product((0, 2, 3), repeat=n)]
    best = sorted(((score(ids), ids) for ids in every), reverse=True)
    found = [h for h in decode(model, source, offsets, search)[0] if h.complete]
    assert [h.ids for h in found[:5]] == [ids for _, ids in best[:5]]
    np.testing.assert_allclose([h.score for h in found[:5]], [s for s, _ in best[:5]], rtol=1e-5)


def test_scores_are_divided_by_the_length_penalty():
    model = small()
    source, offsets = ragged([[5, 4]])
    plain, divided = (decode(model, source, offsets, Search(max_length=4, length_penalty=a))[0][0] for a in (0.0, 1.0))
    assert plain.ids == divided.ids
    assert divided.score == pytest.approx(plain.score / ((5 + len(plain.ids) + 1) / 6))


def test_it_learns_to_sort():
    """Sources of 2 to 8 numbers; the target is the same, sorted. New sources come out right, greedily and by beam."""
    rng = np.random.default_rng(0)
    model = Transformer(WORDS, WORDS, 48, 4, 96, 1, 1, dropout=0.0, max_length=16, start=START, stop=STOP)
    nn.init.initialize(model, seed=0)
    optimizer = optim.Adam(model.named_parameters(), lr=1e-3)
    schedule = optim.Cosine(base_lr=5e-3, total_steps=300, warmup_steps=20)

    def draw(count: int) -> list[list[int]]:
        return [rng.integers(3, WORDS, rng.integers(2, 9)).tolist() for _ in range(count)]

    @framework.program
    def step(*inputs):
        loss = model.loss(*inputs, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optim.clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()
        return loss

    for i in range(300):
        sources = draw(48)
        inputs, offsets = ragged([[START, *sorted(s)] for s in sources])
        words = ragged([[*sorted(s), STOP] for s in sources])[0]
        optimizer.set_lr(schedule(i))
        step(*ragged(sources), inputs, offsets, words)
    sources = draw(200)
    for search in (Search(max_length=12), Search(beam=4, max_length=12)):
        found = decode(model, *ragged(sources), search)
        right = [best[0].ids == tuple(sorted(s)) for s, best in zip(sources, found, strict=True)]
        assert np.mean(right) >= 0.95


def test_a_result_without_stop_is_told_apart():
    model = small()
    model.target.words.weight.set(
        ops.concat([model.target.words.weight[:3] * 0.0 - 1.0, model.target.words.weight[3:]], axis=0)
    )
    (best,) = decode(model, *ragged([[5, 4]]), Search(max_length=3))[0]
    assert isinstance(best, Hypothesis) and len(best.ids) <= 3 and best.complete == (len(best.ids) < 3)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"width": 15}, "width is 15"),
        ({"shared": True}, "shared is on but there are 5 source and 6 target words"),
        ({"stop": 6}, r"start 1 and stop 6 must lie in \[0, 5\]"),
    ],
)
def test_bad_sizes_are_refused(kwargs, match):
    with pytest.raises(AttributeValueError, match=match):
        Transformer(5, 6, **{"width": 16, "heads": 2, **kwargs})


def test_sources_and_lengths_that_do_not_fit_are_named():
    model = small()
    with pytest.raises(DataError, match=r"source 1 has 0 words; it must have 1 \.\.\. 32"):
        decode(model, np.array([3, 4]), np.array([0, 2, 2]))
    with pytest.raises(AttributeValueError, match="temperature is -1"):
        Search(temperature=-1.0)
    with pytest.raises(AttributeValueError, match="beam is 0"):
        Search(beam=0)
