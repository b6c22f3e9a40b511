#!/usr/bin/env python3
"""Claim: in a million vectors of 128 the index finds 98 % of the 10 nearest at ten times the rate of an exact search.

    python benchmarks/neighbours_vs_exact.py [CASE ...] [--rows 1000000]

`drawn` are vectors of length 1 around 10,000 centres, as those of pictures of many things are; `even` are spread
evenly, which is the hardest case and nobody's data. Both sides answer 100 new vectors at a time by one thread. The
exact side is `ItemIndex` without its graph: a product with all vectors. The graph is built once, into a folder that the
rounds share. `recall` is the share of the exact 10 that the graph finds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, add_rows, measure, run_claims, spread, time_steps

DIM, CENTRES, ASKED, NEAR = 128, 10_000, 100, 10
CLAIMS = [Claim("drawn", 10.0, 30.0), Claim("even", 1.0, 10.0)]
_ENVIRONMENT = ["env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1"]


def vectors_of(case: str, rows: int, seed: int) -> np.ndarray:
    """float32 [rows, 128] of length 1; another seed gives others of the same kind."""
    drawn = np.random.default_rng((1, seed))
    found = drawn.standard_normal((rows, DIM), np.float32)
    if case == "drawn":
        centres = np.random.default_rng(0).standard_normal((CENTRES, DIM), np.float32)
        found = centres[drawn.integers(CENTRES, size=rows)] + np.float32(0.7) * found
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def run(a: argparse.Namespace) -> None:
    """Measure one side of one case and print its JSON line."""
    sys.path.insert(0, str(ROOT))
    from suites.engine.neighbours.items import ItemIndex
    from suites.engine.neighbours.wishes import Wish

    (case,) = a.cases
    if a.side == "build":
        start = time.perf_counter()
        index = ItemIndex.build([str(at) for at in range(a.rows)], vectors_of(case, a.rows, 0), small=0)
        index.save(a.folder / case)
        print(json.dumps({"unit": "s", "rate": round(time.perf_counter() - start, 1), "peak_rss_mb": 0}))
        return
    index = ItemIndex.open(a.folder / case)
    exact = ItemIndex(index.names, index.vectors)
    side = index if a.side == OURS else exact
    asked, wishes = vectors_of(case, ASKED, 1), [Wish(NEAR)] * ASKED
    found = time_steps(lambda: side.find(asked, wishes), a.seconds, warmup=1)
    both = zip(index.find(asked, wishes), exact.find(asked, wishes), strict=True)
    recall = np.mean([len({n for n, _ in near} & {n for n, _ in true}) / NEAR for near, true in both])
    rate = round(ASKED / found["step_ms"] * 1e3, 1)
    print(json.dumps({"case": case, "unit": "vectors/s", "rate": rate, "recall": round(float(recall), 4), **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """The graph and the exact search, on one folder."""
    script = [sys.executable, __file__, "--seconds", str(a.seconds), "--rows", str(a.rows), "--folder", str(a.folder)]
    if not (a.folder / case).exists():
        took = measure([*script, "--side", "build", case])["rate"]
        print(f"  {case}: built in {took} s", file=sys.stderr, flush=True)
    return [Competitor(side, [*_ENVIRONMENT, *script, "--side", side, case]) for side in (OURS, "exact")]


def figures(found: dict[str, list[dict]]) -> dict[str, Any]:
    """The recall of each round."""
    return {"recall": [each["recall"] for each in found[OURS]]}


def told(result: Mapping[str, Any]) -> str:
    """A line about a case."""
    return f"{result['case']}: recall@{NEAR} {spread(result['recall'], 3)}"


def options(parser: argparse.ArgumentParser) -> None:
    """--rows, and the folder of the built indexes."""
    add_rows(1_000_000)(parser)
    parser.add_argument("--folder", type=Path, help="for the built indexes; by default a new one, removed at the end")


def main(words: list[str] | None = None) -> list[dict]:
    """Measure in turns and return the results by case."""
    words = list(sys.argv[1:] if words is None else words)
    folder = None if "--folder" in words else tempfile.mkdtemp()
    try:
        more = [] if folder is None else ["--folder", folder]
        return run_claims(
            "neighbours_vs_exact", __doc__, CLAIMS, competitors, run, [*words, *more],
            options=options, figures=figures, told=told,
        )  # fmt: skip
    finally:
        if folder is not None and os.path.isdir(folder):
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
