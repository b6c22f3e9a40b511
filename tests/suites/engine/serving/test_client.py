"""The client: batches of any size, connections that are used again, patience with a server that is busy or away."""

import contextlib
import http.server
import json
import threading

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.engine.serving import client as client_module
from suites.engine.serving.client import Client, ServerError
from tests.suites.engine.serving import toy


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Pauses that the client makes, without making them."""
    made = []
    monkeypatch.setattr(client_module.time, "sleep", made.append)
    return made


@contextlib.contextmanager
def scripted(*answers):
    """A server that gives these answers, (status, headers, content) or "hang up", and counts connections."""
    script = list(answers)
    seen = {"connections": 0, "requests": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            seen["connections"] += 1

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            seen["requests"] += 1
            if script[0] == "hang up":
                script.pop(0)
                self.close_connection = True
                return
            status, headers, content = script.pop(0)
            data = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


GOOD = (200, {}, {"data": [{"result": 1}]})
FULL = (503, {"Retry-After": "3"}, {"error": "the queue is full"})


def test_many_texts_go_in_parts_and_come_back_in_order(server):
    texts = [f"text {i}" for i in range(23)]
    with Client(server.url) as client:
        found = client.encode(iter(texts), batch_size=5)
    assert found.shape == (23, toy.WIDTH) and found.dtype == np.float32
    np.testing.assert_allclose(found, [toy.vector(text) for text in texts], rtol=1e-5, atol=1e-6)


def test_no_texts_give_no_vectors(server):
    with Client(server.url) as client:
        assert client.encode([]).shape == (0, 0) and client.score([]) == []


def test_a_connection_is_used_again():
    with scripted(GOOD, GOOD, GOOD) as (url, seen), Client(url) as client:
        assert client.score(["a", "b", "c"], batch_size=1) == [1, 1, 1]
        assert seen == {"connections": 1, "requests": 3}


def test_a_full_queue_and_a_lost_connection_are_tried_again_with_pauses(pauses):
    with scripted(FULL, "hang up", FULL, GOOD) as (url, seen), Client(url) as client:
        assert client.score(["a"]) == [1]
        assert seen["requests"] == 4
    assert 1.5 <= pauses[0] <= 3 and 0.1 <= pauses[1] <= 0.2 and 1.5 <= pauses[2] <= 3


def test_a_refusal_is_not_tried_again_and_says_why(pauses):
    with scripted((400, {}, {"error": "item 0: the text is empty"})) as (url, seen), Client(url) as client:
        with pytest.raises(ServerError, match="/v1/scores: status 400: item 0: the text is empty") as caught:
            client.score([""])
        assert caught.value.status == 400 and seen["requests"] == 1 and pauses == []


def test_patience_ends(pauses):
    with scripted(FULL, FULL) as (url, _), pytest.raises(ServerError, match="status 503: the queue is full"):
        Client(url, retries=1).score(["a"])
    with pytest.raises(ServerError, match=r"127\.0\.0\.1") as caught:
        Client("http://127.0.0.1:9", retries=1).score(["a"])
    assert caught.value.status == 0 and len(pauses) == 2


def test_wrong_use_is_refused():
    for url in ("127.0.0.1:8080", "ftp://x", "http://"):
        with pytest.raises(AttributeValueError, match="is no address"):
            Client(url)
    with pytest.raises(AttributeValueError, match="not one text"):
        Client("http://x").encode("one text")
    with pytest.raises(AttributeValueError, match="batch_size is 0"):
        Client("http://x").encode(["a"], batch_size=0)
