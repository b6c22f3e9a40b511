"""Texts over HTTP from a folder as transformers writes it, by name: the same alone and beside others."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.engine.contract.capabilities.generating import CacheSettings, Sampling
from suites.engine.predict.inference import open_model
from suites.engine.serving.generation.requests import EngineLimits
from suites.engine.serving.models import Writes
from suites.engine.serving.service import Settings
from suites.engine.weights.runs import named_run
from suites.nlp.writing import Limits, Prompt, Search, Writer, steps
from tests.suites.engine.serving.toy import running
from tests.suites.engine.weights.hub.played_hub import played_hub, use
from tests.suites.nlp.test_published_writers import LLAMA, checkpoint

CHAT = "{{ bos_token }}{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}assistant:"
LIMITS = EngineLimits(new_tokens=60, waiting=40)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch, played_hub() as hub:
        use(hub, patch, folder)
        theirs = checkpoint(folder / "theirs", LLAMA | {"max_position_embeddings": 128})
        said = json.loads((theirs / "tokenizer_config.json").read_text())
        (theirs / "tokenizer_config.json").write_text(json.dumps(said | {"chat_template": CHAT}))
        hub.add_folder("owner/model", theirs)
        named_run("hf:owner/model", fetch_all=True)
        yield open_model(named_run("hf:owner/model"))


@pytest.fixture(scope="module")
def server(model):
    with running(model, Settings(name="tiny"), writes=Writes(CacheSettings(megabytes=1), LIMITS)) as found:
        yield found


class Asking:
    def __init__(self, server):
        self.host, self.port = server.url.removeprefix("http://").split(":")

    def raw(self, route, **body):
        connection = HTTPConnection(self.host, int(self.port), timeout=30)
        connection.request("POST", route, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse()

    def __call__(self, route, **body):
        answer = self.raw(route, **body)
        return answer.status, json.loads(answer.read())

    def text(self, prompt, **body):
        status, found = self("/v1/completions", prompt=prompt, **body)
        assert status == 200, found
        return found["choices"][0]["text"]

    def texts(self, prompt, **body):
        status, found = self("/v1/completions", prompt=prompt, **body)
        assert status == 200, found
        return [choice["text"] for choice in found["choices"]]

    def chunks(self, route, **body):
        answer = self.raw(route, stream=True, **body)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        events = [line for line in answer.read().decode().split("\n\n") if line]
        assert events[-1] == "data: [DONE]" and all(event.startswith("data: ") for event in events)
        return [json.loads(event[6:]) for event in events[:-1]]


@pytest.fixture
def ask(server):
    return Asking(server)


def test_a_prompt_goes_on_as_openai_has_it(ask):
    status, found = ask("/v1/completions", model="tiny", prompt="a small", max_tokens=7, seed=3)
    assert status == 200 and found["object"] == "text_completion" and found["model"] == "tiny"
    (choice,) = found["choices"]
    assert choice["finish_reason"] == "length" and choice["index"] == 0
    usage = found["usage"]
    assert usage["completion_tokens"] == 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + 7
    assert found["id"].startswith("cmpl-")


def test_the_same_seed_gives_the_same_text_alone_beside_others_and_in_pieces(ask):
    asked = [{"prompt": p, "max_tokens": 30, "seed": k, "temperature": 1.5} for k, p in enumerate("abcdefgh")]
    alone = [ask.text(**body) for body in asked]
    assert len(set(alone)) == 8
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda body: ask.text(**body), asked * 3)) == alone * 3
        streams = list(threads.map(lambda body: ask.chunks("/v1/completions", **body), asked))
    assert ["".join(c["choices"][0]["text"] for c in chunks) for chunks in streams] == alone


def test_a_text_is_what_a_writer_writes_with_these_scores(model):
    generator = model.generator(CacheSettings(megabytes=1))
    prompt = generator.encode("a small house").tokens

    search = Search(temperature=1.3, top_p=0.9, repetition_penalty=1.2, max_length=20, seed=5, cached=False)
    (stop,) = generator.stops
    limits = Limits(stop, stop, 0, words=None, length=128)
    writer = Writer([Prompt(tuple(prompt))], limits, search)
    sampling = Sampling(1.3, 0.9, repetition_penalty=1.2, seed=5)
    chooser, ids = generator.chooser(sampling, 0, [stop, *prompt]), [stop, *prompt]
    for arrays in steps(writer):
        assert arrays["ids"].tolist() == ids
        count = len(ids)
        batch = {"ids": arrays["ids"], "offsets": np.array([0, count]), "tables": np.arange(8)[None],
                 "lengths": np.array([count]), "rows": np.array([count - 1])}  # fmt: skip
        scores, totals = generator.step(batch)
        ids.append(chooser.choose(scores[0], float(totals[0])))
        writer.take({"scores": scores, "totals": totals})
    (written,) = writer.results()[0]
    assert tuple(ids[1 : 1 + len(written.ids)]) == written.ids


def test_temperature_0_and_top_p_0_take_the_likeliest(ask):
    assert ask.text("a", max_tokens=20, temperature=0) == ask.text("a", max_tokens=20, top_p=0.0, seed=1)


def test_several_texts_and_prompts_are_numbered(ask):
    status, found = ask("/v1/completions", prompt=["a", "b"], n=2, max_tokens=9, seed=1)
    assert status == 200 and [c["index"] for c in found["choices"]] == [0, 1, 2, 3]
    texts = [c["text"] for c in found["choices"]]
    assert texts[0] == ask.text("a", max_tokens=9, seed=1) and texts[0] != texts[1]
    assert texts[2] == ask.text("b", max_tokens=9, seed=1)


def test_a_stop_text_ends_a_text_and_is_no_part_of_it(ask):
    whole = ask.text("a", max_tokens=40, temperature=0)
    stop = whole[10:12]
    for found in (
        ask("/v1/completions", prompt="a", max_tokens=40, temperature=0, stop=stop)[1],
        ask("/v1/completions", prompt="a", max_tokens=40, temperature=0, stop=["never there", stop])[1],
    ):
        assert found["choices"][0]["text"] == whole[: whole.index(stop)]
        assert found["choices"][0]["finish_reason"] == "stop"
    pieces = ask.chunks("/v1/completions", prompt="a", max_tokens=40, temperature=0, stop=stop)
    assert "".join(c["choices"][0]["text"] for c in pieces) == whole[: whole.index(stop)]


def test_a_chat_goes_through_the_models_template(ask):
    body = {"messages": [{"role": "user", "content": "a small"}], "max_tokens": 12, "seed": 4}
    status, found = ask("/v1/chat/completions", **body)
    assert status == 200 and found["object"] == "chat.completion"
    message = found["choices"][0]["message"]
    assert message["role"] == "assistant"
    assert message["content"] == ask.text("<|endoftext|>user: a small\nassistant:", max_tokens=12, seed=4)
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "small"}]
    same = ask("/v1/chat/completions", **body | {"messages": [{"role": "user", "content": parts}]})[1]
    assert same["choices"][0]["message"] == message
    chunks = ask.chunks("/v1/chat/completions", stream_options={"include_usage": True}, **body)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant" and chunks[0]["object"] == "chat.completion.chunk"
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks[:-1]) == message["content"]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 12


def test_a_common_prefix_counts_as_cached(ask):
    prompt = "q" * 60
    ask.text(prompt + "x", max_tokens=1)
    usage = ask("/v1/completions", prompt=prompt + "y", max_tokens=1)[1]["usage"]
    assert usage["prompt_tokens"] == 61 and usage["prompt_tokens_details"]["cached_tokens"] == 48


def test_a_client_that_leaves_frees_its_pages(server, ask):
    pool = server.models.versions[0].engine.pool
    answer = ask.raw("/v1/completions", prompt="a", max_tokens=60, stream=True, stop=["never there"])
    answer.read(10)
    answer.close()
    assert ask.text("b", max_tokens=30) != ""
    deadline = threading.Event()
    for _ in range(200):
        if pool.available == pool.size:
            break
        deadline.wait(0.02)
    assert pool.available == pool.size


@pytest.mark.parametrize(
    ("body", "status", "match", "param"),
    [
        ({"prompt": "a" * 200}, 400, "the prompt has 200 tokens; the model has places for 128", None),
        ({"prompt": "a", "stop": ""}, 400, "stop: has an empty text", "stop"),
        ({"prompt": "a", "stop": ["x"] * 17}, 400, "stop: has 17 texts", "stop"),
        ({"prompt": "a", "temperature": -0.5}, 400, "temperature is -0.5", "temperature"),
        ({"prompt": "a", "top_p": 1.5}, 400, "top_p is 1.5", "top_p"),
        ({"prompt": "a", "top_k": 0}, 400, "top_k is 0", "top_k"),
        ({"prompt": "a", "repetition_penalty": 0.0}, 400, "repetition_penalty is 0.0", "repetition_penalty"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens: is 0; it must lie between 1 and 60", "max_tokens"),
        ({"prompt": "a", "max_tokens": 61}, 400, "max_tokens: is 61", "max_tokens"),
        ({"prompt": "a", "n": 99}, 400, "n: is 99; it must lie between 1 and 16", "n"),
        ({"prompt": "a", "seed": 1 << 70}, 400, "seed", "seed"),
        ({"prompt": "a", "max_token": 4}, 400, "max_token: there is no such key", None),
        ({"prompt": "a", "logprobs": 3}, 400, "logprobs: is 3; it is not computed here", "logprobs"),
        ({"prompt": "a", "echo": True}, 400, "echo: is true; it is not computed here, leave it out, or send f", "echo"),
        ({"prompt": "a", "suffix": "b"}, 400, 'suffix: is "b"', "suffix"),
        ({"prompt": "a", "n": 2, "best_of": 3}, 400, "best_of: is 3, n 2; each text is written once", "best_of"),
        ({"prompt": "a", "logit_bias": {"50256": -100}}, 400, "logit_bias: is", "logit_bias"),
        ({"prompt": "a", "frequency_penalty": False}, 400, "frequency_penalty: is false", "frequency_penalty"),
        ({"prompt": "a", "service_tier": "flex"}, 400, 'service_tier: is "flex"', "service_tier"),
        ({"prompt": "a", "presence_penalty": 0.5}, 400, "presence_penalty: is 0.5", "presence_penalty"),
        ({"prompt": "a", "stream_options": {"include_usage": True}}, 400, "stream_options: is of st", "stream_options"),
        ({"prompt": []}, 400, "prompt: has 0 texts; 1 to 128", "prompt"),
        ({"prompt": ["a"] * 129}, 400, "prompt: has 129 texts", "prompt"),
        ({"prompt": "a" * 100_001}, 413, "prompt: has 100001 characters; 100000 are allowed", "prompt"),
        ({"prompt": ["a"] * 128, "n": 16, "max_tokens": 40}, 503, "40 texts wait", None),
        ({"prompt": 7}, 400, "prompt", "prompt"),
        ({}, 400, "prompt: is missing", "prompt"),
        ({"prompt": "a", "model": "gpt-4"}, 404, "there is no model 'gpt-4' that writes; there is 'tiny'", "model"),
    ],
)
def test_what_is_wrong_is_said_in_openais_form(ask, body, status, match, param):
    found = ask("/v1/completions", **body)
    assert found[0] == status and match in found[1]["error"]["message"]
    assert found[1]["error"]["param"] == param
    kind = {404: "not_found_error", 503: "server_error"}.get(status, "invalid_request_error")
    assert found[1]["error"]["type"] == kind


NEUTRAL = {
    "n": 1, "stop": None, "stream": False, "stream_options": None, "user": "me", "metadata": {"a": "b"}, "store": False,
    "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "service_tier": "auto", "prompt_cache_key": "k",
    "safety_identifier": "s",
}  # fmt: skip
OF_PROMPTS = {"best_of": 1, "logprobs": None, "suffix": None, "echo": False}
OF_CHATS = {
    "tools": [], "tool_choice": "none", "parallel_tool_calls": True, "functions": [], "function_call": "auto",
    "response_format": {"type": "text"}, "logprobs": False, "top_logprobs": 0, "modalities": ["text"], "audio": None,
    "prediction": None, "reasoning_effort": None, "verbosity": None, "web_search_options": None,
}  # fmt: skip


def test_keys_of_openais_that_ask_nothing_change_nothing(ask):
    body = {"prompt": "a small", "max_tokens": 9, "seed": 1}
    alone = ask.text(**body)
    assert ask.text(**body, **NEUTRAL | OF_PROMPTS | {"stream_options": {}, "logprobs": False}) == alone
    assert ask.text(**body, **dict.fromkeys([*NEUTRAL, *OF_PROMPTS])) == alone
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 9, "seed": 1}
    status, found = ask("/v1/chat/completions", **body, **NEUTRAL | OF_CHATS)
    assert (status, found["choices"]) == (200, ask("/v1/chat/completions", **body)[1]["choices"])
    assert ask("/v1/chat/completions", **body, **dict.fromkeys([*NEUTRAL, *OF_CHATS]))[1]["choices"] == found["choices"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("functions", [{"name": "f"}]),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("modalities", ["text", "audio"]),
        ("store", True),
        ("reasoning_effort", "high"),
        ("web_search_options", {}),
    ],
)
def test_keys_of_chats_that_ask_for_something_are_refused_by_name(ask, key, value):
    status, found = ask("/v1/chat/completions", messages=[{"role": "user", "content": "a"}], **{key: value})
    assert status == 400 and found["error"]["param"] == key
    assert "it is not computed here, leave it out" in found["error"]["message"]


def test_a_message_that_was_answered_is_sent_back_as_clients_do(ask):
    said = {"role": "assistant", "content": "b", "refusal": None, "tool_calls": None, "annotations": [], "audio": None,
            "function_call": None}  # fmt: skip
    user = {"role": "user", "content": "a"}
    body = {"max_tokens": 9, "seed": 1}
    plain = ask("/v1/chat/completions", messages=[user, {"role": "assistant", "content": "b"}, user], **body)
    assert ask("/v1/chat/completions", messages=[user, said, user], **body)[1]["choices"] == plain[1]["choices"]
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    status, found = ask("/v1/chat/completions", messages=[user, said | {"tool_calls": [call]}, user], **body)
    assert status == 400 and found["error"]["message"].startswith("messages.1.tool_calls")


@pytest.mark.parametrize(
    ("messages", "match"),
    [
        ([], "messages: is empty"),
        ([{"role": "robot", "content": "a"}], "messages.0.role"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "messages.0.content"),
    ],
)
def test_messages_that_are_none_are_refused(ask, messages, match):
    status, found = ask("/v1/chat/completions", messages=messages)
    assert status == 400 and found["error"]["message"].startswith(match)


@pytest.mark.peers
def test_openais_own_client_asks(server):
    openai = pytest.importorskip("openai", reason="the peer openai is not installed")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    assert [each.id for each in client.models.list()] == ["tiny"]
    whole = client.completions.create(model="tiny", prompt="a small", max_tokens=20, seed=1)
    parts = client.completions.create(model="tiny", prompt="a small", max_tokens=20, seed=1, stream=True)
    assert "".join(part.choices[0].text for part in parts) == whole.choices[0].text != ""
    messages = [{"role": "user", "content": "a"}]
    said = client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=9, seed=1)
    pieces = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=9, seed=1, stream=True, stream_options={"include_usage": True}
    )
    found = list(pieces)
    assert "".join(p.choices[0].delta.content or "" for p in found[:-1]) == said.choices[0].message.content
    assert found[-1].usage.completion_tokens == said.usage.completion_tokens == 9
    again = [*messages, said.choices[0].message, *messages]
    neutral = {"tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "logit_bias": {}, "n": 1}
    more = client.chat.completions.create(model="tiny", messages=again, max_tokens=9, seed=1, **neutral)
    assert more.choices[0].message.content != ""
    with pytest.raises(openai.BadRequestError, match="tools: is"):
        client.chat.completions.create(model="tiny", messages=messages, tools=[{"type": "function", "function": {}}])
    with pytest.raises(openai.BadRequestError, match="max_tokens: is 0"):
        client.completions.create(model="tiny", prompt="a", max_tokens=0)
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4'"):
        client.completions.create(model="gpt-4", prompt="a")


def test_the_model_is_among_those_that_clients_list(server):
    host, port = server.url.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/v1/models")
    assert [each["id"] for each in json.loads(connection.getresponse().read())["data"]] == ["tiny"]


def test_a_model_without_a_template_says_where_to_ask(model, tmp_path):
    generator = model.generator(CacheSettings(megabytes=1))
    generator._sequencer.tokenizer.chat, kept = None, generator._sequencer.tokenizer.chat
    try:
        with pytest.raises(Exception, match="has no chat template; ask /v1/completions"):
            generator.encode_chat([{"role": "user", "content": "a"}])
    finally:
        generator._sequencer.tokenizer.chat = kept


def test_a_cache_without_a_page_is_refused(model):
    with pytest.raises(Exception, match=r"less than a page of 16 tokens.*--cache-mb"):
        model.generator(CacheSettings(megabytes=0.0001))
    with pytest.raises(Exception, match="megabytes is -1"):
        CacheSettings(megabytes=-1)


def test_streams_go_on_to_their_end_while_newer_versions_take_the_models_place(model):
    with running(model, Settings(name="tiny"), writes=Writes(CacheSettings(megabytes=1), LIMITS)) as server:
        ask, done = Asking(server), threading.Event()
        expected = ask.text("a small", max_tokens=50, seed=1)
        found = []

        def stream():
            while not done.is_set():
                chunks = ask.chunks("/v1/completions", prompt="a small", max_tokens=50, seed=1)
                found.append("".join(c["choices"][0]["text"] for c in chunks))

        workers = [threading.Thread(target=stream) for _ in range(3)]
        for thread in workers:
            thread.start()
        for _ in range(3):
            server.models.load("tiny")
        done.set()
        for thread in workers:
            thread.join(60)
        assert server.models.versions[0].label == "4"
        assert len(found) >= 3 and set(found) == {expected}
    assert server.status == 0
