#!/usr/bin/env python3
"""Steps of recurrent models in pages: 8 texts together against one after the other, in turns, random weights.

python benchmarks/recurrent_steps.py [--rounds 5] [--steps 40]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

from framework import nn
from suites.nlp.models.paged import kind_of
from suites.nlp.models.recurrent_writing import AttentionRnn, RecurrentLanguageModel

TOGETHER, PAGE, SOURCE = 8, 16, 20
MODELS = {
    "LSTM of 2 layers of 650": lambda: RecurrentLanguageModel(10000, 256, "lstm", 650, 2),
    "AttentionRnn of 512": lambda: AttentionRnn(8000, 8000, 256, "lstm", 512, shared=True),
}


def rate(steps: Any, texts: int, count: int, sources: np.ndarray | None) -> float:
    """Tokens a second of `texts` texts that write `count` tokens each."""
    start = time.perf_counter()
    for k in range(count):
        arrays = {
            "ids": np.full(texts, 7 + k),
            "offsets": np.arange(texts + 1),
            "tables": np.arange(8 * texts).reshape(texts, 8),
            "lengths": np.full(texts, k + 1),
            "rows": np.arange(texts),
        }
        if sources is not None:
            arrays |= {"source_tables": sources[:texts], "source_lengths": np.full(texts, SOURCE)}
        steps(arrays)
    return texts * count / (time.perf_counter() - start)


def main() -> None:
    """Print a line a model, and one of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    a = parser.parse_args()
    rates: dict[str, list[tuple[float, float]]] = {}
    for name, make in MODELS.items():
        model = make()
        nn.init.initialize(model, seed=0)
        kind = kind_of(model.eval())
        assert kind is not None
        steps, sources = kind.make(model, pages=400, page=PAGE), None
        if model.tables is not None:
            sources = np.arange(200, 200 + 2 * TOGETHER).reshape(TOGETHER, 2)
            for table in sources:
                steps.read(range(5, 5 + SOURCE), table)
        own = [(rate(steps, 1, a.steps, sources), rate(steps, TOGETHER, a.steps, sources)) for _ in range(a.rounds + 1)]
        rates[name] = own[1:]  # the first round traces the steps
        ratios = [many / one for one, many in rates[name]]
        one, many = (statistics.median(column) for column in zip(*rates[name], strict=True))
        print(
            f"{name}: {one:.0f} tokens/s alone, {many:.0f} of {TOGETHER} together, {statistics.median(ratios):.1f}x "
            f"[{min(ratios):.1f}, {max(ratios):.1f}]"
        )
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
