"""How any task is run: config, registry, training, hooks, checkpoints, predictions.

In a notebook: `Trainer(task, ...).fit("runs/mine")`, then `load("runs/mine")(images)`.
"""

from typing import TYPE_CHECKING

from framework.lazy import exports

if TYPE_CHECKING:
    from suites.engine.config import Factory as Factory
    from suites.engine.predict.inference import load as load
    from suites.engine.train.trainer import Trainer as Trainer

__getattr__, __dir__ = exports(__name__, {"Factory": "config", "Trainer": "train.trainer", "load": "predict.inference"})
