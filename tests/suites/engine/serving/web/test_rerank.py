"""Reranking over HTTP: by cosines of vectors, by a model of pairs, and what is refused."""

import contextlib
import json

import numpy as np
import pytest

from suites.engine.serving.service import Settings
from suites.engine.serving.web.rerank import RerankAnswer
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask, problem

TEXTS = ["one two", "query words", "three", "query"]


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def ranked(server, **fields):
    status, _, data = ask(server, "/v1/rerank", {"query": "query words", "documents": TEXTS, **fields})
    assert status == 200
    return RerankAnswer.model_validate_json(data), json.loads(data)


def test_a_model_of_vectors_ranks_by_cosines(server):
    found, plain = ranked(server)
    expected = [cosine(toy.vector("query words"), toy.vector(text)) for text in TEXTS]
    assert [row.index for row in found.results] == np.argsort(-np.array(expected)).tolist()
    assert found.results[0].index == 1
    scores = {row.index: row.relevance_score for row in found.results}
    np.testing.assert_allclose([scores[i] for i in range(4)], expected, rtol=1e-5)
    assert found.model == "words" and found.usage["prompt_tokens"] == 8 and "document" not in plain["results"][0]


def test_the_best_with_their_texts(server):
    documents = [{"text": text} for text in TEXTS]
    found, _ = ranked(server, top_n=2, return_documents=True, documents=documents)
    assert len(found.results) == 2
    assert found.results[0].document.text == "query words"


def test_equal_texts_keep_their_order(server):
    found, _ = ranked(server, documents=["same", "same", "same"])
    assert [row.index for row in found.results] == [0, 1, 2]


@contextlib.contextmanager
def changed(**fields):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fields.items():
            patch.setattr(toy.WordsProcessor, name, value, raising=False)
        yield


def test_a_model_of_pairs_reads_the_query_with_each_text(model):
    with (
        changed(ranks_pairs=True, relevance=lambda self, result: -result["score"]),
        toy.running(model, Settings(name="words")) as server,
    ):
        found, _ = ranked(server)
    expected = [-float(toy.vector(f"query words | {text}").max()) for text in TEXTS]
    scores = {row.index: row.relevance_score for row in found.results}
    np.testing.assert_allclose([scores[i] for i in range(4)], expected, rtol=1e-5)
    assert [row.index for row in found.results] == np.argsort(-np.array(expected)).tolist()


def test_a_model_that_ranks_nothing_says_what_does(model):
    with changed(poolings=()), toy.running(model, Settings(name="words")) as server:
        status, message = problem(server, "/v1/rerank", {"query": "a", "documents": ["b"]})
    assert status == 404 and "ranks no texts; serve a model whose problem is Reranking" in message


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"documents": []}, 400, "documents: is empty"),
        ({"documents": [3]}, 400, "documents"),
        ({"documents": [{"text": "a", "id": 1}]}, 400, "documents"),
        ({"query": 3}, 400, "query"),
        ({"top_n": 0}, 400, "top_n"),
        ({"model": "other"}, 404, "no model 'other'"),
        ({"documents": ["a"] * 60}, 413, "61 items; 50 are allowed"),
        ({"documents": ["a", ""]}, 400, "the text is empty"),
        ({"extra": 1}, 400, "extra: there is no such key"),
    ],
)
def test_a_wrong_request_gets_one_clear_error(server, fields, status, message):
    found = problem(server, "/v1/rerank", {"query": "a", "documents": ["b"], **fields})
    assert found[0] == status and message in found[1]
