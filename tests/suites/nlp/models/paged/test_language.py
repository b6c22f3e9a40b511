"""PagedSteps: what a model says step by step in pages is what it says of a whole text, bit for bit in any company."""

import numpy as np
import pytest

import framework
from framework import no_grad, random
from framework.errors import AttributeValueError
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.paged import PagedSteps
from suites.nlp.models.paged.cache import in_8_bits

from .stepping import Stepped

FORMS = {
    "llama": {"kv_heads": 2},
    "qwen2": {"kv_heads": 1, "qkv_biases": True, "tied": False},
    "gpt2": {"positions": "learned", "norm": "layer", "feed": "gelu", "biases": True},
}
PAGE = 4


def model_of(form, **more):
    random.seed(0)
    return LanguageModel(90, width=32, layers=2, heads=4, max_length=64, **FORMS[form], **more)


class Texts(Stepped):
    """Texts of a language model."""

    def __init__(self, model, ids, **how):
        order = np.random.default_rng(0).permutation(60)
        tables = [order[16 * b : 16 * b + 16] if b < 3 else order[:16] for b in range(len(ids))]
        super().__init__(PagedSteps(model, pages=60, page=PAGE, **how), ids, tables)


def words(*lengths):
    rng = np.random.default_rng(1)
    return [rng.integers(0, 90, n) for n in lengths]


def whole(model, ids):
    with no_grad():
        return model(framework.tensor(ids), framework.tensor(np.array([0, len(ids)]))).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_pages_say_what_the_whole_text_does(form):
    model = model_of(form)
    ids = words(33)
    texts = Texts(model, ids)
    found = np.concatenate([texts.step({0: count})[0] for count in (20, 1, 1, 11)])
    # float32 sums of 32 to 88 terms in another order: a few ulps of logits below 1 through two layers
    assert np.abs(found - whole(model, ids[0])).max() < 2e-5


@pytest.mark.parametrize("form", FORMS)
def test_a_text_has_the_same_bits_alone_in_parts_and_beside_others(form):
    model, ids = model_of(form), words(30, 25, 40)
    alone = [Texts(model, ids).step({b: len(ids[b])})[0] for b in range(3)]
    mixed, found = Texts(model, ids), {0: [], 1: [], 2: []}
    plan = [{0: 9}, {0: 1, 1: 12}, {2: 31, 0: 1, 1: 1}, {1: 11, 0: 18, 2: 1}, {0: 1, 1: 1, 2: 1}, {2: 7}]
    for counts in plan:
        for b, scores in zip(counts, mixed.step(counts), strict=True):
            found[b].append(scores)
    assert all(np.array_equal(np.concatenate(found[b]), alone[b]) for b in range(3))


def test_states_are_written_in_place():
    ids = words(9)
    texts = Texts(model_of("llama"), ids)
    texts.step({0: 5})
    texts.step({0: 1})
    arrays = {"ids": ids[0][:1], "offsets": np.array([0, 1]), "tables": texts.tables[0][None]}
    arrays |= {"lengths": np.array([1]), "rows": np.array([0])}
    with no_grad():
        report = texts.steps._run.program_for(arrays).memory_report()
    places = [place for operator, _, place, _ in report.rows if operator == "scatter"]
    assert places == ["state"] * 4


def test_8_bit_weights_are_near_and_as_steady():
    model, ids = model_of("llama"), words(20, 20)
    exact = whole(model, ids[0])
    texts = Texts(model, ids, int8=True)
    found = texts.step({0: 20, 1: 5})[0]
    assert 0 < np.abs(found - exact).max() < 0.1 * np.abs(exact).max()
    again = Texts(model, ids, int8=True)
    assert np.array_equal(np.concatenate([again.step({0: 3})[0], again.step({0: 17})[0]]), found)


@pytest.mark.parametrize(("columns", "groups"), [(128, 2), (100, 1)])
def test_8_bits_are_within_half_a_step(columns, groups):
    weight = np.random.default_rng(0).normal(size=(7, columns)).astype(np.float32)
    weight[3] = 0
    small, scale = (each.numpy() for each in in_8_bits(weight))
    assert scale.shape == (7, groups)
    step = np.repeat(scale, columns // groups, axis=1)
    assert (np.abs(small * step - weight) <= step * 0.501).all()


def test_a_place_beyond_the_model_is_refused_and_leaves_the_cache():
    model = model_of("llama")
    texts = Texts(model, words(70))
    texts.tables[0] = np.arange(20)
    texts.step({0: 5})
    before = texts.steps._cache.keys[0].numpy().copy()
    with pytest.raises(AttributeValueError, match="64"):
        texts.step({0: 65})
    assert np.array_equal(texts.steps._cache.keys[0].numpy(), before)
