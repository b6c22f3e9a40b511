"""Every problem of texts over HTTP: a client gets what the processor says of each item, whatever shares its batch."""

import json
import threading
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from framework import no_grad, program
from framework.nn import init
from suites.engine.config import build_value
from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.engine.serving.batcher import Limits
from suites.engine.serving.client import Client, ServerError
from suites.engine.serving.service import Settings
from suites.nlp.models.bert import Bert
from suites.nlp.models.heads import SequenceClassifier, SpanPredictor, TokenClassifier
from suites.nlp.problems import Problem
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import BertTokenizer
from tests.suites.engine.serving.toy import running

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
INPUTS = ("ids", "offsets", "segment_ids")
LONG = "a b c d e f g h " * 6


def make(problem, head, classes):
    encoder = Bert(vocab_size=len(VOCABULARY), hidden_size=16, layers=1, heads=2, ffn_size=32, max_positions=64)
    network = (head(encoder, len(classes)) if classes else head(encoder)).eval()
    init.initialize(network, 1)
    with no_grad():
        network.fc.weight.set(network.fc.weight * 50.0)  # scores far apart: rounding changes no order
    problem_ = build_value(problem, Problem, suite="nlp")
    processor = TextProcessor(problem_, Sequencer(BertTokenizer(VOCABULARY), (), 24), classes)
    run = program(lambda x: problem_.predictions(network(x["ids"], x["offsets"], segment_ids=x["segment_ids"])))
    lock = threading.Lock()

    def predict(arrays):
        with lock, no_grad():
            return {name: tensor.numpy() for name, tensor in run(arrays).items()}

    return Model(processor, INPUTS, predict, lambda: predict)


PROBLEMS = {
    "classification": (
        ({"type": "Classification"}, SequenceClassifier, ["no", "yes"]),
        ["a b", "", LONG, "☃ \x00 c"],
        (["a", "b"], r"takes a text, got \['a', 'b'\]"),
    ),
    "pairs": (
        ({"type": "Classification", "pair": True}, SequenceClassifier, ["no", "yes"]),
        [["a", "b c"], [LONG, "d"], ["", ""]],
        ("a", "takes a list of two texts, got 'a'"),
    ),
    "regression": (
        ({"type": "Regression"}, SequenceClassifier, ["score"]),
        [["a", "b c"], [LONG, LONG]],
        (["a", 1], "takes a list of two texts"),
    ),
    "tagging": (
        ({"type": "Tagging"}, TokenClassifier, ["O", "B-X", "I-X"]),
        ["abc", ["a", "b", "ab"], LONG],
        ("  ", "there are no words in it"),
    ),
    "reading": (
        ({"type": "Reading", "doc_stride": 4, "max_question": 8}, SpanPredictor, []),
        [{"question": "a b", "passage": "c d e f"}, {"question": "a", "passage": LONG}],
        ({"question": "a"}, "takes an object with texts 'question' and 'passage'"),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_served(name):
    parts, values, (wrong, message) = PROBLEMS[name]
    model = make(*parts)
    items = [model.processor.from_json(value) for value in values]
    expected = [predict_items(model.processor, model.inputs, model.predict, [item])[0] for item in items]
    with running(model, Settings(name=name, workers=2, limits=Limits(max_cost=60))) as server:
        with Client(server.url) as client:
            found = client.score(values * 5)
            with pytest.raises(ServerError, match=f"item 1: .*{message}"):
                client.score([values[0], wrong])
        assert server.said == []
    for ours, theirs in zip(found, expected * 5, strict=True):
        assert_same(ours, theirs)


def assert_same(a, b):
    """The same but for the last digits of numbers, which the company in a batch may change."""
    if isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in b:
            assert_same(a[key], b[key])
    elif isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(b, float):
        np.testing.assert_allclose(a, b, atol=2e-5)
    else:
        assert a == b


def test_a_cross_encoder_reranks_texts_by_its_scores():
    model = make({"type": "Reranking"}, SequenceClassifier, ["score"])
    texts = ["b c", "d", LONG, "a"]
    expected = [row["score"] for row in predict_items(
        model.processor, model.inputs, model.predict, [model.processor.from_json(["a", text]) for text in texts]
    )]  # fmt: skip
    with running(model, Settings(name="m")) as server:
        body = json.dumps({"query": "a", "documents": texts, "top_n": 3}).encode()
        request = urllib.request.Request(f"{server.url}/v1/rerank", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            rows = json.load(answer)["results"]
    assert [row["index"] for row in rows] == np.argsort(-np.array(expected), kind="stable")[:3].tolist()
    assert [row["relevance_score"] for row in rows] == sorted(expected, reverse=True)[:3]
