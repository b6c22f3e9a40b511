"""FeedforwardLanguageModel: by the paper's equation, step by step as at once, and every form of its output."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError
from suites.nlp.models.feedforward import FeedforwardLanguageModel
from suites.nlp.writing import Limits, Prompt, Search, Writer
from tests.suites.nlp.models.ragged import ragged
from tests.suites.nlp.writing.helpers import written_steps

CLOSE = {"rtol": 0, "atol": 100 * float(np.finfo(np.float32).eps)}  # sums of at most 60 terms of order 1


def made(**form):
    model = FeedforwardLanguageModel(20, width=12, window=3, hidden=16, **form)
    nn.init.initialize(model, seed=1)
    return model.eval()


@pytest.mark.parametrize("direct", [False, True])
def test_logits_are_those_of_bengios_equation(direct):
    model = made(direct=direct)
    w = {name: np.float64(value.numpy()) for name, value in model.state_dict().items()}
    texts = [[3, 4, 5, 6], [7, 8]]
    found = model(*ragged(texts)).numpy()
    rows = []
    for text in texts:
        for i in range(len(text)):
            seen = [w["words.weight"][text[i - k]] if i >= k else np.zeros(12) for k in range(3)]
            x = np.concatenate(seen)
            h = np.tanh(w["hidden.weight"] @ x + w["hidden.bias"])
            rows.append(w["head.weight"] @ np.concatenate([h, x] if direct else [h]) + w["head.bias"])
    np.testing.assert_allclose(found, rows, **CLOSE)


@pytest.mark.parametrize("form", [{}, {"direct": True}, {"tree": True}, {"cutoffs": (5, 12)}])
@pytest.mark.parametrize("cached", [True, False])
def test_step_by_step_it_gives_what_it_gives_at_once(form, cached):
    model = made(**form)
    step = framework.program(lambda x: model.step(**x))
    writer = Writer(
        [Prompt((5, 6, 7, 8)), Prompt((8,))],
        Limits(1, 2, model.past_width),
        Search(beam=2, max_length=6, cached=cached),
    )
    for found, _, whole, ends in written_steps(writer, step):
        logits = model(*ragged(whole)).numpy()[ends]
        np.testing.assert_allclose(found["scores"], ops.log_softmax(framework.tensor(logits)).numpy(), **CLOSE)


def test_states_are_what_the_output_reads():
    for form in ({}, {"direct": True}):
        model = made(**form)
        states = model.states(*ragged([[3, 4, 5], [6]]), logits=False)
        logits = states.x.numpy() @ states.weight.numpy().T + states.bias.numpy()
        np.testing.assert_allclose(model(*ragged([[3, 4, 5], [6]])).numpy(), logits, **CLOSE)
        assert states.logits is None and states.tree is None


def test_dropout_acts_in_training_only():
    model = made(dropout=0.5)
    text = ragged([[3, 4, 5], [6, 7]])
    np.testing.assert_array_equal(model(*text).numpy(), model(*text).numpy())
    model.train()
    assert np.abs(model(*text).numpy() - model(*text).numpy()).max() > 0


def test_wrong_sizes_are_refused():
    with pytest.raises(AttributeValueError, match="window is 0"):
        FeedforwardLanguageModel(20, window=0)
    with pytest.raises(AttributeValueError, match="there are 1 words; a tree needs 2"):
        FeedforwardLanguageModel(1, tree=True)
