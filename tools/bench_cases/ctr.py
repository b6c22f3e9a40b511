"""Click-through rates: training and inference on a log of 26 categories with 100,000 values each and 13 numbers.

The sizes are those of benchmarks/peers/networks.py (`DeepFM`) and of benchmarks/ctr_peers.py. Values are drawn with a
skew, as click logs have it; all 2.6 million rows exist before the clock starts. A training step is the suite's own:
look-up, forward, loss, backward, Adam on the dense weights and on the rows that the batch touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tools.bench_cases.common import Cases, Step

if TYPE_CHECKING:
    import numpy as np

    from suites.ctr.task.ranking import CtrTask

SLOTS, ROWS, DENSE, POOL = 26, 100_000, 13, 8
HISTORY = 50  # values of a history at most
HIDDEN = [400, 400, 400]
Batch = Mapping[str, "np.ndarray"]


def signs(slot: Any, ids: Any) -> np.ndarray:
    """Signs of ids in a slot, int64, spread over the hash's 52 bits by an odd factor."""
    import numpy as np

    spread = (np.asarray(ids, np.uint64) * np.uint64(0x9E3779B97F4A7C15)) & np.uint64((1 << 52) - 1)
    return (spread | (np.asarray(slot, np.uint64) << np.uint64(52))).view(np.int64)


def skewed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Ids below ROWS, the low ones often."""
    return (rng.random(shape) ** 4 * ROWS).astype("int64")


def task_of(model: type, history: bool = False, **sizes: Any) -> CtrTask:
    """The task of a model with all rows in its table."""
    import numpy as np

    from framework.nn import init
    from suites import ctr, engine
    from suites.ctr.schema import schema_of

    features: dict[str, Any] = {f"c{i}": {"type": "Sparse"} for i in range(SLOTS)}
    features |= {f"i{i}": {"type": "Dense"} for i in range(DENSE)}
    if history:
        features["history"] = {"type": "Sequence", "vocabulary": "c0", "max_length": HISTORY}
    schema = schema_of({"features": features, "labels": {"click": {}}})
    task = ctr.CtrTask(model=engine.Factory.of(model, **sizes), schema=schema)
    init.initialize(task.model, 0)
    table = task.model.table
    for slot in range(1, SLOTS + 1):  # a row is born in the step that first has its key
        table.update(signs(slot, np.arange(ROWS)), np.zeros((ROWS, table.dim), np.float32))
    return task


def batches(size: int, history: bool = False) -> list[Batch]:
    """Batches that take turns."""
    import numpy as np

    rng = np.random.default_rng(0)
    found: list[Batch] = []
    for _ in range(POOL):
        batch = {
            "sparse": signs(np.arange(1, SLOTS + 1), skewed(rng, size, SLOTS)),
            "dense": rng.random((size, DENSE), np.float32),
            "labels": (rng.random((size, 1)) < 0.25).astype(np.float32),
        }
        if history:
            lengths = 1 + (rng.random(size) ** 2 * HISTORY).astype(np.int64)  # many short ones, some of full length
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            batch |= {"history": signs(1, skewed(rng, int(offsets[-1]))), "history.offsets": offsets}
        found.append(batch)
    return found


def training(model: str, size: int, history: bool = False, **sizes: Any) -> tuple[Step, int]:
    """A step on the next batch, and its rows."""
    import itertools

    from framework.optim import Adam
    from suites import ctr
    from suites.ctr.train.step import CtrStep

    task = task_of(getattr(ctr, model), history, **sizes)
    step = CtrStep(task, Adam(task.model.named_parameters(), lr=1e-3))
    turns = itertools.cycle(batches(size, history))
    return lambda: step([next(turns)], 1e-3), size


def inference(model: str, size: int, **sizes: Any) -> tuple[Step, int]:
    """The scores of the next batch, and its rows."""
    import itertools

    from framework import no_grad, program
    from framework.graph.passes import INFERENCE_PASSES
    from suites import ctr

    task = task_of(getattr(ctr, model), **sizes)
    task.model.eval()
    forward = program(task.eval_step, pass_names=INFERENCE_PASSES)
    turns = itertools.cycle(batches(size))

    def step() -> Any:
        batch = next(turns)
        with no_grad():
            return forward({name: batch[name] for name in task.eval_inputs})

    return step, size


CASES: Cases = {
    "deepfm_train_b512": lambda: training("DeepFM", 512, dim=16, hidden=HIDDEN),
    "deepfm_train_b4096": lambda: training("DeepFM", 4096, dim=16, hidden=HIDDEN),
    "deepfm_infer_b512": lambda: inference("DeepFM", 512, dim=16, hidden=HIDDEN),
    "lr_train_b4096": lambda: training("LR", 4096),
    "fm_train_b4096": lambda: training("FM", 4096, dim=16),
    "din_train_b512": lambda: training("DIN", 512, history=True, dim=16, attention=[64, 32], hidden=[200, 80]),
    "dcnv2_train_b4096": lambda: training("DCNv2", 4096, dim=16, cross_layers=3, hidden=HIDDEN),
}
