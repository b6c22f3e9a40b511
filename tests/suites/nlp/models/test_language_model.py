"""LanguageModel: texts see their own words before, with rows that are kept as without, in a Program as eagerly."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.paged import PagedSteps
from suites.nlp.models.rotary import LinearScaling, Llama3Scaling, YarnScaling
from suites.nlp.writing import Limits, Prompt, Search, Writer

FORMS = {
    "llama": {},
    "shared heads": {"kv_heads": 2, "head_size": 6},
    "one head": {"kv_heads": 1, "qkv_biases": True, "tied": False},
    "gpt2": {"positions": "learned", "norm": "layer", "feed": "gelu", "biases": True},
}
# Sums of at most 40 terms over 2 layers, of numbers of order 1: some hundred roundings of float32.
CLOSE = {"rtol": 0, "atol": 100 * float(np.finfo(np.float32).eps)}


@pytest.fixture(params=FORMS)
def model(request):
    made = LanguageModel(20, width=16, layers=2, heads=4, hidden=24, max_length=32, **FORMS[request.param])
    nn.init.initialize(made, seed=1)
    for _, parameter in made.named_parameters():
        parameter.set(parameter * 4.0)  # words far apart
    return made.eval()


def logits(model, *texts):
    offsets = np.cumsum([0, *map(len, texts)])
    with framework.no_grad():
        return model(framework.tensor(np.concatenate(texts)), framework.tensor(offsets)).numpy()


def test_texts_of_a_batch_are_apart_and_see_what_is_before(model):
    a, b = np.array([3, 4, 5, 6]), np.array([7, 3])
    together = logits(model, a, b)
    np.testing.assert_allclose(together, np.concatenate([logits(model, a), logits(model, b)]), **CLOSE)
    changed = logits(model, np.array([3, 4, 9, 6]), b)
    np.testing.assert_array_equal(changed[:2], together[:2])
    assert np.abs(changed[2:4] - together[2:4]).max(axis=1).min() > 1e-4


@pytest.mark.parametrize("traced", [False, True])
def test_step_by_step_the_scores_are_those_of_the_whole(model, traced):
    names = ("ids", "offsets", "places", "past", "order", "key_offsets", "rows")
    step = framework.program(lambda x: model.step(**x)) if traced else lambda x: model.step(**x)
    writer = Writer([Prompt((5, 6, 7)), Prompt((8,))], Limits(1, 2, model.past_width), Search(beam=2, max_length=6))
    with framework.no_grad():
        while (arrays := writer.batch()) is not None:
            assert tuple(arrays) == names
            found = {k: t.numpy() for k, t in step({k: framework.from_numpy(a) for k, a in arrays.items()}).items()}
            whole = [np.array([1, *h.ids]) for h in writer._chooser.live]
            ends = np.cumsum([len(text) for text in whole]) - 1
            expected = ops.log_softmax(framework.tensor(logits(model, *whole)[ends])).numpy()
            np.testing.assert_allclose(found["scores"], expected, **CLOSE)
            raw = found["scores"] + found["totals"][:, None]
            np.testing.assert_allclose(raw, logits(model, *whole)[ends], **CLOSE)
            writer.take(found)
    assert [h.ids[:n] for h, n in zip((r[0] for r in writer.results()), (3, 1), strict=True)] == [(5, 6, 7), (8,)]


def test_heads_that_share_keys_are_as_if_each_had_its_own():
    shared = LanguageModel(20, width=16, layers=1, heads=4, kv_heads=2, max_length=8)
    own = LanguageModel(20, width=16, layers=1, heads=4, max_length=8)
    nn.init.initialize(shared, seed=1)
    state = {name: tensor.numpy() for name, tensor in shared.state_dict().items()}
    q, k, v = np.split(state["layers.0.qkv.weight"], [16, 24])
    wide = [part.reshape(2, 1, 4, 16).repeat(2, axis=1).reshape(16, 16) for part in (k, v)]
    state["layers.0.qkv.weight"] = np.concatenate([q, *wide])
    own.load_state_dict({name: framework.tensor(value) for name, value in state.items()})
    text = np.array([3, 4, 5])
    np.testing.assert_allclose(logits(shared.eval(), text), logits(own.eval(), text), **CLOSE)


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({"kv_heads": 3}, "kv_heads 3"),
        ({"width": 18}, "4 heads do not divide a width of 18"),
        ({"head_size": 5}, "a head of 5 has no pairs to turn"),
        ({"window": 0}, "window is 0 and window_from 0"),
        ({"scaling": LinearScaling(2.0), "positions": "learned"}, "scaling is of rotary positions"),
    ],
)
def test_bad_sizes_are_refused(sizes, match):
    with pytest.raises(AttributeValueError, match=match):
        LanguageModel(**{"vocab_size": 20, "width": 16, "heads": 4, **sizes})


def test_a_window_hides_words_that_are_farther_behind():
    """In one layer a word sees as far as its window; in two, as far as two windows reach."""
    text = np.arange(3, 15)
    other = text.copy()
    other[0] = 19
    for layers, first in ((1, 4), (2, 7)):
        model = LanguageModel(20, width=16, layers=layers, heads=4, kv_heads=2, max_length=16, window=4).eval()
        nn.init.initialize(model, seed=1)
        differ = np.any(logits(model, text) != logits(model, other), axis=1)
        assert differ[:first].all() and not differ[first:].any()
    late = LanguageModel(20, width=16, layers=2, heads=4, max_length=16, window=4, window_from=1).eval()
    nn.init.initialize(late, seed=1)
    assert np.any(logits(late, text) != logits(late, other), axis=1).all()


@pytest.mark.parametrize("window", [1, 3, 6])
def test_steps_with_kept_keys_see_the_window_too(window):
    model = LanguageModel(20, width=16, layers=2, heads=4, kv_heads=2, max_length=16, window=window).eval()
    nn.init.initialize(model, seed=1)
    text = np.arange(3, 14)
    whole = logits(model, text)
    steps = PagedSteps(model, pages=4, page=4)
    tables, found = np.array([[2, 0, 3]]), []
    for begin, end in ((0, 5), (5, 6), (6, 11)):
        new = {"ids": text[begin:end], "offsets": np.array([0, end - begin]), "tables": tables}
        rows = np.arange(end - begin)
        scores, totals = steps({**new, "lengths": np.array([end]), "rows": rows})
        found.append(scores + totals[:, None])
    np.testing.assert_allclose(np.concatenate(found), whole, **CLOSE)


def test_scaled_rates_are_those_of_their_papers():
    rates = 10000.0 ** -(np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(LinearScaling(4.0).rates(rates, 10000.0, 64), rates / 4)
    found = Llama3Scaling(8.0, 1.0, 4.0, 128).rates(rates, 10000.0, 64)
    waves = 2 * np.pi / rates  # longer than 128 places are slow, shorter than 32 fast
    np.testing.assert_allclose(found[waves > 128], rates[waves > 128] / 8)
    np.testing.assert_allclose(found[waves < 32], rates[waves < 32])
    share = (128 / waves - 1) / 3
    between = (waves >= 32) & (waves <= 128)
    assert between.any()
    wanted = (1 - share) * rates / 8 + share * rates
    np.testing.assert_allclose(found[between], wanted[between])
    yarn = YarnScaling(16.0, 256)
    found = yarn.rates(rates, 10000.0, 64)
    turned = 256 / waves  # times over the texts before
    np.testing.assert_allclose(found[turned >= 32], rates[turned >= 32])
    np.testing.assert_allclose(found[turned <= 0.7], rates[turned <= 0.7] / 16)
    assert (np.diff(rates / found) >= 0).all() and yarn.magnitude == pytest.approx(0.1 * np.log(16) + 1)
    assert YarnScaling(16.0, 256, attention=0.5).magnitude == 0.5


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LinearScaling(0.5), "factor is 0.5"),
        (lambda: Llama3Scaling(2.0, low=4.0), "low must be above 0"),
        (lambda: YarnScaling(2.0, 128, fast=1.0), "slow must be above"),
        (lambda: YarnScaling(2.0, 0), "original above 0"),
    ],
)
def test_scalings_that_mean_nothing_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
