#!/usr/bin/env python3
"""Claim: the first training step of a new model is done less than 2 seconds after the process starts.

    python benchmarks/first_step.py [CASE ...] --peer-python PYTHON

A fresh process imports, builds the model, traces, plans and runs a few steps; all but one usual step is taken off its
wall time: what is left is start to end of the first step. The same is done with PyTorch, eager and compiled.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from common import OURS, Claim, add_options, chosen_cases, finish, in_turns, spread
from training_vs_torch import CLAIMS as TRAINING
from training_vs_torch import competitors

LIMIT_S = 2.0
WARM_UP = 2  # steps before the timed ones, in tools/bench.py and in the peer


def first_step_seconds(measured: Mapping[str, Any]) -> float:
    """From the start of the process to the end of its first step."""
    later = measured["steps"] + WARM_UP - 1
    return float(measured["wall_s"] - later * measured["step_ms"] * 1e-3)


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in TRAINING])
    parser.add_argument("--modes", nargs="+", default=["eager", "compile"])
    parser.set_defaults(seconds=0, cases=["yolov3_mobilenetv1_train_b8_320"])
    a = parser.parse_args(words)
    results = [measure_case(claim, a) for claim in chosen_cases(a, TRAINING)]
    print(f"| case | who | start to first step, s | a usual step, s |\n| --- | --- | --- | --- |\n{rows(results)}")
    print(f"ours is to stay under {LIMIT_S:.0f} s")
    finish("first_step", results, a.json)
    return results


def measure_case(claim: Claim, a: argparse.Namespace) -> dict[str, Any]:
    """Seconds to the first step, and of a usual step, by competitor."""
    found = in_turns(competitors(claim.case, a), a.rounds, a.prefix)
    return {
        "case": claim.case,
        "limit_s": LIMIT_S,
        "first_s": {name: [round(first_step_seconds(m), 3) for m in runs] for name, runs in found.items()},
        "step_s": {name: [m["step_ms"] * 1e-3 for m in runs] for name, runs in found.items()},
    }


def rows(results: Sequence[Mapping[str, Any]]) -> str:
    """The table's lines, ours first."""
    lines = []
    for r in results:
        for name in sorted(r["first_s"], key=lambda name: name != OURS):
            usual = statistics.median(r["step_s"][name])
            lines.append(f"| {r['case']} | {name} | {spread(r['first_s'][name])} | {usual:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
