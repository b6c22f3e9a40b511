"""Recurrent models and ensembles in pages: what they say of a whole text or pair, bit for bit in any company."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad
from suites.nlp.models.ensemble import Ensemble
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.paged import kind_of
from suites.nlp.models.recurrent_writing import AttentionRnn, RecurrentLanguageModel
from suites.nlp.models.transformer import Transformer

from .stepping import Stepped

PAGE, PAGES = 4, 80


def made(model, seed=0):
    nn.init.initialize(model, seed=seed)
    return model.eval()


def language(cell="lstm", seed=0, **more):
    how = {"width": 24, "hidden": 40, "layers": 2, "max_length": 64, "dropout": 0.3, "weight_dropout": 0.3}
    return made(RecurrentLanguageModel(90, cell=cell, **(how | more)), seed)


def attending(cell="lstm", seed=1, **more):
    return made(AttentionRnn(90, 90, width=24, cell=cell, hidden=40, layers=2, max_length=64, **more), seed)


def transformer(**more):
    return made(Transformer(90, 90, 32, 4, 64, 1, 2, max_length=64, **more), 2)


MODELS = {
    "lstm": language,
    "gru, untied": lambda: language("gru", tied=False),
    "as wide as its words": lambda: language(hidden=24),
    "lstm that looks": attending,
    "gru that looks": lambda: attending("gru", shared=True),
    "lstm that copies": lambda: attending(copying=True),
    "gru that copies, one vocabulary": lambda: attending("gru", copying=True, shared=True),
    "two language models": lambda: Ensemble([language(), made(LanguageModel(90, 32, 2, 4, max_length=60), 3)]).eval(),
    "three of pairs": lambda: Ensemble([attending(), transformer(), attending("gru", 5)]).eval(),
    "two that copy": lambda: Ensemble([attending(copying=True), transformer(copying=True, relative=4)]).eval(),
}


class Texts(Stepped):
    """Texts, and where a model has them their sources."""

    def __init__(self, model, texts, **how):
        order = np.random.default_rng(0).permutation(PAGES)
        steps = kind_of(model).make(model, pages=PAGES, page=PAGE, **how)
        super().__init__(steps, texts, [order[13 * b : 13 * b + 10] for b in range(len(texts))])
        self.sources = sources(len(texts)) if model.tables is not None else []
        self.source_tables = [order[13 * b + 10 : 13 * b + 13] for b in range(len(texts))]
        for source, table in zip(self.sources, self.source_tables, strict=False):
            steps.read(source, table[: -(-len(source) // PAGE)])

    def beside(self, which):
        if not self.sources:
            return {}
        tables = np.stack([self.source_tables[b] for b in which])
        return {"source_tables": tables, "source_lengths": np.array([len(self.sources[b]) for b in which])}


def words(*lengths):
    rng = np.random.default_rng(1)
    return [rng.integers(0, 90, n) for n in lengths]


def sources(count):
    rng = np.random.default_rng(2)
    return [rng.integers(0, 90, 3 + 4 * b) for b in range(count)]


def whole(model, text, source):
    sides = [text] if source is None else [source, text]
    given = [framework.tensor(each) for side in sides for each in (side, np.array([0, len(side)]))]
    with no_grad():
        return model(*given).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_pages_say_what_the_whole_text_does(name):
    model, ids = MODELS[name](), words(33)
    texts = Texts(model, ids)
    found = np.concatenate([texts.step({0: count})[0] for count in (20, 1, 1, 11)])
    expected = whole(model, ids[0], texts.sources[0] if texts.sources else None)
    # float32 sums of 24 to 88 terms in another order, carried along 33 states that each gate makes smaller
    assert np.abs(found - expected).max() < 2e-5


@pytest.mark.parametrize("name", MODELS)
def test_a_text_has_the_same_bits_alone_in_parts_and_beside_others(name):
    model, ids = MODELS[name](), words(30, 25, 40)
    alone = [Texts(model, ids).step({b: len(ids[b])})[0] for b in range(3)]
    mixed, found = Texts(model, ids), {0: [], 1: [], 2: []}
    for counts in [{0: 9}, {0: 1, 1: 12}, {2: 31, 0: 1, 1: 1}, {1: 11, 0: 18, 2: 1}, {0: 1, 1: 1, 2: 1}, {2: 7}]:
        for b, scores in zip(counts, mixed.step(counts), strict=True):
            found[b].append(scores)
    assert all(np.array_equal(np.concatenate(found[b]), alone[b]) for b in range(3))


@pytest.mark.parametrize("name", MODELS)
def test_a_copied_page_goes_on_as_its_text_does(name):
    model, ids = MODELS[name](), words(14)
    texts = Texts(model, ids)
    texts.step({0: 10})
    other = texts.tables[0].copy()
    other[2] = PAGES - 1
    texts.steps.copy([texts.tables[0][2]], [other[2]])
    expected = texts.step({0: 4})[0]
    texts.tables[0], texts.done[0] = other, 10
    np.testing.assert_array_equal(texts.step({0: 4})[0], expected)


@pytest.mark.parametrize(
    "name", ["lstm", "gru that looks", "lstm that copies", "transformer", "transformer that copies"]
)
def test_states_are_written_in_place(name):
    copies = {"copying": True, "relative": 3} if name == "transformer that copies" else {}
    model = MODELS[name]() if name in MODELS else transformer(**copies)
    texts = Texts(model, words(9))
    runs = {"_run": lambda: texts.step({0: 1})}
    if texts.sources:
        runs["_read"] = lambda: texts.steps.read(texts.sources[0], texts.source_tables[0][:1])
    for attribute, go in runs.items():
        run, seen = getattr(texts.steps, attribute), []
        setattr(texts.steps, attribute, lambda arrays, run=run, seen=seen: seen.append(arrays) or run(arrays))
        go()
        go()
        with no_grad():
            report = run.program_for(seen[-1]).memory_report()
        assert {place for operator, _, place, _ in report.rows if operator == "scatter"} == {"state"}


@pytest.mark.parametrize("name", ["lstm", "gru that looks", "three of pairs"])
def test_8_bits_are_near(name):
    model, ids = MODELS[name](), words(20)
    full, small = (Texts(model, ids, int8=int8).step({0: 20})[0] for int8 in (False, True))
    assert 0 < np.abs(full - small).max() < 0.05 * np.abs(full).max()


def test_what_is_not_computed_in_pages_has_no_kind():
    assert kind_of(language(tied=False, cutoffs=(20,))) is None
    assert kind_of(language(tied=False, tree=True)) is None
    assert kind_of(Ensemble([language(), language(tied=False, tree=True)])) is None
    assert kind_of(attending()).page_bytes(PAGE) == 4 * PAGE * (2 * 2 * 40 + 40)
    assert kind_of(attending(copying=True)).page_bytes(PAGE) == 4 * PAGE * (2 * 2 * 40 + 40 + 1)
    assert kind_of(transformer(copying=True)).page_bytes(PAGE) == 4 * PAGE * (2 * 2 * 32 + 2 * 32 + 1)
