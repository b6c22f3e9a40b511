#!/usr/bin/env python3
"""The claim of inference_vs_engines.py where other work comes and goes: all engines stay loaded and take short turns.

    python benchmarks/inference_in_turns.py [CASE ...] --peer-python PYTHON

On a shared machine a process that runs for seconds meets another moment than the next one; turns of a quarter of a
second meet the same. A ratio is taken within a turn of all, whose order is drawn anew each time. The table shows the
quickest tenth of the steps, and the median ratio with its quartiles.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from common import OURS, ROOT, Claim, add_options, chosen_cases, finish, has_modules
from inference_vs_engines import CLAIMS, ENGINES

WARM_UPS = 3


def our_step(case: str, threads: int) -> Callable[[], Any]:
    """A step of tools/bench.py."""
    sys.path.insert(0, str(ROOT))
    from framework import set_num_threads
    from tools.bench import CASES

    set_num_threads(threads)
    return CASES[case]()[0]


def engine_step(engine: str, case: str, threads: int) -> Callable[[], Any]:
    """A step of ONNX Runtime or OpenVINO on the ONNX export of PyTorch's network."""
    return importlib.import_module("peers.engine_cases").exported(engine, case, threads)[0]


def serve(engine: str, case: str, threads: int) -> None:
    """What a competitor's process does: for each line with a number of seconds it prints the times of its steps."""
    step = our_step(case, threads) if engine == OURS else engine_step(engine, case, threads)
    for _ in range(WARM_UPS):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        step()  # the caches hold another engine's weights
        times: list[float] = []
        end = time.perf_counter() + float(line)
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        print(json.dumps(times), flush=True)


class Server:
    """A process that says "ready", and for each line with a number of seconds works so long and prints JSON."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while self._line() != "ready":  # an exporter may have something to say first
            pass

    def turn(self, seconds: float) -> Any:
        """What it prints after about so many seconds."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        return json.loads(self._line())

    def stop(self) -> None:
        """End the process and wait for it."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended with status {self._process.wait()}")
        return line.strip()


class Engine(Server):
    """A competitor's process; a turn gives the times of its steps."""

    def __init__(self, name: str, case: str, a: argparse.Namespace) -> None:
        python = sys.executable if name == OURS else a.peer_python
        super().__init__([*a.prefix, python, __file__, case, "--serve", name, "--threads", str(a.threads)])


def take_turns(engines: Mapping[str, Server], seconds: float, turn: float) -> list[dict[str, Any]]:
    """What every engine says of its turns, a turn of all after the other, for about `seconds`."""
    turns: list[dict[str, Any]] = []
    names, end = list(engines), time.monotonic() + seconds
    while not turns or time.monotonic() < end:
        random.shuffle(names)
        turns.append({name: engines[name].turn(turn) for name in names})
    return turns


def summary(claim: Claim, turns: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Of each engine the quickest tenth of its steps in milliseconds; how much faster ours is, with quartiles."""
    names = [OURS, *(name for name in turns[0] if name != OURS)]
    medians = [{name: statistics.median(turn[name]) for name in names} for turn in turns]
    ratios = {name: sorted(m[name] / m[OURS] for m in medians) for name in names[1:]}
    steps = {name: sorted(t for turn in turns for t in turn[name]) for name in names}
    return {
        "case": claim.case,
        "least": claim.least,
        "aim": claim.aim,
        "turns": len(turns),
        "step_ms": {name: round(times[len(times) // 10] * 1e3, 3) for name, times in steps.items()},
        "ratios": {name: [round(r[len(r) * q // 4], 4) for q in (1, 2, 3)] for name, r in ratios.items()},
    }


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """The results of `summary` as a Markdown table, a line for each engine."""
    lines = ["| case | engine | ms | ratio | at least | aim |", "| --- | --- | --- | --- | --- | --- |"]
    for r in results:
        for name, ms in r["step_ms"].items():
            low, middle, high = r["ratios"].get(name, (1, 1, 1))
            ratio = "" if name == OURS else f"{middle:.2f} [{low:.2f}, {high:.2f}]"
            lines.append(f"| {r['case']} | {name} | {ms:.2f} | {ratio} | {r['least']:.2f} | {r['aim']:.2f} |")
    return "\n".join(lines)


def measure(claim: Claim, a: argparse.Namespace) -> dict[str, Any]:
    """Load ours and every engine that is installed, let them take turns, and end them."""
    engines: dict[str, Server] = {}
    try:
        engines[OURS] = Engine(OURS, claim.case, a)
        known = ENGINES
        for name, (modules, install) in known.items():
            if has_modules(a.peer_python, *modules):
                engines[name] = Engine(name, claim.case, a)
            else:
                print(f"{name} is left out: {a.peer_python} lacks it; {install}", file=sys.stderr)
        return summary(claim, take_turns(engines, a.rounds * a.seconds, a.turn))
    finally:
        for engine in engines.values():
            engine.stop()


def main(words: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in CLAIMS])
    parser.add_argument("--turn", type=float, default=0.25, help="seconds of one engine's turn (0.25)")
    parser.add_argument("--serve", metavar="ENGINE", help=argparse.SUPPRESS)
    a = parser.parse_args(words)
    claims = chosen_cases(a, CLAIMS)
    if a.serve:
        serve(a.serve, claims[0].case, a.threads)
        return []
    results = [measure(claim, a) for claim in claims]
    print(table(results))
    finish("inference_in_turns", results, a.json)
    return results


if __name__ == "__main__":
    main()
