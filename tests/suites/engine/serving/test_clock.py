"""A wall clock that jumps by hours ends, delays and corrupts nothing in a server."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from suites.engine.serving.service import Settings
from tests.jumps import HOURS, Jumping
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.test_hostile import address
from tests.suites.engine.serving.web.test_server import ask, busy, problem
from tests.waiting import until


@pytest.fixture
def clock(monkeypatch):
    return Jumping(monkeypatch)


@pytest.mark.parametrize("jump", [7 * HOURS, -7 * HOURS, 40 * 365 * 24 * HOURS])
def test_requests_on_the_way_and_kept_connections_outlive_a_jump(model, clock, jump, tmp_path):
    with toy.running(model, Settings(name="words")) as server, ThreadPoolExecutor(2) as pool:
        kept = http.client.HTTPConnection(*address(server), timeout=20)
        for offset in (0.0, jump, 0.0):
            held = toy.Hold(tmp_path)
            slow = pool.submit(ask, server, "/v1/scores", {"input": held.text, "timeout_ms": 20_000})
            until(lambda: busy(server))
            clock.offset = offset
            kept.request("POST", "/v1/scores", json.dumps({"input": "a"}))
            with kept.getresponse() as response:
                assert response.status == 200 and response.read()
            held.release()
            assert slow.result()[0] == 200
        assert server.said == []


@pytest.mark.parametrize("jump", [7 * HOURS, -7 * HOURS])
def test_what_hangs_is_ended_in_its_time_whatever_the_clock_says(model, clock, jump):
    with toy.running(model, Settings(name="words", read_seconds=0.8)) as server, ThreadPoolExecutor(1) as pool:
        clock.offset = jump
        begun = time.monotonic()
        hung = pool.submit(problem, server, "/v1/scores", {"input": "SPIN"})
        until(lambda: busy(server))
        clock.offset = -jump
        assert hung.result()[0] == 504 and time.monotonic() - begun < 60
        assert ask(server, "/health")[0] == 200
        assert [line for line in server.said if "replaced" not in line] == []
