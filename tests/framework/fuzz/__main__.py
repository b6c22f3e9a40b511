"""Fuzzes the core for as long as wanted: `python -m tests.framework.fuzz --seconds 300`, or `make fuzz`.

Prints each failure with its seed and a small program, and at the end what was covered. A recipe is made again from its
seed: `--seed 1234 --count 1`. Recipes run in a process of their own, so that a crash of the native side is found too.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.framework.fuzz import lifetimes, seams
from tests.framework.fuzz.checks import CHECKS, Coverage, check_recipe
from tests.framework.fuzz.grow import grow
from tests.framework.fuzz.recipe import Recipe
from tests.framework.fuzz.shrink import shrink

CHUNK = 100  # recipes of one process
LIFETIMES = 20  # random lifetimes for each recipe: they are cheap
SCENARIOS = 3  # random steps over states for each recipe


def failure_of(recipe: Recipe, check: str, coverage: Coverage | None = None) -> str:
    """What a check says against a recipe; "" where it holds."""
    try:
        check_recipe(recipe, coverage, check)
    except Exception as e:  # whatever goes wrong is what is looked for
        return f"{type(e).__name__}: {e}"
    return ""


def fuzz_seed(seed: int, coverage: Coverage) -> list[str]:
    """Runs all checks on one seed's recipe, lifetimes and scenarios; returns a report for each failure."""
    recipe = grow(np.random.default_rng(seed))
    coverage.note_recipe(recipe)
    reports = []
    for check in CHECKS:
        message = failure_of(recipe, check, coverage)
        if message:
            kind = message.split(":")[0]
            small = shrink(recipe, lambda r, c=check, k=kind: failure_of(r, c).startswith(k))
            again = failure_of(small, check)
            reports.append(f"seed {seed}: {check}: {message}\n  shrunk: {again}\n{small.code()}\n")
    for i in range(LIFETIMES):
        for check_program in (lifetimes.check_planned, lifetimes.check_run):
            what = f"{seed}: {check_program.__name__} {i}"
            reports += _reports(what, check_program, np.random.default_rng([seed, i]))
    for i in range(SCENARIOS):
        reports += _reports(f"{seed}: scenario {i}", seams.check, [seed, i])
    return reports + _reports(f"{seed}: threads", seams.check_threads, [seed])


def _reports(what: str, check: Callable[[Any], None], given: Any) -> list[str]:
    try:
        check(given)
    except Exception as e:  # as above
        return [f"seed {what}: {type(e).__name__}: {e}\n"]
    return []


def run_chunk(first: int, count: int, notes: Path) -> None:
    """Fuzzes seeds in this process; `notes` holds the seed at hand, in case it dies, then the result."""
    faulthandler.enable()
    np.seterr(all="ignore")
    coverage, reports = Coverage(), []
    for seed in range(first, first + count):
        notes.write_text(str(seed))
        reports += fuzz_seed(seed, coverage)
    notes.write_text(json.dumps({"reports": reports, "coverage": vars(coverage)}))


def main(words: list[str] | None = None) -> int:
    """Fuzzes until the time is over; returns 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="stop after so long (a chunk is finished)")
    parser.add_argument("--seed", type=int, help="first seed; by default from the clock")
    parser.add_argument("--count", type=int, help="so many recipes, whatever the time")
    parser.add_argument("--chunk", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    first = int(time.time()) * 1000 if given.seed is None else given.seed
    if given.chunk:
        run_chunk(first, given.count, given.chunk)
        return 0
    print(f"fuzz: seeds from {first}", flush=True)
    end, coverage, failures = time.monotonic() + given.seconds, Coverage(), 0
    while given.count or time.monotonic() < end:
        count = min(given.count or CHUNK, CHUNK)
        reports = _chunk_in_process(first, count, coverage)
        failures += len(reports)
        print("".join(reports), end="", flush=True)
        first += count
        if given.count:
            given.count -= count
            if not given.count:
                break
    print(f"{coverage.text()}\n{failures} failures")
    return 1 if failures else 0


def _chunk_in_process(first: int, count: int, coverage: Coverage) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        words = [sys.executable, "-m", "tests.framework.fuzz", "--chunk", str(notes), "--seed", str(first)]
        done = subprocess.run([*words, "--count", str(count)], capture_output=True, text=True)
        text = notes.read_text() if notes.exists() else str(first)
    if done.returncode != 0:
        return [f"seed {text}: the process died ({done.returncode})\n{done.stderr[-2000:]}\n"]
    found = json.loads(text)
    coverage.add(Coverage(**found["coverage"]))
    return list(found["reports"])


if __name__ == "__main__":
    sys.exit(main())
