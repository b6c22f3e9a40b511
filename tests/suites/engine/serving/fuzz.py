"""Damaged requests to a server: `python -m tests.suites.engine.serving.fuzz --seconds 3600`.

Framing, headers, JSON, packed and binary bodies are mutated. A status of 500, a traceback in the log, health that
takes more than two seconds, and memory that grows by more than 300 MB are findings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path

from suites.engine.serving.service import Settings
from tests.mutations import mutated
from tests.suites.engine.serving import hostile, toy

SECONDS, BYTES = 2.0, 300 << 20
_OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")


def more_requests() -> list[bytes]:
    """Kinds that the soak does not have."""
    text = b'{"input": "a b"}'
    row = {"name": "ids", "shape": [0, 2**31 - 1, 2**31 - 1], "datatype": "INT64", "data": []}
    return [
        hostile.post("/v1/scores", text, *_OFFER),
        hostile.post("/v1/scores", gzip.compress(text), "Content-Encoding: gzip"),
        hostile.post("/v2/models/words/infer", json.dumps({"inputs": [row]}).encode()),
        b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
    ]


def request(rng: random.Random) -> bytes:
    """One or several requests, damaged."""
    kinds = [*hostile.good_requests(), *more_requests(), *hostile.bombs().values()]
    parts = [rng.choice(kinds)[: 1 << 16] for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    return b"".join(mutated(part, rng) if part and rng.random() < 0.7 else part for part in parts)


def findings(seed: int, seconds: float, threads: int = 8, most: float = SECONDS) -> tuple[int, list[str]]:
    """How many inputs were tried in so many seconds, and what went wrong; health may take `most` seconds."""
    found: list[str] = []
    tried = [0] * threads
    with (
        tempfile.TemporaryDirectory() as folder,
        toy.running(toy.model(Path(folder)), Settings(name="words", read_seconds=0.3)) as server,
    ):
        host, port = server.url.removeprefix("http://").split(":")
        address = (host, int(port))
        hostile.statuses(address, hostile.good_requests()[2])
        hostile.bombs()  # packing them takes its time
        before, end = hostile.resident_bytes(os.getpid()), time.monotonic() + seconds

        def send(first: int) -> None:
            while time.monotonic() < end:
                number = seed + first + threads * tried[first]
                statuses = hostile.statuses(address, request(random.Random(number)), patience=0.1)
                tried[first] += 1
                if 500 in statuses:
                    found.append(f"seed {number}: 500")

        workers = [threading.Thread(target=send, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            start = time.monotonic()
            hostile.statuses(address, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 10)
            if time.monotonic() - start > most:
                found.append(f"health took {time.monotonic() - start:.1f} s near seed {seed + max(tried) * threads}")
            time.sleep(0.2)
        grown = hostile.resident_bytes(os.getpid()) - before
        if grown > BYTES:
            found.append(f"memory grew by {grown >> 20} MB")
        if hostile.ask(address, "a b c") != 200:
            found.append("a good request afterwards is not answered")
        found += [line for line in server.said if "Traceback" in line]
    return sum(tried), found


def main() -> int:
    """Try until the time is over; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    tried, found = findings(asked.seed, asked.seconds)
    print(f"{tried} inputs from seed {asked.seed}: {len(found)} findings")
    print("\n".join(found[:20]))
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
