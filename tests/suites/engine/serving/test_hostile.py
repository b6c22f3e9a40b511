"""A server and the strangers: no request breaks it, none keeps others out, and its health is always told."""

import contextlib
import http.client
import json
import socket
import ssl
from pathlib import Path

import pytest

from suites.engine.serving.service import Settings
from suites.engine.serving.web.http import count_values
from tests.suites.engine.serving import hostile, toy
from tests.suites.engine.serving.web.test_server import ask, busy, problem
from tests.waiting import until

PEM = Path(__file__).with_name("localhost.pem")
SMALL = Settings(name="words", max_body=1 << 20, max_values=50_000)


def address(server):
    host, port = server.url.partition("://")[2].split(":")
    return host, int(port)


@pytest.fixture(scope="module")
def small(model):
    with toy.running(model, SMALL) as found:
        yield found


def test_the_good_requests_that_are_damaged_below_are_good(small):
    for request in hostile.good_requests():
        assert hostile.statuses(address(small), request) == [200]


EXPECTED = {
    "a length that is a digit and no number": [400],
    "a timeout of 10^400": [200],
    "a timeout that is no float": [200],
    "empty lists": [413],
    "empty lists in a tensor": [413],
    "brackets": [413],
    "an extent beyond all memory": [400],
    "headers without an end": [431],
    "many headers": [431],
    "trailers without an end": [],
    "a body that does not come": [],
    "a page of another site": [403],
    "no Host that is ours": [403],
    "an upgrade": [200],
    "silence": [],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_request_that_means_harm_gets_its_status_and_no_traceback(small, name):
    assert hostile.statuses(address(small), hostile.bombs()[name], patience=0.5) == EXPECTED[name]
    assert small.said == []


def fuzz(server, count):
    before = len(server.said)
    counts, broken = hostile.attack(address(server), count)
    assert broken == [] and server.said[before:] == []
    assert counts[400] > count / 10 and not any(status in counts for status in (500, 501, 502))
    assert ask(server, "/v1/scores", {"input": "a b"})[0] == 200


def test_damaged_requests_get_no_500(small):
    fuzz(small, 400)


@pytest.mark.slow
def test_10000_damaged_requests_get_no_500(small):
    fuzz(small, 10_000)


def connected(server, count, data=b""):
    """So many connections that say so much and then nothing."""
    stack = contextlib.ExitStack()
    found = [stack.enter_context(socket.create_connection(address(server))) for _ in range(count)]
    for connection in found:
        connection.sendall(data)
    return stack, found


@pytest.mark.parametrize("data", [b"", b"GET /health HTT", b"POST /v1/scores HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
def test_health_and_metrics_are_told_while_silent_clients_hold_every_connection(model, data):
    with toy.running(model, Settings(name="words"), max_connections=8) as server:
        stack, _ = connected(server, 100, data)
        with stack:
            until(lambda: server.models.inside == (8 if b"POST" in data else 0))
            for path in ("/health", "/v2/health/live", "/v2/health/ready", "/metrics"):
                assert ask(server, path)[0] == 200
            assert ask(server, "/v1/scores", {"input": "a"})[0] == (503 if b"POST" in data else 200)


@pytest.mark.parametrize("data", [b"", b"\r\n", b"GET /health HTTP/1.1\r\nHost: localh"])
def test_slow_headers_and_idle_connections_are_cut(model, data):
    with toy.running(model, Settings(name="words"), header_seconds=0.2) as server:
        stack, (connection,) = connected(server, 1, data)
        with stack, contextlib.suppress(ConnectionResetError):
            connection.settimeout(10)
            assert connection.recv(100) == b""


@pytest.fixture
def with_tls(model):
    """A server that speaks TLS, whose handshakes have 0.3 s."""
    files = {"certificate": PEM, "key": PEM}
    with toy.running(model, Settings(name="words"), header_seconds=0.3, **files) as server:
        yield server


def test_a_server_with_a_certificate_answers_over_tls_alone(with_tls):
    host, port = address(with_tls)
    trusted = ssl.create_default_context(cafile=PEM)
    with contextlib.closing(http.client.HTTPSConnection(host, port, timeout=10, context=trusted)) as connection:
        connection.request("POST", "/v1/scores", b'{"input": "a"}')
        assert connection.getresponse().status == 200
    with contextlib.closing(http.client.HTTPConnection(host, port, timeout=10)) as connection:
        connection.request("GET", "/health")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            connection.getresponse()


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "stalled"])
def test_a_handshake_that_does_not_end_is_cut(with_tls, data):
    stack, (connection,) = connected(with_tls, 1, data)
    with stack, contextlib.suppress(ConnectionResetError):
        connection.settimeout(10)  # asyncio's own time is 60 s
        assert connection.recv(100) == b""


def test_ready_is_false_from_the_moment_a_drain_begins_and_what_was_taken_is_answered(model, held):
    with toy.running(model, Settings(name="words")) as server:
        before = hostile.good_requests()[0]
        stack, (connection,) = connected(
            server, 1, hostile.post("/v1/scores", json.dumps({"input": held.text}).encode())
        )
        with stack:
            until(lambda: busy(server))
            server.stop()
            assert 503 in hostile.statuses(address(server), before)
            assert problem(server, "/v2/health/ready", None)[1] == "it is shutting down"
            status, found = problem(server, "/v1/scores", {"input": "a"})
            assert (status, found) == (503, "the server is shutting down; ask another one")
            held.release()
            connection.settimeout(10)
            assert b"200 OK" in connection.recv(1 << 16)


def test_names_and_sites_that_are_allowed_may_ask(model):
    place = {"hosts": ("model.example.org",), "origins": ("https://shop.example.org",)}
    with toy.running(model, Settings(name="words"), **place) as server:
        for headers, status in (
            ({"Host": "model.example.org:8080"}, 200),
            ({"Host": "127.0.0.1"}, 200),
            ({"Host": "[::1]:80"}, 200),
            ({"Host": "other.example.org"}, 403),
            ({"Origin": "https://shop.example.org"}, 200),
            ({"Host": "model.example.org", "Origin": "http://model.example.org"}, 200),
            ({"Host": "other.example.org", "Origin": "http://other.example.org"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "https://example.org"}, 403),
        ):
            assert ask(server, "/v1/scores", {"input": "a"}, headers=headers)[0] == status, headers


def test_values_of_json_are_counted_and_what_stands_in_texts_is_not():
    assert count_values(b'{"a": [1, 2, {"b": []}]}') == 7
    text = json.dumps({"input": ["[,{" * 5000, '"\\', "\\" * 99]}).encode()
    assert count_values(text) == 5
    assert count_values(b'\\"' * 500_000) == 1  # at once: each quote is looked at once


def test_items_that_are_too_large_once_decoded_are_refused_before_they_are(model, held):
    class Growing(toy.WordsProcessor):
        def decoded_bytes(self, value):
            return 60

    grown = type(model)(Growing(), model.inputs, model.predict, model.replica, model.types)
    with toy.running(grown, Settings(name="words", max_decoded=100, max_decoded_all=150)) as server:
        assert ask(server, "/v1/scores", {"input": "a"})[0] == 200
        status, message = problem(server, "/v1/scores", {"input": ["a", "b"]})
        assert status == 413 and "the items take 120 bytes once decoded; 100 are allowed" in message
        stack, _ = connected(server, 2, hostile.post("/v1/scores", json.dumps({"input": held.text}).encode()))
        with stack:
            until(lambda: server.models.inside == 2 and busy(server))
            status, message = problem(server, "/v1/scores", {"input": "a"})
            held.release()
        assert status == 503 and "items of 150 bytes are being answered" in message


def test_no_error_that_a_client_reads_shows_a_folder_of_either_machine(model):
    infer = "/v2/models/words/infer"
    with toy.running(model) as server:
        status, message = problem(server, "/v1/scores", {"input": "PATH"})
        assert (status, message) == (400, "toy.py:7: 'net.py' (b.c, d/e) http://host/page 1/2")
        bad = {"inputs": [{"name": "ids", "shape": [1], "datatype": "INT64", "data": [10**6]}]}
        status, message = problem(server, infer, bad)
        assert status == 400 and "ids[0] is 1000000" in message and "/" not in message
        server.service.workers.trouble = lambda: f"a worker died in {__file__}:7"
        for path in ("/health", "/v2/health/ready"):
            assert problem(server, path, None) == (503, "a worker died in test_hostile.py:7")
