#!/usr/bin/env python3
"""Claim: the server answers more sentences a second than a loop that pads each client's batch, on the same cores.

    python benchmarks/serving_vs_padded_loop.py [--checkpoint FOLDER] [--texts FILE] [--threads 2]

The model is MiniLM-L6 of scripts/fetch_minilm, or another BERT in Hugging Face's files. The loop is what
bert-as-service does: one worker takes one request at a time, pads it to its longest sentence and runs it. It stands
behind the same HTTP front, has the same kernels and the same weights. Clients are another process on the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from common import ROOT, Claim, Competitor, compare, data_path, finish, in_turns, lacks, spread, table

sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from suites.engine.serving.service import Service
    from suites.nlp.models.bert import Bert

CLAIMS = {1: Claim("embed_minilm_client_batch_1", 1.5, 2.0), 32: Claim("embed_minilm_client_batch_32", 1.5, 2.0)}
OURS, LOOP = "paddock", "padded loop"
MINILM = ROOT / "cache" / "minilm_l6"
DATA = data_path("nlp/sst2/sst2.zip")


def missing() -> str | None:
    """What a run without options lacks here, and where it comes from; None if it has everything."""
    if not MINILM.is_dir():
        return f"no {MINILM}; run scripts/fetch_minilm"
    return None if DATA.exists() else f"{lacks(DATA)}, or name a file of sentences with --texts"


def sentences(path: Path, count: int) -> list[str]:
    """`count` sentences of a text file, or of the test set of SST-2 in its zip, in an order drawn once."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("test.tsv"))
            lines = [line.split("\t")[0] for line in archive.read(name).decode().splitlines()]
    else:
        lines = path.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.strip()]
    order = np.random.default_rng(0).permutation(len(lines))
    return [lines[order[i % len(lines)]] for i in range(count)]


def padded_predict(encoder: Bert) -> Callable[[list[np.ndarray]], np.ndarray]:
    """A function from texts' ids, one request, to their means [B, D]: padded to the longest, as arrays [B, L]."""
    from framework import Tensor, no_grad, program
    from framework.graph.passes import INFERENCE_PASSES

    def forward(inputs: Mapping[str, Tensor]) -> Tensor:
        return encoder.padded(inputs["ids"], inputs["mask"])[0]

    run = program(forward, pass_names=INFERENCE_PASSES)

    def predict(rows: list[np.ndarray]) -> np.ndarray:
        longest = max(map(len, rows))
        mask = np.arange(longest) < np.array([len(row) for row in rows])[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(rows)
        with no_grad():
            x = run({"ids": ids, "mask": mask}).numpy()
        means: np.ndarray = (x * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return means

    return predict


def loop_service(encoder: Bert) -> type[Service]:
    """The service with its batcher bypassed: each request is one unit that runs alone, padded."""
    from suites.engine.serving.service import Answer, Job, Service

    padded = padded_predict(encoder)

    class Loop(Service):
        async def ask(
            self,
            values: Sequence[Any],
            wants: tuple[str | None, ...],
            *,
            timeout: float | None = None,
            gone: asyncio.Future[Any] | None = None,
        ) -> Answer:
            seconds = self._timeout(timeout)
            read = await self._read(values, [self._check_length(*each) for each in enumerate(values)], seconds, gone)
            ticket = self.batcher.submit([[Job(item, wants) for item in read.items]], [1], timeout=seconds, alone=True)
            (rows,) = await self._wait(ticket, gone)
            return Answer([list(rows)], read.truncated, sum(read.costs), [None] * len(rows))

        def _prepared(self, jobs: list[Any], slow: Callable[[], None]) -> tuple[list[Any], Generator[Any]]:
            (request,) = jobs  # the first run has an item of its own
            return super()._prepared(request if isinstance(request, list) else [request], slow)

        def _runner(self, predict: Any) -> Callable[[Any], list[Any]]:
            def run(prepared: tuple[list[Any], Generator[Any]]) -> list[Any]:
                with contextlib.closing(prepared[1]) as batches:
                    ids = [b["ids"][at:end] for b in batches for at, end in itertools.pairwise(b["offsets"])]
                return [padded(ids)]

            return run

    return Loop


def serve_and_ask(a: argparse.Namespace) -> dict:
    """Start a server in this process and clients in another; return what the clients found."""
    import framework
    from suites.engine.predict.inference import open_model
    from suites.engine.serving.batcher import Limits
    from suites.engine.serving.service import Service, Settings
    from suites.engine.serving.web.server import Place, Server
    from suites.nlp.embedder import export_embedder, open_encoder

    framework.set_num_threads(a.threads)
    settings = Settings(name="minilm", limits=Limits(max_wait=a.max_wait_ms / 1000))
    with tempfile.TemporaryDirectory() as folder:
        export_embedder(a.checkpoint, Path(folder), max_length=128)
        model = open_model(Path(folder))
    made = loop_service(open_encoder(a.checkpoint)) if a.run == LOOP else Service
    with patch("suites.engine.serving.models.Service", made):
        server = Server(model, settings, Place(port=0), say=print)
    assert type(server.service) is made
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        words = ["--client", server.url, "--batch", str(a.batch), "--clients", str(a.clients), "--count", str(a.count)]
        command = [sys.executable, __file__, "--texts", str(a.texts), *words]
        out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    finally:
        server.stop()
        thread.join()
    found = json.loads(out.stdout.splitlines()[-1])
    return {**found, "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def ask(a: argparse.Namespace) -> dict:
    """Ask a server with many clients at once; return sentences a second and latencies."""
    from suites.engine.serving.client import Client

    texts = sentences(a.texts, a.count)
    requests = [texts[i : i + a.batch] for i in range(0, len(texts), a.batch)]
    client = Client(a.client)

    def one(request: list[str]) -> tuple[float, float]:
        start = time.perf_counter()
        vectors = client.encode(request, batch_size=len(request))
        assert len(vectors) == len(request)
        return time.perf_counter() - start, float(np.abs(vectors).sum())

    with ThreadPoolExecutor(a.clients) as pool:
        list(pool.map(one, requests[: 4 * a.clients]))  # connections, plans, packed weights
        start = time.perf_counter()
        found = list(pool.map(one, requests))
        seconds = time.perf_counter() - start
    latencies = 1000 * np.array([latency for latency, _ in found])
    return {
        "rate": round(len(texts) / seconds, 1),
        "unit": "sentences/s",
        "step_ms": round(float(np.median(latencies)), 2),
        "p50_ms": round(float(np.percentile(latencies, 50)), 1),
        "p99_ms": round(float(np.percentile(latencies, 99)), 1),
        "sum": round(sum(total for _, total in found), 1),
    }


def options() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=MINILM, help="folder with config.json, weights, vocab.txt")
    parser.add_argument("--texts", type=Path, default=DATA, help="a file with a sentence a line, or SST-2's zip")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-wait-ms", type=float, default=0.0)
    parser.add_argument("--batches", type=int, nargs="*", default=sorted(CLAIMS), help="sentences of a request")
    parser.add_argument("--clients", type=int, help="requests at a time; default: 32 of 1 sentence, 8 of 32")
    parser.add_argument("--count", type=int, default=1600, help="sentences")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--run", choices=(OURS, LOOP), help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    return parser


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    a = options().parse_args(words)
    if a.client or a.run:
        print(json.dumps(ask(a) if a.client else serve_and_ask(a)))
        return []
    results = []
    for batch in a.batches:
        clients = a.clients or max(8, 32 // batch)
        same = ["--texts", a.texts, "--threads", a.threads, "--max-wait-ms", a.max_wait_ms, "--count", a.count]
        rest = [str(word) for word in (*same, "--batch", batch, "--clients", clients)]
        command = [sys.executable, __file__, "--checkpoint", str(a.checkpoint)]
        found = in_turns([Competitor(name, [*command, "--run", name, *rest]) for name in (OURS, LOOP)], a.rounds)
        claim = CLAIMS.get(batch, Claim(f"embed_minilm_client_batch_{batch}", 1.5, 2.0))
        results.append({**compare(claim, found, LOOP), "latency_ms": {}})
        for name, rounds in found.items():
            p50, p99 = ([each[key] for each in rounds] for key in ("p50_ms", "p99_ms"))
            results[-1]["latency_ms"][name] = {"p50": p50, "p99": p99}
            print(f"{claim.case}, {clients} clients: {name}: p50 {spread(p50, 1)} ms, p99 {spread(p99, 1)} ms")
    print(table(results))
    finish("serving_vs_padded_loop", results, a.json)
    return results


if __name__ == "__main__":
    main()
