"""8-bit inference of a run: calibrated on its own training set, exported, and evaluated like the run itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError, ConfigError
from framework.graph.ir import Program
from framework.quantization import quantize
from suites.engine.config.building import limited
from suites.engine.config.settings import DataSettings
from suites.engine.contract.task import Task


@dataclass(frozen=True)
class Quantization:
    """How an export holds weights in 8 bits and computes products with them; see docs/howto/quantization.md.

    Attributes:
        mode: "dynamic" or "static".
        method: how mode "static" makes ranges of what it sees: a name of `framework.quantization.METHODS`.
        batches: training batches that mode "static" looks at.
        keep: patterns of names of weights that stay in float32, such as "*.pooler.*".
        smallest: what has fewer weights stays in float32.
        tables: round tables of embeddings too.
    """

    mode: str = "dynamic"
    method: str = "abs_max"
    batches: int = 8
    keep: tuple[str, ...] = ()
    smallest: int = 4096
    tables: bool = True

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise AttributeValueError(f"quantization: batches is {self.batches}; calibration needs at least 1")


def quantize_for(task: Task, program: Program, how: Quantization, seed: int = 0) -> Program:
    """The Program of a task's `eval_step` in 8 bits; mode "static" reads training batches, shuffled by `seed`.

    Raises:
        ConfigError: training batches lack what the model reads when it predicts.
    """
    calibration = _training_batches(task, how.batches, seed) if how.mode == "static" else ()
    return quantize(
        program,
        mode=how.mode,
        calibration=calibration,
        method=how.method,
        keep=how.keep,
        smallest=how.smallest,
        tables=how.tables,
    )


def _training_batches(task: Task, count: int, seed: int) -> Iterator[list[np.ndarray]]:
    with limited(task.train_loader(seed=seed, workers=0), DataSettings(), "another") as loader:
        for batch in itertools.islice(loader.stream(), count):
            missing = [name for name in task.eval_inputs if name not in batch]
            if missing:
                raise ConfigError(
                    f"quantization: training batches have no {', '.join(missing)}, which this model reads when it "
                    "predicts, so it cannot be calibrated on them; take mode dynamic"
                )
            yield [batch[name] for name in task.eval_inputs]
