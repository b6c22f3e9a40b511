"""PagedPairs: what a Transformer says step by step in pages is what it says of a whole pair, in any company."""

import numpy as np
import pytest

import framework
from framework import no_grad, random
from framework.errors import AttributeValueError
from suites.nlp.models.paged import PagedPairs
from suites.nlp.models.transformer import Transformer

from .stepping import Stepped

PAGE = 4
FORMS = {"norms before": {}, "as published": {"norm_first": False}, "one vocabulary": {"shared": True}}
FORMS |= {
    "distances": {"relative": 5},
    "copies": {"copying": True},
    "both, as published": {"relative": 40, "copying": True, "norm_first": False, "shared": True},
}


def model_of(form="norms before", **more):
    random.seed(0)
    how = {"width": 32, "heads": 4, "hidden": 64, "encoder_layers": 2, "decoder_layers": 2, "max_length": 64}
    model = Transformer(90, 90, **how, **FORMS[form], **more)
    model.eval()
    return model


def pairs(*lengths):
    rng = np.random.default_rng(1)
    return [(rng.integers(0, 90, s), rng.integers(0, 90, t)) for s, t in lengths]


class Texts(Stepped):
    """Pairs of a Transformer, with pages of their own for both sides."""

    def __init__(self, model, own, **how):
        order = np.random.default_rng(0).permutation(80)
        self.sources = [source for source, _ in own]
        self.source_tables = [order[40 + 10 * b : 50 + 10 * b] for b in range(len(own))]
        tables = [order[10 * b : 10 * b + 10] for b in range(len(own))]
        super().__init__(PagedPairs(model, pages=80, page=PAGE, **how), [target for _, target in own], tables)

    def read(self, *which):
        for b in which:
            self.steps.read(self.sources[b], self.source_tables[b][: -(-len(self.sources[b]) // PAGE)])
        return self

    def beside(self, which):
        tables = np.stack([self.source_tables[b] for b in which])
        return {"source_tables": tables, "source_lengths": np.array([len(self.sources[b]) for b in which])}


def whole(model, source, target):
    ends = [framework.tensor(np.array([0, len(side)])) for side in (source, target)]
    with no_grad():
        return model(framework.tensor(source), ends[0], framework.tensor(target), ends[1]).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_pages_say_what_the_whole_pair_does(form):
    model = model_of(form)
    own = pairs((17, 33))
    texts = Texts(model, own).read(0)
    found = np.concatenate([texts.step({0: count})[0] for count in (20, 1, 1, 11)])
    # float32 sums of 32 to 64 terms in another order: a few ulps of logits below 4 through two layers
    assert np.abs(found - whole(model, *own[0])).max() < 5e-5


@pytest.mark.parametrize("form", ["norms before", "both, as published"])
def test_a_text_has_the_same_bits_alone_in_parts_and_beside_others(form):
    model, own = model_of(form), pairs((9, 30), (1, 25), (36, 40))
    alone = [Texts(model, own).read(b).step({b: len(own[b][1])})[0] for b in range(3)]
    mixed, found = Texts(model, own).read(2, 0), {0: [], 1: [], 2: []}
    plan = [{0: 9}, {2: 1, 0: 1}, {1: 13, 2: 30}, {0: 20, 2: 2}, {1: 12}, {2: 7}]
    for at, counts in enumerate(plan):
        if at == 2:
            mixed.read(1)
        for b, scores in zip(counts, mixed.step(counts), strict=True):
            found[b].append(scores)
    assert all(np.array_equal(np.concatenate(found[b]), alone[b]) for b in range(3))


@pytest.mark.parametrize("form", ["norms before", "both, as published"])
def test_8_bit_weights_are_near(form):
    model, own = model_of(form), pairs((12, 20))
    exact = whole(model, *own[0])
    found = Texts(model, own, int8=True).read(0).step({0: 20})[0]
    assert 0 < np.abs(found - exact).max() < 0.1 * np.abs(exact).max()


def test_a_source_or_a_place_beyond_the_model_is_refused_and_leaves_the_cache():
    model = model_of()
    texts = Texts(model, pairs((12, 70))).read(0)
    texts.step({0: 5})
    before = [state.numpy().copy() for state in (*texts.steps._cache.keys, *texts.steps._cache.values)]
    with pytest.raises(AttributeValueError, match="64"):
        texts.steps.read(np.zeros(70, np.int64), np.arange(18))
    texts.tables[0] = np.arange(20)
    with pytest.raises(AttributeValueError, match="64"):
        texts.step({0: 65})
    after = [*texts.steps._cache.keys, *texts.steps._cache.values]
    assert all(np.array_equal(b, a.numpy()) for b, a in zip(before, after, strict=True))
