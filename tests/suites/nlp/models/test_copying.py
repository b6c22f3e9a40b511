"""What models that write take besides: relative positions, copying, attention for coverage; step by step as at once."""

import numpy as np
import pytest

import framework
from framework import gradients, nn, ops
from framework.errors import AttributeValueError, NotSupportedError
from suites.nlp.losses import IGNORED, coverage_loss
from suites.nlp.models.copying import Copying
from suites.nlp.models.recurrent_writing import AttentionRnn
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Limits, Prompt, Search, Writer
from tests.suites.nlp.models.ragged import ragged
from tests.suites.nlp.writing.helpers import written_steps

CLOSE = {"rtol": 0, "atol": 300 * float(np.finfo(np.float32).eps)}  # log-probabilities behind a few layers
SOURCES = [[3, 4, 5, 3, 2], [6, 2], [7, 8, 9, 10, 11, 3, 2]]


def transformer(**kwargs):
    return Transformer(12, 12, 16, 2, 32, 2, 2, dropout=0.0, max_length=16, **kwargs)


FORMS = {
    "relative": lambda: transformer(relative=2),
    "copying": lambda: transformer(copying=True),
    "both, norms last": lambda: transformer(copying=True, relative=3, shared=True, norm_first=False),
    "recurrent": lambda: AttentionRnn(12, 12, width=10, hidden=16, layers=2, dropout=0.0, max_length=16, copying=True),
}


@pytest.fixture(params=FORMS)
def model(request):
    made = FORMS[request.param]()
    nn.init.initialize(made, seed=1)
    for _, parameter in made.named_parameters():
        parameter.set(parameter * 1.5)  # words far apart
    return made.eval()


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("traced", [True, False])
def test_each_step_gives_what_all_words_at_once_do(model, cached, traced):
    def run(x):
        return model.step(**x, attention=True)

    step = framework.program(run) if traced else run
    prompts = [Prompt((4,) * (i == 1), np.array(s)) for i, s in enumerate(SOURCES)]
    limits = Limits(1, 2, model.past_width, model.memory_width, length=16)
    writer = Writer(prompts, limits, Search(beam=2, max_length=5, cached=cached, coverage_penalty=0.2))
    for found, live, whole, ends in written_steps(writer, step):
        logits = model(*ragged([SOURCES[h.text] for h in live]), *ragged(whole)).numpy()[ends]
        np.testing.assert_allclose(found["scores"], ops.log_softmax(framework.tensor(logits)).numpy(), **CLOSE)
        np.testing.assert_allclose(found["attention"].sum(axis=1), 1.0, **CLOSE)
        for row, hypothesis in zip(found["attention"], live, strict=True):
            assert (row[len(SOURCES[hypothesis.text]) :] == 0).all()


def test_what_is_copied_follows_the_paper():
    rng = np.random.default_rng(0)
    layer = Copying(3, 2, 4, length=5)
    nn.init.initialize(layer, seed=0)
    logits, h, s, x = (rng.normal(size=(3, n)) for n in (6, 3, 2, 4))
    weights = np.array([[0.2, 0.5, 0.3, 0, 0], [0.6, 0.4, 0, 0, 0], [1.0, 0, 0, 0, 0]])
    sources, texts = [[4, 1, 4], [2, 2]], [0, 1, 1]
    found = layer(
        framework.tensor(logits.astype(np.float32)), tuple(framework.tensor(a.astype(np.float32)) for a in (h, s, x)),
        framework.tensor(weights.astype(np.float32)), framework.tensor(np.array(texts)), *ragged(sources),
    ).numpy()  # fmt: skip
    w, b = (np.float64(layer.state_dict()[f"gate.{n}"].numpy()) for n in ("weight", "bias"))
    g = 1 / (1 + np.exp(-(np.concatenate([h, s, x], axis=1) @ w[0] + b[0])))
    p = g[:, None] * np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for row, text in enumerate(texts):
        for place, word in enumerate(sources[text]):
            p[row, word] += (1 - g[row]) * weights[row, place]
    np.testing.assert_allclose(np.exp(found), p, **CLOSE)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, **CLOSE)


def test_places_count_by_their_distance_alone():
    model = transformer(relative=3)
    nn.init.initialize(model, seed=0)
    state = model.state_dict()
    assert not any("places" in name for name in state)
    assert state["decoder.0.attention.relative.keys"].shape == (7, 8)


def test_a_coverage_penalty_is_wus_equation_14():
    """All hypotheses' scores are computed again from the model's answers to whole texts."""
    model = transformer()
    nn.init.initialize(model, seed=5)
    for _, parameter in model.named_parameters():
        parameter.set(parameter * 1.5)
    model.eval()
    search = Search(beam=4, results=4, max_length=4, length_penalty=0.7, coverage_penalty=0.5)
    writer = Writer([Prompt(source=np.array(SOURCES[0]))], Limits(1, 2, model.past_width, model.memory_width), search)
    with framework.no_grad():
        while (arrays := writer.batch()) is not None:
            found = model.step(**{k: framework.from_numpy(a) for k, a in arrays.items()}, attention=True)
            writer.take({k: t.numpy() for k, t in found.items()})
        scores = []
        for hypothesis in writer.results()[0]:
            words = [*hypothesis.ids, *([2] if hypothesis.complete else [])]
            text = [1, *hypothesis.ids][: len(words)]
            logs = ops.log_softmax(model(*ragged([SOURCES[0]]), *ragged([text]))).numpy()
            total = sum(float(logs[i, word]) for i, word in enumerate(words))
            covered = _attention(model, SOURCES[0], text).sum(axis=0)
            length = len(hypothesis.ids) + 1
            scores.append(total / ((5 + length) / 6) ** 0.7 + 0.5 * np.log(np.minimum(covered, 1.0)).sum())
            assert hypothesis.score == pytest.approx(scores[-1], abs=1e-4)
    assert scores == sorted(scores, reverse=True) and len(scores) >= 3


def _attention(model, source, text):
    """The last layer's attention [T, S] of a text, the mean of its heads, by whole matrices."""
    encoded = model.encode(*ragged([source]))
    ids, offsets = ragged([text])
    x = model.target(ids, ops.ragged_positions(offsets, ids))
    x = model.decoder[0](x, offsets, encoded.memory, encoded.offsets)
    layer = model.decoder[1]
    x = x + layer.attention(layer.norm1(x), offsets, causal=True)
    q = layer.cross.q(layer.norm2(x)).numpy().reshape(-1, 2, 8)
    k = layer.cross.k(encoded.memory).numpy().reshape(-1, 2, 8)
    scores = np.einsum("thd,shd->hts", np.float64(q), np.float64(k)) / np.sqrt(8)
    return (np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)).mean(axis=0)


@pytest.mark.parametrize("kind", [Transformer, AttentionRnn])
def test_two_tables_of_different_words_copy_nothing(kind):
    with pytest.raises(AttributeValueError, match="copying is on but there are 5 source and 6 target words"):
        kind(5, 6, copying=True)
    with pytest.raises(AttributeValueError, match="relative is 0"):
        Transformer(5, 5, relative=0)


def again_of(weights, texts):
    """The sum over words of sum_i min(a_i, c_i), word by word, float64, and how many words count."""
    total, count, at = 0.0, 0, 0
    for length, counted in texts:
        covered = np.zeros(weights.shape[1])
        for row in range(at, at + length):
            if row - at < counted:
                total, count = total + np.minimum(weights[row], covered).sum(), count + 1
            covered = covered + weights[row]
        at += length
    return total, count


def test_coverage_loss_is_what_is_looked_at_again():
    rng = np.random.default_rng(0)
    texts = [(4, 4), (1, 1), (6, 5)]  # words, and how many count
    weights = rng.dirichlet(np.ones(5), size=11).astype(np.float32)
    words = np.array([3] * 10 + [IGNORED])
    offsets = framework.tensor(np.cumsum([0, *(length for length, _ in texts)]))

    def loss(values):
        return coverage_loss(values, offsets, framework.tensor(words))

    given = framework.tensor(weights)
    found = loss(given)
    total, count = again_of(np.float64(weights), texts)
    assert float(found.weight.numpy()) == count
    np.testing.assert_allclose(found.mean.numpy(), total / count, rtol=1e-6)
    given.requires_grad = True
    (gradient,) = gradients([loss(given).mean], [given])
    step = 1e-4  # far below the distances between weights and what is covered, so the loss is linear there
    for at in ((0, 1), (2, 3), (7, 0), (10, 2)):
        ends = [np.float64(weights), np.float64(weights)]
        ends[0][at] += step
        ends[1][at] -= step
        slope = (again_of(ends[0], texts)[0] - again_of(ends[1], texts)[0]) / (2 * step * count)
        np.testing.assert_allclose(gradient.numpy()[at], slope, atol=1e-6)


@pytest.mark.parametrize("form", ["copying", "both, norms last", "recurrent"])
def test_models_that_copy_tell_by_which_attention(form):
    model = FORMS[form]()
    nn.init.initialize(model, seed=1)
    given = (*ragged(SOURCES), *ragged([[1, 4], [1], [1, 7, 8]]))
    found = model.eval().watched(*given)
    np.testing.assert_array_equal(found.logits.numpy(), model(*given).numpy())
    np.testing.assert_allclose(found.attention.numpy().sum(axis=1), 1.0, **CLOSE)


def test_a_model_that_copies_nothing_has_no_such_attention():
    given = (*ragged(SOURCES), *ragged([[1], [1], [1]]))
    for model in (transformer(), AttentionRnn(12, 12, width=10, hidden=16)):
        with pytest.raises(NotSupportedError, match="copies nothing"):
            model.watched(*given)
