"""Translations over HTTP by the generation engine: what a beam of one writes, alone, beside others and in pieces."""

import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.engine.cli import main
from suites.engine.contract.capabilities.generating import CacheSettings
from suites.engine.predict.inference import open_model
from suites.engine.serving.generation.requests import EngineLimits
from suites.engine.serving.models import Writes
from suites.engine.serving.service import Settings
from suites.nlp.writing import Search
from tests.suites.engine.serving.toy import running

from .test_generation import Asking
from .test_writing import SORT
from .test_written_services import by_writer

TEXTS = ["3 1 2", "9 8 7 6 5", "4", "1 1 1 1", "0 5 0"]
SHORT = ("-o", "problem.search.beam=1", "-o", "runtime.epochs=100", "-o", "runtime.evaluation.every=100")


def trained(folder, *overrides):
    (folder / "c.yml").write_text(SORT)
    runs = str(folder / "runs")
    assert main(["train", str(folder / "c.yml"), "--runs", runs, "--name", "r", *overrides]) == 0
    return open_model(folder / "runs" / "r")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("sort"), *SHORT)


@pytest.fixture(scope="module")
def server(model):
    writes = Writes(CacheSettings(megabytes=1), EngineLimits(new_tokens=60, sequences=4))
    with running(model, Settings(name="sort"), writes=writes) as found:
        yield found


@pytest.fixture
def ask(server):
    return Asking(server)


def test_completions_are_what_infer_writes_alone_beside_others_and_in_pieces(ask):
    status, found = ask("/v1/scores", input=TEXTS)
    assert status == 200
    best = [each["result"]["text"] for each in found["data"]]
    assert len(set(best)) > 1
    assert [ask.text(text, max_tokens=12) for text in TEXTS] == best
    status, found = ask("/v1/completions", prompt=TEXTS, max_tokens=12)
    assert [choice["text"] for choice in found["choices"]] == best
    with ThreadPoolExecutor(8) as threads:
        streams = list(threads.map(lambda t: ask.chunks("/v1/completions", prompt=t, max_tokens=12), TEXTS * 4))
    assert ["".join(c["choices"][0]["text"] for c in chunks) for chunks in streams] == best * 4


def test_a_source_that_was_read_counts_as_cached(ask):
    usage = [ask("/v1/completions", prompt="5 4 5 4 5 4", n=2)[1]["usage"] for _ in range(2)]
    length = usage[0]["prompt_tokens"]
    assert length == 6 + 5 + 2  # digits and blanks, the closing token, and the one that a text begins with
    assert usage[1]["prompt_tokens_details"]["cached_tokens"] >= length - 1


def test_metrics_count_tokens_texts_and_pages(server, ask):
    def figures():
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    ask("/v1/completions", prompt="8 3 8 3")
    before = figures()
    usage = ask("/v1/completions", prompt="8 3 8 3")[1]["usage"]
    after = figures()
    grown = {name: after[f"paddock_{name}"] - before[f"paddock_{name}"] for name in
             ("written_tokens_total", "cached_tokens_total", "writing_step_seconds_count")}  # fmt: skip
    assert grown["written_tokens_total"] == grown["writing_step_seconds_count"] == usage["completion_tokens"]
    assert grown["cached_tokens_total"] == usage["prompt_tokens_details"]["cached_tokens"] > 0
    assert after["paddock_texts_writing"] == after["paddock_texts_waiting"] == 0
    assert after["paddock_cache_pages_free"] == after["paddock_cache_pages"] > 0


def test_the_same_seed_draws_the_same_text(ask):
    drawn = {"temperature": 5.0, "max_tokens": 10}
    texts = {ask.text("3 1 2", seed=7, **drawn) for _ in range(3)}
    assert len(texts) == 1 and len({ask.text("3 1 2", seed=seed, **drawn) for seed in range(6)}) > 1


@pytest.mark.parametrize(
    ("route", "body", "match"),
    [
        ("/v1/completions", {"prompt": "1 " * 20}, "the prompt has 4. tokens; the model reads 24 at most"),
        ("/v1/completions", {"prompt": ""}, "prompt: the text is empty"),
        ("/v1/completions", {"prompt": ["1 2", " \n"]}, "prompt: the text is empty"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "1"}]}, "has no chats; ask /v1/completions"),
    ],
)
def test_what_cannot_be_read_is_refused(ask, route, body, match):
    status, found = ask(route, **body)
    assert status in (400, 404)
    assert re.search(match, found["error"]["message"]), found


def test_a_model_whose_steps_are_not_in_pages_is_served_without_the_engine(tmp_path, monkeypatch):
    monkeypatch.setattr("suites.nlp.generator.kind_of", lambda model: None)
    model = trained(tmp_path)
    assert model.generator is None
    with running(model, Settings(name="sort"), writes=Writes(CacheSettings(megabytes=1), EngineLimits())) as server:
        assert Asking(server)("/v1/completions", prompt="1")[0] == 404
        assert Asking(server)("/v1/scores", input=["3 1 2"])[0] == 200


def test_beams_are_what_infer_writes_alone_and_beside_others(model, ask):
    for penalty, results in ((0.0, 1), (0.6, 3), (2.0, 4)):
        search = Search(beam=4, max_length=12, length_penalty=penalty, results=results)
        best = [by_writer(model, text, search) for text in TEXTS]
        body = {"max_tokens": 12, "beam": 4, "length_penalty": penalty, "n": results}
        assert [ask.texts(text, **body) for text in TEXTS] == best
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(lambda t, b=body: ask.texts(t, **b), TEXTS * 4)) == best * 4


def test_beams_without_a_number_of_words_and_in_pieces(ask):
    best = ask.texts("3 1 2", beam=3, n=2)
    chunks = ask.chunks("/v1/completions", prompt="3 1 2", beam=3, n=2)
    found = ["", ""]
    for chunk in chunks:
        found[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert found == best


def test_a_stop_text_ends_beams(ask):
    (whole,) = ask.texts("3 1 2", beam=3, max_tokens=12)
    assert ask.texts("3 1 2", beam=3, max_tokens=12, stop=whole[1:3])[0] in (whole[:1], whole)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"beam": 0}, "beam: is 0; it must lie between 1 and 4"),
        ({"beam": 5}, "beam: is 5; it must lie between 1 and 4"),
        ({"beam": 2, "n": 3}, "n: is 3; a beam of 2 gives 2 texts at most"),
        ({"beam": 2, "temperature": 0.5}, "beams draw nothing"),
        ({"length_penalty": 1.0}, "length_penalty: is of beams; set beam"),
        ({"beam": 2, "length_penalty": -1.0}, "length_penalty -1"),
        ({"beam": "a"}, "beam: input should be a valid integer"),
    ],
)
def test_senseless_beams_are_refused(ask, body, message):
    status, found = ask("/v1/completions", prompt="1", **body)
    assert status == 400 and message in found["error"]["message"]
