#!/usr/bin/env python3
"""Claim: a trainer of a cluster that is away for half of the time costs no quality, as a batch counts the same then.

    python benchmarks/cluster_away.py [CASE ...] [--rows 100000] [--passes 12] [--seeds 3] [--every 100]

A replay in one process, without kills or chance: two trainers of `suites.ctr.cluster` train in turns on one table, with
the exchanges of dense weights that they have on a cluster. The cases:

- `at_work`: the second trainer is missing for every other `--every` batches, then comes back with an empty optimizer
  state; changes of the dense weights are divided by the trainers at work, as they were until 2026-11-25;
- `wanted`: the same, divided by two throughout, as now;
- `emptied`, `kept`: nobody is missing, but after each `--every` / 2 batches one of the two, in turns, loses what it has
  not exchanged, and its optimizer state too or not.

The same seed gives the same initial weights and the same batches, so a case is compared with the undisturbed replay by
pairs: the AUC on held-out rows, and the distance that the common dense weights moved, all exchanges added up.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cluster_faults import options
from cluster_training import write_log
from common import ROOT, spread

if TYPE_CHECKING:
    from framework.table import Table
    from suites.ctr.task.ground import ClickTask
    from suites.engine.config import Config

sys.path.insert(0, str(ROOT))
TEST_ROWS, EXCHANGE, LR = 60_000, 4, 1e-3


@dataclass(frozen=True)
class Case:
    """What happens in a replay.

    Attributes:
        away: whether the second trainer is missing half of the time.
        loses: whether trainers lose what they have not exchanged.
        by_work: whether changes are divided by the trainers at work.
        empties: whether who comes back has an empty optimizer state.
    """

    away: bool = False
    loses: bool = False
    by_work: bool = False
    empties: bool = True


CALM = Case()
CASES = {
    "at_work": Case(away=True, by_work=True),
    "wanted": Case(away=True),
    "emptied": Case(loses=True),
    "kept": Case(loses=True, empties=False),
}


class Shards:
    """The common dense weights; answers at once."""

    done = True

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.moved = values, 0.0

    def dense(self) -> np.ndarray:
        """The weights."""
        return self.values

    def add(self, change: np.ndarray) -> Shards:
        """Take up a trainer's change; what it gets for a push."""
        self.values, self.moved = self.values + change, self.moved + float(np.abs(change).sum())
        return self


def click_task(config: Config) -> ClickTask[Any]:
    """The task of a config of clicks."""
    from suites.ctr.task.ground import ClickTask
    from suites.engine.config.building import build_task

    task = build_task(config)
    assert isinstance(task, ClickTask)
    return task


class Trainer:
    """One of two, with its own dense weights and optimizer."""

    def __init__(self, config: Config, seed: int) -> None:
        from suites.ctr.cluster.dense import DenseWeights
        from suites.ctr.cluster.rows import BatchRows
        from suites.ctr.cluster.step import RemoteStep
        from suites.engine.config.building import build_runtime, init
        from suites.engine.train.train_step import optimizer_of

        self.task = click_task(config)
        init.initialize(self.task.model, seed)
        self.table = self.task.table
        self.task.model.table = BatchRows(self.table)
        self._optimizer = optimizer_of(self.task, config.part("optimizer"))
        self._empty = {name: t.numpy().copy() for name, t in self._optimizer.state_dict().items()}
        self.step = RemoteStep(self.task, self._optimizer, build_runtime(config))
        self.weights = DenseWeights(self.task.model)
        self.batches = 0  # since the last exchange

    def join(self, shards: Shards, *, empty: bool = False) -> None:
        """Begin with the common weights."""
        from framework import tensor
        from suites.ctr.cluster.dense import Exchange

        self.exchange, self.batches = Exchange(self.weights, shards), 0  # type: ignore[arg-type]  # all that it asks
        self.exchange.begin()
        for name, t in self._optimizer.state_dict().items() if empty else ():
            t.set(tensor(self._empty[name]))

    def train(self, batch: tuple[Any, Any], table: Table, shards: Shards, together: int) -> None:
        """One batch: rows at once, dense weights at each fourth."""
        placed, signs = batch
        _, grads = self.step.learn(placed, table.lookup(signs.keys).numpy(), LR)
        table._native.push(*(_array(a) for a in (signs.keys, grads, signs.shows, signs.clicks)), LR)
        self.batches += 1
        if self.batches == EXCHANGE:
            change = self.exchange.change(together)
            self.exchange.sent(shards.add(change))  # type: ignore[arg-type]
            self.exchange.take(wait=True)
            self.batches = 0


def _array(a: np.ndarray) -> Any:
    from framework import from_numpy

    return from_numpy(np.ascontiguousarray(a)).array()


def replay(config: Config, case: Case, seed: int, batches: list[Any], a: argparse.Namespace) -> tuple[float, float]:
    """The AUC on the held-out rows, and how far the common weights moved."""
    both = [Trainer(config, seed) for _ in range(2)]
    table, shards = both[0].table, Shards(both[0].weights.get())
    for trainer in both:
        trainer.join(shards)
    there, turn = 2, 0
    for number, batch in enumerate(_in_order(batches, a.passes)):
        wanted = 1 if case.away and number // a.every % 2 else 2
        if wanted > there:
            both[1].join(shards, empty=case.empties)
        there = wanted
        if case.loses and number % (a.every // 2) == a.every // 2 - 1:
            both[number // (a.every // 2) % 2].join(shards, empty=case.empties)
        turn = (turn + 1) % there
        both[turn].train(batch, table, shards, there if case.by_work else 2)
    both[0].weights.set(shards.values)
    both[0].task.model.table = table
    return _auc(both[0].task), shards.moved


def _in_order(batches: list[Any], passes: int) -> Iterator[Any]:
    for epoch in range(passes):
        for place in np.random.default_rng(1000 + epoch).permutation(len(batches)):
            yield batches[place]


def _auc(task: ClickTask[Any]) -> float:
    from framework import from_numpy, no_grad
    from suites.ctr.metrics import auc

    task.model.eval()
    scores, labels = [], []
    with task.eval_loader(workers=0) as loader, no_grad():
        for batch in loader:
            found = task.eval_step({name: from_numpy(batch[name]) for name in task.eval_inputs})
            scores.append(found["scores"].numpy()[:, 0])
            labels.append(batch["labels"][:, 0])
    return float(auc(np.concatenate(scores), np.concatenate(labels)))


def main(words: list[str] | None = None) -> dict[str, dict[str, list[float]]]:
    """Replay, print the table and return the differences by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=100, help="batches between two changes of who is there")
    a = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp())
    try:
        return _compare(folder, a)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compare(folder: Path, a: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    from framework import set_num_threads
    from suites.ctr.cluster.rows import with_places
    from suites.engine.config.building import read_config

    set_num_threads(1)
    write_log(folder, TEST_ROWS, seed=1)
    (folder / "log.tsv").rename(folder / "test.tsv")
    write_log(folder, a.rows)
    config = read_config(Path("ctr/deepfm_csv"), options(folder, a.passes, seed=0))
    task = click_task(config)
    with task.train_loader(seed=0, workers=0) as loader:
        batches = [with_places(task.model, dict(batch)) for batch in loader]
    found: dict[str, dict[str, list[float]]] = {name: {"auc": [], "moved": []} for name in a.cases or CASES}
    for seed in range(a.seeds):
        auc, moved = replay(config, CALM, seed, batches, a)
        if not moved:
            sys.exit(f"no trainer had {EXCHANGE} batches to exchange weights; give more --rows or --passes")
        print(f"seed {seed}, undisturbed: AUC {auc:.4f}", file=sys.stderr, flush=True)
        for name, each in found.items():
            other, far = replay(config, CASES[name], seed, batches, a)
            each["auc"].append(other - auc)
            each["moved"].append(far / moved)
    print("| case | AUC minus undisturbed | distance moved, of undisturbed |\n|---|---|---|")
    for name, each in found.items():
        print(f"| `{name}` | {spread(each['auc'], 4)} | {spread(each['moved'])} |")
    return found


if __name__ == "__main__":
    main()
