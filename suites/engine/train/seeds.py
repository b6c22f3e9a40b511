"""Several runs of one config that differ in their seed, and what their figures say together.

A single run of a small data set says little: fine-tuning moves by points from seed to seed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import write_text
from suites.engine.config.building import read_config
from suites.engine.train.training import evaluate_weights, train


def train_seeds(
    source: Path,
    overrides: Sequence[str] = (),
    *,
    count: int,
    runs: Path = Path("runs"),
    name: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any] | None:
    """Train `count` runs, one after the other, from `runtime.seed` on; return `over_runs` of what they reach.

    The runs are `<name>_seed<n>`; what they say together is kept as `<name>_seeds.json` beside them.

    Args:
        source: a config file.
        overrides: `path=value` texts, as with `-o`.
        count: how many.
        runs: folder of all runs.
        name: of the runs; by default that of the config file.
        resume: continue runs that are there, begin the others.
        overwrite: replace runs of these names.

    Returns None if Ctrl-C ended it before the last run was done.
    """
    first = int(read_config(source, overrides)["runtime.seed"])
    name = name or source.stem
    figures = {}
    for seed in range(first, first + count):
        run = f"{name}_seed{seed}"
        done = train(
            source,
            [*overrides, f"runtime.seed={seed}"],
            runs=runs,
            name=run,
            resume=resume and (runs / run / "config.yml").is_file(),
            overwrite=overwrite,
        )
        if done.interrupted:
            return None
        figures[run] = evaluate_weights(runs / run)
    summary = over_runs(figures)
    write_text(runs / f"{name}_seeds.json", json.dumps(summary, indent=2) + "\n")
    return summary


def over_runs(figures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return mean, sample standard deviation, lowest and highest of each figure, and the figures of each run."""
    shared = [name for name in next(iter(figures.values())) if all(name in one for one in figures.values())]
    values = {name: np.array([one[name] for one in figures.values()]) for name in shared}
    return {
        "mean": {name: float(v.mean()) for name, v in values.items()},
        "deviation": {name: float(v.std(ddof=1)) if len(v) > 1 else 0.0 for name, v in values.items()},
        "lowest": {name: float(v.min()) for name, v in values.items()},
        "highest": {name: float(v.max()) for name, v in values.items()},
        "runs": {name: dict(one) for name, one in figures.items()},
    }
