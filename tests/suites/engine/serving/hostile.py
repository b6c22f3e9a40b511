"""Requests that mean harm, as bytes on a socket, and a soak.

`python -m tests.suites.engine.serving.hostile --minutes 30` starts a server in a process of its own, and 64 clients
send it garbage, bombs and good requests.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import http.client
import json
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mutations import mutated

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
Address = tuple[str, int]


def post(path: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A request with a body."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length or len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _tensor(**more: Any) -> dict[str, Any]:
    return {"name": "items", "shape": [2], "datatype": "BYTES", **more}


def good_requests() -> list[bytes]:
    """One of each kind."""
    infer = "/v2/models/words/infer"
    binary = json.dumps({"inputs": [_tensor(parameters={"binary_data_size": 10})]}).encode()
    texts = struct.pack("<I", 1) + b"a" + struct.pack("<I", 1) + b"b"
    ids = {"name": "ids", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}
    return [
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v2/models/words HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
        post("/v1/embeddings", b'{"input": ["a b", "c"], "pooling": "cls", "timeout_ms": 900}'),
        post("/v1/scores", b'{"input": [["a", "b"]]}', "Content-Type: application/json", "Origin: http://localhost"),
        post(infer, json.dumps({"inputs": [_tensor(data=["a", "b"])], "parameters": {"timeout": 10**6}}).encode()),
        post(infer, binary + texts, f"Inference-Header-Content-Length: {len(binary)}"),
        post(infer, json.dumps({"inputs": [ids]}).encode()),
        b"POST /v1/scores HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'f\r\n{"input": ["a"]\r\n1\r\n}\r\n0\r\n\r\n',
    ]


@functools.cache
def bombs() -> dict[str, bytes]:
    """Requests that are small for what they cost, or break what reads them."""
    infer = "/v2/models/words/infer"
    huge = json.dumps({"inputs": [_tensor(data=["a", "b"])], "parameters": {"timeout": 10**400}}).encode()
    many = json.dumps({"inputs": [{"name": "ids", "shape": [0, 2**31 - 1], "datatype": "INT64", "data": []}]}).encode()
    zero = json.dumps(
        {"inputs": [{"name": "ids", "shape": [0] + [2**31 - 1] * 3, "datatype": "INT64", "data": []}]}
    ).encode()
    empty = b'{"inputs": [{"name": "ids", "shape": [1], "datatype": "INT64", "data": ['
    return {
        "a length that is a digit and no number": post(infer, b"{}", "Inference-Header-Content-Length: \xb2"),
        "a timeout of 10^400": post(infer, huge),
        "a timeout that is no float": post("/v1/scores", b'{"input": "a", "timeout_ms": 1e999}'),
        "empty lists": post("/v1/scores", b'{"input": [' + b"[]," * 60_000 + b"[]]}"),
        "empty lists in a tensor": post(infer, empty + b"[]," * 60_000 + b"[]]}]}"),
        "brackets": post("/v1/scores", b"[" * 190_000),
        "an extent beyond all memory": post(infer, many),
        "headers without an end": b"GET /health HTTP/1.1\r\nA: " + b"a" * 400_000,
        "many headers": b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        "trailers without an end": b"POST /v1/scores HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: "
        + b"a" * 400_000,
        "a body that does not come": post("/v1/scores", b"{", length=1000),
        "a thousand requests in one": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000,
        "a page of another site": post("/v1/scores", b'{"input": "a"}', "Origin: https://example.org"),
        "no Host that is ours": b"GET /health HTTP/1.1\r\nHost: example.org\r\n\r\n",
        "an item that holds the lock for ever": post("/v1/scores", b'{"input": "SPIN"}'),
        "an item that fills the memory": post("/v1/scores", b'{"input": "FILL"}'),
        "zero times huge": post(infer, zero),
        "a packed body without an end": post("/v1/scores", gzip.compress(b" " * (64 << 20)), "Content-Encoding: gzip"),
        "an upgrade": b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "silence": b"",
    }


def garbage(rng: random.Random) -> bytes:
    """A good request with some bytes changed, or noise."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(1, 2000))
    return mutated(rng.choice(good_requests()), rng)


def statuses(address: Address, data: bytes, patience: float = 0.2) -> list[int]:
    """Send bytes, whatever they are, and return the statuses that come back in that time."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=5) as connection:
        connection.sendall(data)
        connection.settimeout(patience)
        while part := connection.recv(1 << 16):
            answer += part
    return [int(status) for status in _STATUS.findall(answer)]


def attack(address: Address, count: int, seed: int = 0, threads: int = 16) -> tuple[Counter[int], list[int]]:
    """Send so many damaged requests; returns how often each status came, and the seeds that got 500."""
    counts: Counter[int] = Counter()
    broken: list[int] = []

    def send(first: int) -> None:
        for number in range(seed + first, seed + count, threads):
            found = statuses(address, garbage(random.Random(number)))
            counts.update(found or [0])
            if 500 in found:
                broken.append(number)

    workers = [threading.Thread(target=send, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counts, broken


# -- the soak
def ask(address: Address, text: str) -> int:
    """The status of a good request; 503 means that it must come again."""
    connection = http.client.HTTPConnection(*address, timeout=30)
    connection.request("POST", "/v1/scores", json.dumps({"input": text}))
    status = connection.getresponse().status
    connection.close()
    return status


def resident_bytes(process: int) -> int:
    """Memory of a process that is in use."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


@contextlib.contextmanager
def printed_curve(process: int) -> Iterator[None]:
    """Inside, the memory of a process is printed each minute."""
    stop = threading.Event()

    def tell() -> None:
        start = time.monotonic()
        while not stop.wait(60):
            print(f"{(time.monotonic() - start) / 60:.0f} min: {resident_bytes(process) / 2**20:.1f} MB", flush=True)

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def soak(address: Address, seconds: float, clients: int = 64) -> Counter[str]:
    """Attack for so long; returns what happened how often."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    all_bombs = list(bombs().values())

    def client(number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < end:
            kind = rng.randrange(3)
            if kind == 0:
                try:
                    counts[f"good {ask(address, 'a b c')}"] += 1
                except (OSError, http.client.HTTPException) as error:
                    counts[f"good {type(error).__name__}"] += 1
                continue
            data = rng.choice(all_bombs) if kind == 1 else garbage(rng)
            for status in statuses(address, data) or [0]:
                counts[f"{'bomb' if kind == 1 else 'garbage'} {status}"] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def main() -> int:
    """Start a server, attack it, and tell what became of its memory; 1 where it grew or a good request was lost."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--serve", type=Path, help="(the server itself; used by the script)")
    asked = parser.parse_args()
    if asked.serve:
        return serve(asked.serve)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "tests.suites.engine.serving.hostile", "--serve", folder]
        with (
            tempfile.TemporaryFile("w+") as said,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as process,
        ):
            assert process.stdout
            host, port = process.stdout.readline().strip().rsplit(":", 1)
            address = (host, int(port))
            soak(address, min(180.0, 6 * asked.minutes), asked.clients)  # fills free lists, starts threads
            time.sleep(3)
            before = resident_bytes(process.pid)
            with printed_curve(process.pid):
                counts = soak(address, 60 * asked.minutes, asked.clients)
            time.sleep(3)
            after, alive = resident_bytes(process.pid), ask(address, "a b c")
            process.terminate()
            process.wait()
            said.seek(0)
            log = said.read()
    print(dict(sorted(counts.items())))
    print(f"resident: {before / 2**20:.1f} MB before, {after / 2**20:.1f} MB after ({after / before - 1:+.1%})")
    print(f"a good request afterwards: {alive}; tracebacks in the log: {log.count('Traceback')}")
    good = {name for name in counts if name.startswith("good")}
    broken = good != {"good 200"} or "Traceback" in log or any(name.endswith(" 500") for name in counts)
    return int(broken or after > 1.1 * before)


def serve(folder: Path) -> int:
    """Serve the toy model until SIGTERM."""
    from suites.engine.serving.service import Settings
    from suites.engine.serving.web.server import Place, Server
    from tests.suites.engine.serving import toy

    server = Server(
        toy.model(folder), Settings(name="words", max_body=1 << 20, max_values=50_000, read_seconds=0.5), Place(port=0)
    )
    print(server.url.removeprefix("http://"), flush=True)
    return server.run()


if __name__ == "__main__":
    sys.exit(main())
