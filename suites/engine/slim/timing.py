"""The time of an exported model: of each input alone, and of batches."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from framework.errors import DataError
from suites.engine.predict.inference import open_model, open_run
from suites.engine.predict.items import Predict

BATCH = 32  # inputs of a batch whose throughput is measured


@dataclass
class Timed:
    """A model under the clock: its inputs, prepared, and the times so far in seconds."""

    predict: Predict
    single: list[dict[str, np.ndarray]]
    batches: list[dict[str, np.ndarray]]
    count: int
    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, run: Path, exported: Path, count: int) -> Timed:
        """An exported model and `count` examples of its run's evaluation set.

        Raises:
            DataError: the set is empty.
        """
        model = open_model(exported)
        items = [item for _, item in open_run(run).examples(count)]
        if not items:
            raise DataError(f"compare: {run}: the evaluation set is empty, so there is nothing to time")

        def batch(chunk: list[object]) -> dict[str, np.ndarray]:
            prepared = model.processor.prepare(chunk)
            return {name: prepared[name] for name in model.inputs}

        several = [items[i : i + BATCH] for i in range(0, len(items), BATCH)]
        return cls(model.predict, [batch([item]) for item in items], [batch(chunk) for chunk in several], len(items))

    def round(self) -> None:
        """Every input alone, then in batches; the first run of each kind is not counted."""
        self.alone()
        self.predict(self.batches[0])
        started = time.perf_counter()
        for arrays in self.batches:
            self.predict(arrays)
        self.rates.append(self.count / (time.perf_counter() - started))

    def alone(self) -> None:
        """Every input alone; the first run is not counted."""
        self.predict(self.single[0])
        for arrays in self.single:
            started = time.perf_counter()
            self.predict(arrays)
            self.times.append(time.perf_counter() - started)

    def percentile(self, share: float) -> float:
        """Milliseconds that `share` percent of the inputs take at most."""
        return float(np.percentile(self.times, share)) * 1e3

    @property
    def throughput(self) -> float:
        """Inputs a second in batches."""
        return float(np.median(self.rates))
