"""What other clients send is answered as they expect: offers of HTTP/2, HEAD, gzip, names of models, slow reading."""

import contextlib
import functools
import gzip
import http.client
import json
import socket
import ssl
import threading
import time
import zlib

import pytest
import uvicorn

from suites.engine.serving.service import Settings
from suites.engine.serving.web import http as serving
from tests.suites.engine.serving import hostile, toy
from tests.suites.engine.serving.test_hostile import PEM, address, connected
from tests.suites.engine.serving.web.test_server import ask, problem

INFER = "/v2/models/words/infer"


def tensor(**more):
    return {"name": "ids", "shape": [0, 2**31 - 1, 2**31 - 1], "datatype": "INT64", **more}


@pytest.mark.parametrize("name", ["ids", "items"])
@pytest.mark.parametrize(
    "shape", [[0, 2**31 - 1, 2**31 - 1], [2**31 - 1, 0, 2**31 - 1, 2**31 - 1], [2**31 - 1] * 7 + [0]]
)
@pytest.mark.parametrize("datatype", ["INT64", "BYTES", "BOOL"])
def test_shapes_of_zero_times_huge_are_400_in_json_and_binary(server, name, shape, datatype):
    row = {"name": name, "shape": shape, "datatype": datatype}
    assert problem(server, INFER, {"inputs": [{**row, "data": []}]})[0] == 400
    head = json.dumps({"inputs": [{**row, "parameters": {"binary_data_size": 0}}]}).encode()
    assert problem(server, INFER, head, headers={"Inference-Header-Content-Length": str(len(head))})[0] == 400
    assert not any("Traceback" in line for line in server.said)


def exchange(server, data, split=None):
    """What comes back for bytes, sent in pieces of `split`."""
    answer = b""
    with contextlib.suppress(ConnectionResetError), socket.create_connection(address(server), timeout=5) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for start in range(0, len(data), split or len(data)):
                connection.sendall(data[start : start + (split or len(data))])
                if split:
                    time.sleep(0.0005)
        connection.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while part := connection.recv(1 << 16):
                answer += part
    return answer


OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")


@pytest.mark.parametrize("split", [None, 1, 7, 40])
def test_a_client_that_offers_http2_keeps_its_body(server, split):
    request = hostile.post("/v1/scores", b'{"input": "a b"}', *OFFER)
    assert exchange(server, request, split).startswith(b"HTTP/1.1 200 OK")


def test_offers_in_a_row_on_one_connection_are_all_answered(server):
    request = hostile.post("/v1/scores", b'{"input": "a b"}', *OFFER)
    assert exchange(server, request * 5 + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").count(b"200 OK") == 6


def test_what_wants_to_connect_is_refused(server):
    assert exchange(server, b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("split", [None, 100, 4096, 65536])
@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (65_000, 200), (66_000, 431), (100_000, 431)])
def test_the_bound_of_headers_is_the_same_however_they_come(server, split, size, status):
    lines = b"".join(b"A%03d: %s\r\n" % (i, b"a" * 991) for i in range(size // 1000))
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n"
    assert hostile._STATUS.findall(exchange(server, request, split)) == [str(status).encode()]


@pytest.mark.parametrize("path", ["/health", "/v2/health/ready", "/v2/models/words", "/v1/models", "/metrics"])
def test_head_is_answered_without_a_body(server, path):
    status, _, body = ask(server, path, method="HEAD")
    assert (status, body) == (200, b"")


def test_the_models_are_listed_and_an_unknown_one_is_404(server):
    found = json.loads(ask(server, "/v1/models")[2])
    assert found["object"] == "list" and [row["id"] for row in found["data"]] == ["words"]
    assert json.loads(ask(server, "/v1/models/words")[2])["object"] == "model"
    assert problem(server, "/v1/models/other", None)[0] == 404


def test_no_items_are_400_and_unknown_outputs_404(server):
    assert problem(server, "/v1/scores", {"input": []}) == (400, "input: is empty; it takes one item or more")
    row = {"name": "items", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    assert problem(server, INFER, {"inputs": [row], "outputs": [{"name": "nothing"}]})[0] == 404


def test_no_items_give_vectors_of_the_right_rank(server):
    row = {"name": "items", "shape": [0], "datatype": "BYTES", "data": []}
    (output,) = json.loads(ask(server, INFER, {"inputs": [row], "outputs": [{"name": "embeddings"}]})[2])["outputs"]
    assert output["shape"] == [0, toy.WIDTH] and output["data"] == []


def test_a_packed_body_is_unpacked_within_its_bound(server):
    body = json.dumps({"input": "a b"}).encode()
    packed = {"Content-Encoding": "gzip"}
    assert ask(server, "/v1/scores", gzip.compress(body), headers=packed)[0] == 200
    status, message = problem(server, "/v1/scores", gzip.compress(b" " * (300 << 20)), headers=packed)
    assert (status in (400, 413) and "bytes allowed" in message) or "bytes; 200000" in message
    for wrong in (body, gzip.compress(body)[:-5], gzip.compress(body) + b"x", b""):
        assert problem(server, "/v1/scores", wrong, headers=packed)[0] == 400
    for coding in ("br", "deflate", "gzip, gzip"):
        status, message = problem(server, "/v1/scores", zlib.compress(body), headers={"Content-Encoding": coding})
        assert status == 415 and "there are gzip and identity" in message


def test_a_small_packed_body_that_grows_is_unpacked_beside_the_loop_that_answers_others(server, monkeypatch):
    """64 kB that become 16 MB take a loop tens of milliseconds each, and a flood of them kept health waiting."""
    threads, own = [], serving._unpacked
    monkeypatch.setattr(serving, "_unpacked", lambda *a: (threads.append(threading.current_thread().name), own(*a))[1])
    packed = {"Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * (10 << 20))
    assert len(bomb) < 1 << 16
    assert ask(server, "/v1/scores", bomb, headers=packed)[0] == 413
    assert ask(server, "/v1/scores", gzip.compress(b'{"input": "a"}'), headers=packed)[0] == 200
    assert len(threads) == 2 and threads[0].startswith("asyncio_"), threads


def test_a_slow_reader_of_a_large_answer_gets_all_of_it(model):
    settings = Settings(name="words", max_items=1024, max_body=1 << 20)
    with toy.running(model, settings, header_seconds=0.4) as server:
        texts = ["a b c d e f g h"] * 1000
        request = hostile.post("/v1/embeddings", json.dumps({"input": texts * 1}).encode(), "Connection: close")
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(address(server))
            connection.sendall(request)
            connection.settimeout(20)
            got, begun = 0, time.monotonic()
            while part := connection.recv(4096):
                got += len(part)
                time.sleep(0.02)
        assert got > 150_000 and time.monotonic() - begun > 0.5


def test_a_slow_reader_gets_all_of_what_lies_in_the_systems_buffers(model):
    settings = Settings(name="words", max_items=1024, max_body=1 << 20)
    with toy.running(model, settings, header_seconds=1.0) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address(server))
        one = hostile.post("/v1/embeddings", json.dumps({"input": ["a b c d e f g h"] * 1000}).encode())
        last = hostile.post("/v1/scores", b'{"input": "a"}', "Connection: close")
        threading.Thread(target=connection.sendall, args=(one * 25 + last,)).start()
        connection.settimeout(20)
        got, begun = b"", time.monotonic()
        while time.monotonic() < begun + 4:  # 20 KB a second, far above the slowest that is served
            got += connection.recv(1000)
            time.sleep(0.05)
        while part := connection.recv(1 << 16):
            got += part
        assert got.count(b"HTTP/1.1 200 OK") == 26


def test_a_request_on_a_kept_connection_is_answered_however_long_after_the_last(model, monkeypatch):
    monkeypatch.setattr(uvicorn, "Config", functools.partial(uvicorn.Config, timeout_keep_alive=0.1))
    with toy.running(model) as server:
        connection = http.client.HTTPConnection(*address(server), timeout=20)
        for text in ("a", "SLEEP 0.5", "b"):
            connection.request("POST", "/v1/scores", json.dumps({"input": text}))
            with connection.getresponse() as response:
                assert response.status == 200 and response.read()
            time.sleep(0.3)


def test_requests_before_what_is_none_are_answered_and_nothing_behind_it_is_read(server):
    good = hostile.post("/v1/scores", b'{"input": "a"}')
    for count in (1, 3):
        answers = exchange(server, good * count + b"garbage\r\n\r\n" + good)
        assert answers.count(b"HTTP/1.1 ") == answers.count(b"HTTP/1.1 200 OK") == count
    chunked = good.replace(b"Content-Length: 14", b"Transfer-Encoding: chunked")
    assert exchange(server, chunked).startswith(b"HTTP/1.1 400 ")


def test_a_reader_that_takes_nothing_is_cut(model):
    settings = Settings(name="words", max_items=1024, max_body=1 << 20)
    with toy.running(model, settings, header_seconds=0.3) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(address(server))
        connection.sendall(
            hostile.post("/v1/embeddings", json.dumps({"input": ["a b c d e f g h"] * 1000}).encode()) * 20
        )
        end = time.monotonic() + 20
        connections = server._server.server_state.connections
        while connections and time.monotonic() < end:
            time.sleep(0.05)
        assert not connections


def test_a_flood_of_handshakes_that_do_not_end_keeps_nobody_out(model):
    with toy.running(model, Settings(name="words"), certificate=PEM, key=PEM, header_seconds=1.0) as server:
        stack, _ = connected(server, 150, b"\x16\x03\x01\x02\x00\x01")
        trusted = ssl.create_default_context(cafile=PEM)
        with stack, socket.create_connection(address(server), timeout=10) as plain:
            connection = stack.enter_context(trusted.wrap_socket(plain, server_hostname="localhost"))
            connection.sendall(hostile.post("/v1/scores", b'{"input": "a"}'))
            assert b"200 OK" in connection.recv(1 << 16)


def test_several_models_are_asked_at_once_and_one_that_hangs_leaves_the_other(model, tmp_path):
    offers = [toy.offer("words", model), toy.offer("other", toy.model(tmp_path / "other"))]
    with toy.running(offers, Settings(read_seconds=1.5)) as server:
        hung = threading.Thread(target=ask, args=(server, "/v1/scores", {"input": "SPIN", "model": "words"}))
        hung.start()
        assert ask(server, "/v1/scores", {"input": "a", "model": "other"})[0] == 200
        hung.join()
        assert ask(server, "/v1/scores", {"input": "a", "model": "words"})[0] == 200
