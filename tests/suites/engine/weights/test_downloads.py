"""A file from a server that does everything wrong: it comes whole, or there is one error and no half file."""

import hashlib
import http.server
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from framework import limits
from framework.errors import CheckpointError, PaddockError
from suites.engine.weights import downloads
from suites.engine.weights.downloads import Wanted, download
from tests.waiting import until

CONTENT = np.random.default_rng(0).bytes(300_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Plan:
    """What the server does, and what it was asked."""

    content: bytes = CONTENT
    cut: int | None = None  # bytes after which each answer's connection is closed
    statuses: list[int] = field(default_factory=list)  # of the first answers
    headers: dict[str, str] = field(default_factory=dict)  # of answers that are no file
    ranges: bool = True
    kind: str = "application/octet-stream"
    to: str = ""  # where it redirects to
    length: bool = True  # whether it says how long an answer is
    slow: float = 0.0  # seconds before each block
    asked: list[str | None] = field(default_factory=list)  # Range of each request


@pytest.fixture
def server():
    """A plan, and the address at which it is carried out."""
    plan = Plan()

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def do_GET(self):
            wanted = self.headers.get("Range")
            plan.asked.append(wanted)
            if plan.statuses:
                self.send_response(plan.statuses.pop(0))
                for name, value in plan.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            if plan.to and self.path == "/w.bin":
                self.send_response(302)
                self.send_header("Location", plan.to)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and plan.ranges else 0
            if begin >= len(plan.content) and begin:
                self.send_response(416)
                return self.end_headers()
            body = plan.content[begin:]
            self.send_response(206 if begin else 200)
            self.send_header("Content-Type", plan.kind)
            if plan.length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            body = body if plan.cut is None else body[: plan.cut]
            for at in range(0, len(body), 10_000):
                if plan.slow:
                    time.sleep(plan.slow)
                try:
                    self.wfile.write(body[at : at + 10_000])
                except OSError:
                    return None
            return None

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield plan, f"http://127.0.0.1:{httpd.server_port}/w.bin"
    httpd.shutdown()
    httpd.server_close()


def get(url, path, **options):
    waits = []
    options = {"sha256": DIGEST, "size": len(CONTENT), "name": "mine"} | options
    found = download(Wanted(url, path, **options), sleep=waits.append)
    assert path.read_bytes() == CONTENT and found == DIGEST
    assert os.listdir(path.parent) == [path.name]
    return waits


def test_a_file_comes_whole_and_once_it_is_there_nothing_is_asked(server, tmp_path):
    plan, url = server
    assert get(url, tmp_path / "a" / "w.bin") == []
    get(url, tmp_path / "a" / "w.bin")
    assert plan.asked == [None]


@pytest.mark.parametrize("known", [{}, {"size": None}, {"size": None, "sha256": DIGEST[:8]}, {"sha256": ""}])
def test_fifty_lost_connections_cost_no_byte_twice(server, tmp_path, known):
    plan, url = server
    plan.cut = 6_000
    waits = get(url, tmp_path / "w.bin", **known)
    assert plan.asked[1:] == [f"bytes={6_000 * k}-" for k in range(1, 50)]
    assert waits == [0.0] * 49, "whoever makes progress does not wait"


def test_a_server_without_ranges_begins_again(server, tmp_path):
    plan, url = server
    part = tmp_path / f".w.bin.{hashlib.sha256(f'{url} {DIGEST}'.encode()).hexdigest()[:8]}.part"
    part.write_bytes(CONTENT[:1000])
    plan.ranges = False
    get(url, tmp_path / "w.bin")


@pytest.mark.parametrize("there", [b"x" * 1000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 5)])
def test_a_part_of_another_file_is_thrown_away(server, tmp_path, there):
    _, url = server
    part = tmp_path / f".w.bin.{hashlib.sha256(f'{url} {DIGEST}'.encode()).hexdigest()[:8]}.part"
    part.write_bytes(there)
    get(url, tmp_path / "w.bin")


def test_a_server_that_is_busy_is_asked_again_when_it_says(server, tmp_path):
    plan, url = server
    plan.statuses, plan.headers = [429, 503, 500], {"Retry-After": "7"}
    assert get(url, tmp_path / "w.bin") == [7.0, 7.0, 7.0]
    plan.statuses, plan.headers = [503], {"Retry-After": "999999999999"}
    assert get(url, tmp_path / "b" / "w.bin") == [60.0]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "9"}, 9.0),
        ({"Date": "Thu, 26 Nov 2026 12:00:00 GMT", "Retry-After": "Thu, 26 Nov 2026 12:00:09 GMT"}, 9.0),
        ({"Date": "Thu, 26 Nov 2026 12:00:00 GMT", "Retry-After": "Thu, 26 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "Thu, 26 Nov 2026 12:00:09 GMT"}, 0.0),
        ({"Retry-After": "soon"}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_pause_that_a_server_asks_for_is_a_number_or_a_date_by_its_own_clock(headers, seconds):
    assert downloads._asked(headers) == seconds


def refused(url, path, match, error=CheckpointError, **options):
    with pytest.raises(error, match=match) as caught:
        get(url, path, **options)
    assert not path.exists() and str(caught.value).count("\n") == 0
    return str(caught.value)


@pytest.mark.parametrize(
    ("status", "match"), [(404, "404 .*there is no such file"), (401, "401 .*login or a token"), (410, "it is gone")]
)
def test_what_is_not_there_is_not_asked_for_twice(server, tmp_path, status, match):
    plan, url = server
    plan.statuses = [status, status]
    said = refused(url, tmp_path / "w.bin", match, remedy="name a mirror")
    assert len(plan.asked) == 1 and said.startswith("mine: http://") and said.endswith("; name a mirror")
    assert os.listdir(tmp_path) == []


def test_a_server_that_stays_busy_is_given_up(server, tmp_path):
    plan, url = server
    plan.statuses = [503] * 9
    refused(url, tmp_path / "w.bin", "the server says 503.*5 times in a row")
    assert len(plan.asked) == 5


def test_nobody_there_is_an_error_that_says_so(tmp_path):
    refused("http://127.0.0.1:9/w.bin", tmp_path / "w.bin", "the connection fails.*refused.*5 times in a row")
    refused(
        "http://no-such-host.invalid/w.bin", tmp_path / "w.bin", "no-such-host.invalid is not known; is there a net"
    )


@pytest.mark.parametrize(
    ("changes", "options", "match"),
    [
        ({"content": CONTENT[:-1] + b"x"}, {}, "has the digest .*, not .*damaged or another file"),
        ({"content": CONTENT[:-1]}, {}, "has 299999 bytes, not 300000"),
        ({"content": CONTENT + b"x"}, {}, "has 300001 bytes, not 300000"),
        ({"kind": "text/html; charset=utf-8"}, {}, "gives a web page and not the file"),
        ({"to": "file:///etc/passwd"}, {}, "Redirection to url 'file:///etc/passwd' is not allowed"),
        ({"to": "/w.bin"}, {}, "redirect error"),
        ({"length": False, "content": CONTENT + b"x" * 999}, {}, "has 300001 bytes, not 300000"),
        ({}, {"sha256": "0" * 8}, "not 00000000"),
    ],
)
def test_another_file_is_refused_and_nothing_of_it_is_left(server, tmp_path, changes, options, match):
    plan, url = server
    for name, value in changes.items():
        setattr(plan, name, value)
    refused(url, tmp_path / "w.bin", match, **options)
    assert os.listdir(tmp_path) == []


def test_a_redirect_is_followed(server, tmp_path):
    plan, url = server
    plan.to = "/elsewhere/w.bin"
    get(url, tmp_path / "w.bin")


def test_a_file_of_unknown_size_is_under_the_limit_of_weights(server, tmp_path):
    _, url = server
    with limits.allow(weight_bytes=200_000):
        refused(url, tmp_path / "w.bin", "200000", error=PaddockError, size=None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("url", ["ftp://example.org/w.bin", "/etc/passwd", "http://a/\nb"])
def test_other_addresses_are_refused(tmp_path, url):
    refused(url, tmp_path / "w.bin", "is no address that files are fetched from")


def test_a_source_that_trickles_is_given_up(server, tmp_path, monkeypatch):
    plan, url = server
    plan.slow = 0.05
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.2)
    monkeypatch.setattr(downloads, "_SLOWEST", 10_000_000)
    refused(url, tmp_path / "w.bin", "sends fewer than")
    refused(url, tmp_path / "b" / "w.bin", "sends fewer than", size=None)


def test_what_a_server_asks_to_wait_counts_against_no_speed(server, tmp_path, monkeypatch):
    plan, url = server
    plan.statuses, plan.headers = [503], {"Retry-After": "1"}
    monkeypatch.setattr(downloads, "_TIMEOUT", 0.5)
    download(Wanted(url, tmp_path / "w.bin", DIGEST, len(CONTENT)))
    assert (tmp_path / "w.bin").read_bytes() == CONTENT


def test_a_full_disk_is_an_error_and_what_came_is_gone_on_with(server, tmp_path, monkeypatch):
    plan, url = server
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        refused(url, tmp_path / "w.bin", "cannot be written .*ulimit -f")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    get(url, tmp_path / "w.bin")
    assert plan.asked == [None, "bytes=100000-"]


def test_a_link_in_the_place_of_a_part_is_not_followed(server, tmp_path):
    _, url = server
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "zoo").mkdir()
    part = tmp_path / "zoo" / f".w.bin.{hashlib.sha256(f'{url} {DIGEST}'.encode()).hexdigest()[:8]}.part"
    part.symlink_to(tmp_path / "victim")
    refused(url, tmp_path / "zoo" / "w.bin", "link")
    assert (tmp_path / "victim").read_bytes() == b"mine"


def _in_child(url, path):
    download(Wanted(url, path, DIGEST, len(CONTENT)))


def test_kill_9_loses_nothing_and_two_processes_download_once(server, tmp_path):
    plan, url = server
    plan.slow = 0.02
    spawn = multiprocessing.get_context("spawn")
    first = spawn.Process(target=_in_child, args=(url, tmp_path / "w.bin"))
    first.start()
    until(lambda: any(p.stat().st_size > 50_000 for p in tmp_path.glob(".*.part")))
    first.kill()
    first.join()
    assert not (tmp_path / "w.bin").exists()
    both = [spawn.Process(target=_in_child, args=(url, tmp_path / "w.bin")) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert len(plan.asked) == 2 and plan.asked[1] is not None, "the second of them waited and found it"
    get(url, tmp_path / "w.bin")
