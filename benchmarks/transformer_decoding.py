#!/usr/bin/env python3
"""Claim: keys and values kept between steps make decoding twice as fast or more, and the words stay the same.

    python benchmarks/transformer_decoding.py [--rounds 3] [--threads 2]

A Transformer of the published base size (6 + 6 layers, width 512; random weights, so nothing stops early) translates 4
sources of 16 to 32 words into 32 words each, greedily and with a beam of 4, with the cache and without in turns.
Without it every step decodes all words so far again. The encoder is part of both times.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import finish, spread

import framework
from framework import nn
from suites.nlp.models.decoding import decode
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Hypothesis, Search

WORDS, SOURCES, LENGTH = 8000, 4, 32
AT_LEAST = 2.0


def translate(model: Transformer, beam: int, cached: bool) -> tuple[float, list[list[Hypothesis]]]:
    """Seconds, and the results."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(16, LENGTH + 1, SOURCES)
    source, offsets = rng.integers(3, WORDS, lengths.sum()), np.cumsum([0, *lengths])
    start = time.perf_counter()
    found = decode(model, source, offsets, Search(beam=beam, max_length=LENGTH, cached=cached))
    return time.perf_counter() - start, found


def measure(model: Transformer, beam: int, rounds: int) -> dict:
    """Times with and without the cache, in turns; raises RuntimeError where the words differ."""
    times: dict[bool, list[float]] = {True: [], False: []}
    words = 0
    for _ in range(rounds):
        found = {}
        for cached in (True, False):
            seconds, found[cached] = translate(model, beam, cached)
            times[cached].append(seconds)
        ids = {cached: [[h.ids for h in own] for own in results] for cached, results in found.items()}
        if ids[True] != ids[False]:
            raise RuntimeError(f"beam {beam}: the words with and without the cache differ")
        words = sum(len(own[0].ids) for own in found[True])
    return {
        "beam": beam,
        "words_per_second": [words / t for t in times[True]],
        "without": [words / t for t in times[False]],
        "ratios": [b / a for a, b in zip(times[True], times[False], strict=True)],
        "least": AT_LEAST,
    }


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by beam."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    a = parser.parse_args(words)
    framework.set_num_threads(a.threads)
    model = Transformer(WORDS, WORDS, 512, 8, 2048, 6, 6, max_length=128)
    nn.init.initialize(model, seed=0)
    results = [measure(model, beam, a.rounds) for beam in (1, 4)]
    print("| beam | words/s with cache | without | ratio | at least |\n| --- | --- | --- | --- | --- |")
    for r in results:
        print(
            f"| {r['beam']} | {spread(r['words_per_second'], 0)} | {spread(r['without'], 0)} | {spread(r['ratios'])} | "
            f"{r['least']} |"
        )
    finish("transformer_decoding", results, a.json)
    return results


if __name__ == "__main__":
    main()
