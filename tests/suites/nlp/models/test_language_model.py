"""LanguageModel: texts see their own words before, with rows that are kept as without, in a Program as eagerly."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError
from suites.nlp.models.language_model import LanguageModel
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
    ],
)
def test_bad_sizes_are_refused(sizes, match):
    with pytest.raises(AttributeValueError, match=match):
        LanguageModel(**{"vocab_size": 20, "width": 16, "heads": 4, **sizes})
