#!/usr/bin/env python3
"""Translations whose steps are shared, against one after the other, and whether they are the same texts.

    python benchmarks/translations.py runs/ende captions.txt [--texts 64] [--rounds 3] [--beam 1] [--weights FILE]

In each round, in turns: texts of one client, each behind the one before; the same of eight; of 32. A step reads the
decoder's weights and the word vectors once, whoever shares it: the floor of a shared step is that of a single one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from queue import Queue

from common import ROOT

sys.path.insert(0, str(ROOT))

from suites.engine.contract.capabilities.generating import CacheSettings, Sampling
from suites.engine.predict.inference import open_model
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits, Piece, Wish

TOGETHER = (1, 8, 32)


def written(engine: Engine, texts: list[str], together: int, beam: int) -> tuple[list[str], int, float]:
    """What is written to texts, `together` of which are asked for at a time; tokens and seconds."""
    pieces: Queue[tuple[int, Piece]] = Queue()
    found, tokens, asked, left = [""] * len(texts), 0, 0, len(texts)
    sampling, start = Sampling(temperature=0.0, beam=beam), time.monotonic()

    def take(k: int, piece: Piece) -> None:
        pieces.put((k, piece))

    while left:
        while asked < len(texts) and asked - (len(texts) - left) < together:
            prompt = engine.generator.encode(texts[asked])
            engine.submit(Wish(prompt, sampling=sampling), partial(take, asked))
            asked += 1
        k, piece = pieces.get(timeout=120)
        if piece.error is not None:
            raise piece.error
        found[k] += piece.text
        if piece.finish is not None:
            left -= 1
            tokens += piece.tokens
    return found, tokens, time.monotonic() - start


def main() -> None:
    """Print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path, help="a text a line")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beam", type=int, default=1)
    a = parser.parse_args()
    texts = a.file.read_text(encoding="utf-8").splitlines()[: a.texts]
    model = open_model(a.run, a.weights)
    assert model.generator is not None, "its steps are not computed in pages"
    rates: dict[int, list[float]] = {count: [] for count in TOGETHER}
    first = None
    for _ in range(a.rounds):
        for count in TOGETHER:
            engine = Engine(model.generator(CacheSettings()), EngineLimits(sequences=count * a.beam), print)
            engine.warm_up()
            engine.start()
            found, tokens, seconds = written(engine, texts, count, a.beam)
            assert engine.close(10)
            rates[count].append(tokens / seconds)
            first = first or found
            assert found == first, "other texts in company"
    for count, own in rates.items():
        ratios = [many / one for many, one in zip(own, rates[1], strict=True)]
        print(
            f"{count:3} together: {statistics.median(own):8.0f} tokens/s, {statistics.median(ratios):.2f}x "
            f"[{min(ratios):.2f}, {max(ratios):.2f}] of one after the other"
        )
    print(json.dumps({"texts": len(texts), "tokens_per_s": rates}))


if __name__ == "__main__":
    main()
