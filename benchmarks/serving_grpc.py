"""The inference protocol over gRPC against HTTP: the same arrays to the same server, in turns.

`python benchmarks/serving_grpc.py EXPORT [--rounds N]` serves an exported model. In each round clients in another
process send the network's own arrays, first over HTTP with the binary extension, then over gRPC, then the other way
round in the next. It prints requests a second of both, the ratio of each round, and the waits.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT
from serving_models import told_of

sys.path.insert(0, str(ROOT))

from suites.engine.predict.inference import open_model
from suites.engine.serving.models import Offer, Share
from suites.engine.serving.service import Settings
from suites.engine.serving.versions import Source
from suites.engine.serving.web.protocol import HEADER, datatype_of
from suites.engine.serving.web.rpc import SERVICE
from suites.engine.serving.web.rpc_messages import MESSAGES
from suites.engine.serving.web.server import Place, Server


def http_request(arrays: dict[str, np.ndarray]) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a request."""
    rows = [
        {
            "name": name,
            "shape": list(array.shape),
            "datatype": datatype_of(str(array.dtype)),
            "parameters": {"binary_data_size": array.nbytes},
        }
        for name, array in arrays.items()
    ]
    head = json.dumps({"inputs": rows, "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(array.tobytes() for array in arrays.values()), {HEADER: str(len(head))}


def grpc_request(arrays: dict[str, np.ndarray]) -> bytes:
    """The message of a call."""
    made = MESSAGES["ModelInferRequest"](model_name="model")
    for name, array in arrays.items():
        made.inputs.add(name=name, datatype=datatype_of(str(array.dtype)), shape=array.shape)
        made.raw_input_contents.append(array.tobytes())
    data: bytes = made.SerializeToString()
    return data


def clients(kind: str, address: str, arrays: dict[str, np.ndarray], count: int, seconds: float, told: Any) -> None:
    """Ask over `count` connections, again as soon as there is an answer; puts the seconds of each."""
    waits: list[float] = []
    end = time.monotonic() + seconds

    def over_http() -> None:
        connection = HTTPConnection(address, timeout=60)
        body, headers = http_request(arrays)
        while (start := time.monotonic()) < end:
            connection.request("POST", "/v2/models/model/infer", body, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status == 200, data[:200]
            waits.append(time.monotonic() - start)

    def over_grpc() -> None:
        import grpc

        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(address, options) as channel:
            call = channel.unary_unary(f"/{SERVICE}/ModelInfer")
            data = grpc_request(arrays)
            while (start := time.monotonic()) < end:
                MESSAGES["ModelInferResponse"].FromString(call(data, wait_for_ready=True))
                waits.append(time.monotonic() - start)

    work = over_http if kind == "http" else over_grpc
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(waits)


def asked(kind: str, server: Server, arrays: dict[str, np.ndarray], count: int, seconds: float) -> list[float]:
    """What clients in another process saw."""
    context = get_context("spawn")
    told = context.Queue()
    address = server.url.removeprefix("http://") if kind == "http" else server.grpc_address
    process = context.Process(target=clients, args=(kind, address, arrays, count, seconds, told))
    process.start()
    found: list[float] = told.get(timeout=seconds + 120)
    process.join()
    return found


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("export", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--clients", type=int, default=4)
    a = parser.parse_args()
    types = open_model(a.export).types
    inputs = open_model(a.export).inputs
    rng = np.random.default_rng(0)
    arrays = {
        name: (rng.random(types[name][1]) if "float" in types[name][0] else np.zeros(types[name][1])).astype(
            types[name][0]
        )
        for name in inputs
    }
    offer = Offer("model", (Share(Source(a.export, lambda path: open_model(path)), 1.0),))
    server = Server([offer], Settings(name="model"), Place(port=0, grpc_port=0), say=print)
    thread = threading.Thread(target=server.run)
    thread.start()
    rates: dict[str, list[float]] = {"http": [], "grpc": []}
    waits: dict[str, list[float]] = {"http": [], "grpc": []}
    try:
        asked("grpc", server, arrays, 1, 1.0)
        for number in range(a.rounds):
            for kind in ("http", "grpc") if number % 2 == 0 else ("grpc", "http"):
                found = asked(kind, server, arrays, a.clients, a.seconds)
                rates[kind].append(len(found) / a.seconds)
                waits[kind].append(1000 * float(np.median(found)))
    finally:
        server.stop()
        thread.join()
    sent = sum(array.nbytes for array in arrays.values())
    print(f"{sent / 2**20:.2f} MB a request, {a.clients} clients")
    for kind in rates:
        print(
            told_of(f"{kind}: requests a second", rates[kind], "%.1f"), told_of("median wait, ms", waits[kind], "%.1f")
        )
    ratios = [g / h for g, h in zip(rates["grpc"], rates["http"], strict=True)]
    print(told_of("gRPC / HTTP", ratios, "%.2f"), "(asked: 1)")


if __name__ == "__main__":
    main()
