#!/usr/bin/env python3
"""Claims of the generation engine, each within one run on the same cores, random weights of a 135M Llama form:

- 8 clients whose texts share steps (continuous batching) get at least 3 times the tokens/s of one after the other;
- a common prefix of 1,000 tokens goes through the network once;
- one request is written at a share of the memory's bandwidth, which is measured beside it.

    python benchmarks/generation.py [--rounds 3] [--threads 2] [--eight-bits]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, SMOLLM2_135M

sys.path.insert(0, str(ROOT))

import framework
from framework import random
from framework.errors import NotSupportedError
from suites.engine.contract.capabilities.generating import ChoosesTogether, Prompt, Sampling
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits, Piece, Wish
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.paged import PagedSteps
from suites.nlp.writing import Search
from suites.nlp.writing.sampling import Sampler

LEAST = 3.0  # continuous batching against one after the other, at 8 clients


class Network:
    """A `TextGenerator` of tokens alone; no token ends a text."""

    context, longest_source, pages, page = 2048, 0, 768, 16
    stops: frozenset[int] = frozenset()
    temperature = 0.8
    new_tokens: int | None = None

    def __init__(self, model: LanguageModel, *, int8: bool) -> None:
        self._steps = PagedSteps(model, pages=self.pages, page=self.page, int8=int8)
        self.cache_bytes = self.pages * PagedSteps.bytes_of_page(model, self.page)

    def encode(self, text: str) -> Prompt:
        """Raises NotSupportedError, as `encode_chat` does: prompts come as tokens."""
        raise NotSupportedError("Network: takes tokens")

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> Prompt:
        """See `encode`."""
        raise NotSupportedError("Network: takes tokens")

    def text(self, ids: Sequence[int]) -> str:
        """Nothing is read of it."""
        return "." * len(ids)

    def chooser(self, sampling: Sampling, number: int, prompt: Sequence[int]) -> Sampler:
        """By the settings of a chat."""
        return Sampler(Search(temperature=self.temperature, top_k=50, seed=sampling.seed), number, prompt)

    def beams(
        self, sampling: Sampling, results: int, prompt: Prompt, room: int, stops: Sequence[str]
    ) -> ChoosesTogether:
        """Raises NotSupportedError: no text here has hypotheses."""
        raise NotSupportedError("Network: writes token by token")

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """See `TextGenerator`."""
        self._steps.copy(pages, to)

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Raises NotSupportedError: a language model has no source."""
        raise NotSupportedError("Network: has no source")

    def step(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """See `TextGenerator`."""
        return self._steps(arrays)


class Client:
    """Asks for one text and notes when its tokens come."""

    def __init__(self, engine: Engine, prompt: list[int], new_tokens: int, seed: int) -> None:
        self.times, self.text, self.done = [time.perf_counter()], "", threading.Event()
        wish = Wish(Prompt(prompt), new_tokens, sampling=Sampling(seed=seed), client=f"client {seed}")
        self.ticket = engine.submit(wish, self.take)

    def take(self, piece: Piece) -> None:
        """A piece."""
        self.times.append(time.perf_counter())
        if piece.error:
            raise piece.error
        if piece.finish:
            self.done.set()


def texts(network: Network, clients: int, together: int, prompt: int, new_tokens: int) -> dict:
    """Tokens/s of so many clients, of whose texts `together` share steps, and the gaps between tokens in ms."""
    engine = Engine(network, EngineLimits(sequences=together, new_tokens=new_tokens), print)
    engine.start()
    rng, start = np.random.default_rng(0), time.perf_counter()
    own = [Client(engine, rng.integers(0, 49152, prompt).tolist(), new_tokens, k) for k in range(clients)]
    for client in own:
        client.done.wait()
    seconds = time.perf_counter() - start
    engine.close(5)
    gaps = np.concatenate([np.diff(client.times[1:]) for client in own]) * 1e3
    first = [1e3 * (client.times[1] - client.times[0]) for client in own]
    return {
        "tokens_per_s": clients * new_tokens / seconds,
        "gap_p50_ms": float(np.percentile(gaps, 50)),
        "gap_p99_ms": float(np.percentile(gaps, 99)),
        "first_p50_ms": statistics.median(first),
    }


def prefix(network: Network, length: int, clients: int) -> dict:
    """What a common prefix costs: tokens through the network, and seconds to the first token, before and after."""
    engine = Engine(network, EngineLimits(), print)
    engine.start()
    common = np.random.default_rng(1).integers(0, 49152, length).tolist()
    waits, computed = [], []
    for k in range(clients):
        before = engine.computed
        client = Client(engine, [*common, k + 1, k + 2], 1, k)
        client.done.wait()
        waits.append(client.times[1] - client.times[0])
        computed.append(engine.computed - before)
    engine.close(5)
    return {"first_s": waits[0], "later_s": statistics.median(waits[1:]), "computed": computed}


def bandwidth(threads: int) -> float:
    """GB/s of reading 768 MB by so many threads, the best of five."""
    data = np.ones(768 * 2**18, np.float32)
    parts = np.array_split(data, threads)
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.add.reduce, parts))
            best = max(best, data.nbytes / (time.perf_counter() - start) / 1e9)
    return best


def alone(network: Network, weights: int, threads: int) -> dict:
    """Steps of one request behind 100 tokens: ms, GB/s of weights, and their share of the bandwidth beside it."""
    arrays = {
        "ids": np.array([5]), "offsets": np.array([0, 1]), "tables": np.arange(128)[None],
        "lengths": np.array([100]), "rows": np.array([0]),
    }  # fmt: skip
    network.step(arrays)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        network.step(arrays)
        times.append(time.perf_counter() - start)
    step, memory = statistics.median(times), bandwidth(threads)
    rate = weights / step / 1e9
    return {"step_ms": 1e3 * step, "weights_gb_s": rate, "memory_gb_s": memory, "share": rate / memory}


def main() -> int:
    """Measure, print, and return 1 where the least ratio is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--eight-bits", action="store_true", help="weights of products in 8 bits")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args()
    framework.set_num_threads(a.threads)
    random.seed(0)
    model = LanguageModel(**SMOLLM2_135M, max_length=2048)
    network = Network(model, int8=a.eight_bits)
    count = sum(int(np.prod(p.shape)) for p in model.parameters())
    size = count * (1 + 4 / 64 if a.eight_bits else 4)
    rounds = []
    for _ in range(a.rounds):
        together = texts(network, a.clients, a.clients, a.prompt, a.new_tokens)
        one = texts(network, a.clients, 1, a.prompt, a.new_tokens)
        single = alone(network, int(size), a.threads)
        rounds.append({"together": together, "one": one, "alone": single})
        ratio = together["tokens_per_s"] / one["tokens_per_s"]
        print(
            f"{a.clients} clients: {together['tokens_per_s']:.1f} tokens/s together, {one['tokens_per_s']:.1f} one "
            f"after the other, {ratio:.2f}x; next token p50 {together['gap_p50_ms']:.0f} ms, "
            f"p99 {together['gap_p99_ms']:.0f} ms; alone {single['step_ms']:.1f} ms a token, "
            f"{single['weights_gb_s']:.1f} of {single['memory_gb_s']:.1f} GB/s ({100 * single['share']:.0f} %)",
            flush=True,
        )
    found = prefix(network, 1000, 4)
    print(
        f"a prefix of 1,000 tokens: {found['first_s']:.2f} s to the first token, then {found['later_s']:.2f} s; tokens "
        f"through the network: {found['computed']}"
    )
    ratios = [r["together"]["tokens_per_s"] / r["one"]["tokens_per_s"] for r in rounds]
    if a.json:
        a.json.write_text(json.dumps({"rounds": rounds, "prefix": found, "ratio": statistics.median(ratios)}, indent=1))
    if statistics.median(ratios) < LEAST:
        print(f"the ratio is below {LEAST}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
