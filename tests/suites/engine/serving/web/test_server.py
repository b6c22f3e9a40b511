"""The server over real sockets: right answers, one clear message for wrong requests, no request lost, a clean end."""

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.errors import AttributeValueError
from suites.engine.serving.batcher import Limits
from suites.engine.serving.client import Client, ServerError
from suites.engine.serving.service import Settings
from suites.engine.serving.web.server import Place
from tests.suites.engine.serving import toy
from tests.waiting import until


def ask(server, path, body=None, method=None, headers=None):
    """Status, headers and body of one exchange."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response.status, response.headers, data


def busy(server):
    return server.service.workers.busy() > 0


def problem(server, path, body, **options):
    status, _, data = ask(server, path, body, **options)
    return status, json.loads(data)["error"]


def test_embeddings_are_the_models_own_whatever_shares_their_batch(server):
    texts = ["one", "two words", "a longer text of many words " * 20]
    status, _, data = ask(server, "/v1/embeddings", {"input": texts, "model": "words"})
    found = json.loads(data)
    assert status == 200 and found["object"] == "list" and found["model"] == "words"
    assert [row["index"] for row in found["data"]] == [0, 1, 2]
    assert found["usage"] == {"prompt_tokens": 123, "total_tokens": 123}
    for row, text in zip(found["data"], texts, strict=True):
        np.testing.assert_allclose(row["embedding"], toy.vector(text), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", toy.WordsProcessor.poolings)
def test_pooling_is_chosen_by_the_request(server, pooling):
    with Client(server.url) as client:
        found = client.encode(["two words"], pooling=pooling)
    np.testing.assert_allclose(found[0], toy.vector("two words", pooling), rtol=1e-6, atol=1e-7)


def test_vectors_can_have_length_1_and_numbers_equal_base64(server):
    with Client(server.url) as client:
        found = client.encode(["two words"], normalize=True)
    _, _, data = ask(server, "/v1/embeddings", {"input": "two words", "normalize": True})
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-6)
    assert np.float32(json.loads(data)["data"][0]["embedding"]).tolist() == found[0].tolist()


def test_a_cut_text_is_marked(server):
    _, _, data = ask(server, "/v1/embeddings", {"input": ["a", "w " * 600]})
    assert [row["truncated"] for row in json.loads(data)["data"]] == [False, True]


def test_scores_are_the_processors_summaries(server):
    with Client(server.url) as client:
        single, pair = client.score(["a b", ["a", "b"]])
    assert single["score"] == pytest.approx(toy.vector("a b").max())
    assert pair["label"] == int(toy.vector("a | b").argmax())


WRONG = {
    b"": "the body is no valid JSON: EOF",
    b"{": "the body is no valid JSON",
    b"\xff\xfe": "the body is no valid JSON",
    b'{"input": "\xff"}': "invalid unicode code point",
    b'{"input": "\\ud83d alone"}': "the body is no valid JSON",
    b'{"input": NaN, "a": ' + b"[" * 5000: "the body is no valid JSON",
    b"[1]": "the body: input should be an object; got [1]",
    b"{}": "input: is missing",
    b'{"input": "a", "polling": "cls"}': "polling: there is no such key; there are input, model, user, timeout_ms",
    b'{"input": "a", "pooling": "median"}': "pooling: there is no 'median'; there are mean, cls, max",
    b'{"input": "a", "normalize": "yes"}': "normalize: input should be a valid boolean; got 'yes'",
    b'{"input": "a", "timeout_ms": 0}': "timeout_ms: input should be greater than 0; got 0",
    b'{"input": "a", "encoding_format": "hex"}': "encoding_format: input should be 'float' or 'base64'; got 'hex'",
    b'{"input": 7}': "item 0: takes a text or a pair of texts, got 7",
    b'{"input": ["a", null]}': "item 1: takes a text or a pair of texts, got None",
    b'{"input": ["a", ""]}': "item 1: the text is empty",
    b'{"input": ["a", "POISON"]}': "a poisoned text",
}


@pytest.mark.parametrize("body", WRONG, ids=lambda body: body[:30].decode(errors="replace"))
def test_a_wrong_request_gets_400_and_one_clear_message(server, body):
    status, found = problem(server, "/v1/embeddings", body)
    assert status == 400 and WRONG[body] in found and len(found) < 300


def test_what_is_too_large_gets_413(server):
    for body, message in [
        ({"input": ["a"] * 51}, "the request has 51 items; 50 are allowed"),
        ({"input": ["a", "b" * 5001]}, "item 1: has 5001 characters; 5000 are allowed"),
        ({"input": "c" * 200_001}, "bytes; 200000 are allowed"),
    ]:
        status, found = problem(server, "/v1/embeddings", body)
        assert status == 413 and message in found


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.request("POST", "/v1/scores", iter([b"x" * 1000] * 300), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_bodies_are_bounded_all_together(model, held):
    allowed = Settings(name="words", max_bodies=10_000, limits=Limits(max_items=1))
    large = {"input": "a " * 4000}
    with toy.running(model, allowed) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, server, "/v1/scores", {"input": f"{held.text} {large['input']}"})
        until(lambda: busy(server))
        status, headers, data = ask(server, "/v1/scores", large)
        assert (status, headers["Retry-After"]) == (503, "1") and b"requests of 10000 bytes" in data
        held.release()
        assert first.result()[0] == 200
        assert ask(server, "/v1/scores", large)[0] == 200


def test_large_requests_are_answered_beside_the_others(server):
    texts = ["word " * 600] * 50
    with Client(server.url) as client:
        found = client.encode(texts, batch_size=50)
        np.testing.assert_allclose(found, [toy.vector(texts[0])] * 50, rtol=1e-4, atol=1e-5)
        body = {"inputs": [{"name": "items", "shape": [50], "datatype": "BYTES", "data": texts}]}
        (output,) = client.request("POST", "/v2/models/words/infer", body)["outputs"]
        np.testing.assert_allclose(output["data"], found.ravel(), rtol=1e-4, atol=1e-5)


def test_unknown_models_routes_and_methods_are_refused(server):
    assert problem(server, "/v1/scores", {"input": "a", "model": "other"}) == (
        404,
        "there is no model 'other'; there is 'words'",
    )
    assert problem(server, "/v1/nothing", {"input": "a"})[0] == 404
    assert problem(server, "/v1/scores", None)[0] == 405


def test_a_bug_in_the_model_is_500_without_details_and_in_the_log(server):
    status, found = problem(server, "/v1/scores", {"input": "BUG"})
    assert (status, found) == (500, "internal error: KeyError; the log has more")
    assert "a bug" in server.said[-1]


def test_a_request_that_takes_too_long_gets_504_and_others_are_served(server):
    start = time.monotonic()
    status, found = problem(server, "/v1/scores", {"input": "SLEEP 1", "timeout_ms": 100})
    assert status == 504 and "there was no answer within 0." in found
    assert time.monotonic() - start < 0.9
    with Client(server.url) as client:
        assert len(client.score(["after it"])) == 1


def test_health_metrics_and_documentation(server):
    assert ask(server, "/health")[0] == 200
    ask(server, "/v1/scores", {"input": ["a", "b"]})
    _, headers, data = ask(server, "/metrics")
    text = data.decode()
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'paddock_model_info{model="words"} 1.0' in text
    assert 'paddock_requests_total{route="/v1/scores",status="200"}' in text
    assert "paddock_queue_items 0.0" in text and "paddock_batch_items_bucket" in text
    schema = json.loads(ask(server, "/openapi.json")[2])
    body = schema["paths"]["/v1/embeddings"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) >= {"input", "pooling", "normalize"} and body["required"] == ["input"]
    body = schema["paths"]["/v2/models/{model}/infer"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "datatype" in body["properties"]["inputs"]["items"]["properties"]
    assert ask(server, "/docs")[0] == 200


def test_the_path_of_a_stranger_makes_no_new_metric(server):
    ask(server, "/made/up/4711")
    assert b"made" not in ask(server, "/metrics")[2]


def test_a_full_queue_is_503_with_retry_after_and_the_client_comes_back(model, held):
    allowed = Settings(name="words", max_items=2, limits=Limits(max_items=1, max_queue=2))
    with toy.running(model, allowed) as server, ThreadPoolExecutor(3) as pool:
        first = pool.submit(ask, server, "/v1/scores", {"input": held.text})
        until(lambda: busy(server))
        waiting = pool.submit(ask, server, "/v1/scores", {"input": ["a", "b"]})
        until(lambda: server.service.batcher.waiting == 2)
        status, headers, data = ask(server, "/v1/scores", {"input": "c"})
        assert (status, headers["Retry-After"]) == (503, "1") and b"the queue is full: 2 items wait" in data
        held.release()
        with Client(server.url) as client:
            assert len(client.score(["c"])) == 1
        assert first.result()[0] == waiting.result()[0] == 200


def test_a_client_that_leaves_takes_its_items_out_of_the_queue(model, held):
    with toy.running(model, Settings(name="words", limits=Limits(max_items=1))) as server, Client(server.url) as client:
        leave(server, {"input": held.text}, once=lambda: busy(server))
        leave(server, {"input": ["SLEEP 2"] * 20})
        held.release()
        start = time.monotonic()
        assert len(client.score(["a"])) == 1
        assert time.monotonic() - start < 10  # not 40 s
        assert server.service.batcher.waiting == 0
        assert 'status="499"} 2.0' in ask(server, "/metrics")[2].decode()


def leave(server, content, part=1.0, once=None):
    """Send a request, or the first `part` of it, and hang up, `once` that holds."""
    body = json.dumps(content).encode()
    head = f"POST /v1/scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head + body[: int(part * len(body))])
        time.sleep(0.05)
        if once is not None:  # a request whose client has left is not begun
            until(once)


def test_no_request_is_lost_while_64_clients_come_leave_and_talk_nonsense(model):
    allowed = Settings(name="words", workers=2, max_items=50, limits=Limits(max_cost=300, max_items=16, max_queue=500))
    answered, refused = [], []

    def visitor(number):
        rng = random.Random(number)
        with Client(server.url, retries=20) as client:
            for turn in range(8):
                kind = rng.choice(["good", "good", "good", "leave", "cut", "nonsense", "poison"])
                texts = [
                    f"w{number} t{turn} i{i} " + "more " * rng.choice([0, 3, 100])
                    for i in range(rng.choice([1, 5, 32]))
                ]
                if kind == "good":
                    found = client.encode(texts)
                    answered.append(max(np.abs(found[i] - toy.vector(text)).max() for i, text in enumerate(texts)))
                elif kind == "nonsense":
                    refused.append(problem(server, "/v1/scores", rng.randbytes(40))[0])
                elif kind == "poison":
                    refused.append(problem(server, "/v1/scores", {"input": ["a", "POISON", "b"]})[0])
                else:
                    leave(server, {"input": texts}, 1.0 if kind == "leave" else 0.5)
        return True

    with toy.running(model, allowed) as server:
        with ThreadPoolExecutor(64) as pool:
            assert all(pool.map(visitor, range(64)))
        with Client(server.url) as client:
            client.score(["the last"])
        assert server.service.batcher.waiting == 0
    assert len(answered) > 150 and max(answered) < 1e-5
    assert len(refused) > 80 and set(refused) <= {400, 503} and refused.count(400) > 40  # 503: the queue was full
    assert server.status == 0 and server.said == []


def test_the_end_waits_for_what_was_taken(model, held):
    with toy.running(model) as server, ThreadPoolExecutor(1) as pool:
        found = pool.submit(ask, server, "/v1/scores", {"input": held.text})
        until(lambda: busy(server))
        server.stop()
        held.release()
        assert found.result()[0] == 200
    assert server.status == 0


def test_a_dead_worker_is_replaced_and_too_many_deaths_end_the_server(model):
    with toy.running(model) as server, Client(server.url, retries=0) as client:
        for _ in range(3):
            with pytest.raises(ServerError, match="the worker died") as caught:
                client.score(["EXIT"])
            assert caught.value.status == 500
            assert len(client.score(["a"])) == 1 and ask(server, "/v2/health/live")[0] == 200
        with pytest.raises(ServerError):
            client.score(["EXIT"])
        until(lambda: hasattr(server, "status"))
    assert server.status == 1
    assert server.said[-1] == "a worker died (SystemExit: a worker's end); the server ends"


def test_a_stuck_worker_is_not_alive_and_does_not_keep_the_server_from_ending(model):
    with toy.running(model, Settings(name="words", stuck_after=0.2), drain=0.5) as server:
        threading.Thread(target=leave, args=(server, {"input": "SLEEP 8"})).start()
        until(lambda: ask(server, "/v2/health/live")[0] == 503)
        _, _, data = ask(server, "/v2/health/live")
        assert "worker 0 has been busy" in json.loads(data)["error"]
        assert ask(server, "/health")[0] == 503
    assert server.status == 1 and "a worker did not end within" in server.said[-1]


def test_a_guarded_server_answers_who_shows_the_token(model):
    with toy.running(model, token="s3cret") as server:
        for headers in (
            {},
            {"Authorization": "Bearer s3cre"},
            {"Authorization": "s3cret"},
            {"Authorization": "Bearer ü"},
        ):
            status, found, data = ask(server, "/v1/scores", {"input": "a"}, headers=headers)
            assert (status, found["WWW-Authenticate"]) == (401, "Bearer") and b"wants its token" in data
        assert ask(server, "/metrics")[0] == 401 and ask(server, "/v2/health/ready")[0] == 200
        with Client(server.url, token="s3cret") as client:
            assert len(client.score(["a"])) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["input", "pooling", "normalize", "timeout_ms", "inputs", "outputs", "parameters", "id", "x"])
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["items", "ids", "x"]) | JSON,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | JSON,
        "datatype": st.sampled_from(["BYTES", "INT64", "FP32", "BOOL"]) | JSON,
        "data": st.lists(st.integers() | st.text(max_size=5), max_size=5) | JSON,
        "parameters": JSON,
    },
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(["/v1/embeddings", "/v1/scores", "/v2/models/words/infer"]),
    body=st.dictionaries(KEYS, JSON, max_size=4)
    | JSON
    | st.builds(lambda t: {"inputs": t}, st.lists(TENSOR, max_size=2)),
)
def test_no_json_whatever_breaks_the_server(server, path, body):
    status, _, data = ask(server, path, json.dumps(body).encode())
    assert status in (200, 400, 413) and isinstance(json.loads(data), dict)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(AttributeValueError, match="100 items, but only 10 may wait"):
        Settings(max_items=100, limits=Limits(max_queue=10))
    with pytest.raises(AttributeValueError, match="timeout is 0"):
        Settings(timeout=0)


def test_a_port_in_use_is_an_os_error(model, server):
    with pytest.raises(OSError), toy.running(model, port=int(server.url.rsplit(":", 1)[1])):
        pass


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"port": 65536}, "serving: port is 65536; it lies between 0 and 65535"),
        ({"port": -1}, "serving: port is -1; it lies"),
        ({"grpc_port": 70000}, "serving: grpc_port is 70000; it lies"),
        ({"max_connections": 0}, "serving: max_connections is 0; it must be 1 or more"),
        ({"drain": -1.0}, "serving: drain is -1; it must be 0 or more"),
        ({"drain": float("nan")}, "serving: drain is nan; it must be 0 or more"),
        ({"header_seconds": 0.0}, "serving: header_seconds is 0; it must be above 0"),
    ],
)
def test_a_place_that_cannot_be_is_an_error(wrong, said):
    with pytest.raises(AttributeValueError, match=said):
        Place(**wrong)
