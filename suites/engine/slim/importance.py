"""How much parts of a trained model matter: the change of the loss, to first order, if a part were not there.

A part that a weight w multiplies (a head, a neuron) has the gate 1; the loss's gradient of that gate is the sum of
w * dL/dw over the part's outgoing weights. Its size, summed over batches, is the importance (Molchanov et al. 2017;
Michel et al. 2019; Hou et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np

from framework import Tensor, from_numpy
from framework.data import DataLoader
from framework.errors import DataError
from suites.engine.contract.losses import Loss
from suites.engine.contract.task import Task

Gates = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def importance(task: Task, loader: DataLoader, gates: Gates, batches: int | None = None) -> dict[str, np.ndarray]:
    """The importance of a model's parts over some data, by what `gates` calls them.

    Args:
        task: the model, and the loss that is looked at; the model is left in evaluation mode.
        loader: labelled batches, best of data that training did not see.
        gates: takes weight times gradient by parameter name, for a batch; returns the gates' gradients by name.
        batches: how many are looked at; None for all.

    Raises DataError if there is no batch.
    """
    totals: dict[str, np.ndarray] = {}
    task.model.eval()
    for batch in islice(loader, batches):
        gradients = _gradients(task, {name: from_numpy(batch[name]) for name in task.train_inputs})
        for name, gate in gates(gradients).items():
            totals[name] = totals.get(name, np.zeros(gate.shape)) + np.abs(gate)
    if not totals:
        raise DataError("importance: there is no batch to look at; check the evaluation set")
    return totals


def keep_best(scores: np.ndarray, share: float) -> np.ndarray:
    """Places of the most important parts, int64, rising: `share` of them, rounded, and at least one."""
    count = max(1, round(len(scores) * share))
    return np.sort(np.argsort(-scores, kind="stable")[:count])


def _gradients(task: Task, inputs: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Weight times gradient of each parameter that the losses depend on."""
    parameters = dict(task.model.named_parameters())
    for p in parameters.values():
        p.grad = None
    losses = [term.mean for term in task.train_step(inputs).values() if isinstance(term, Loss)]
    sum(losses[1:], losses[0]).backward()
    products = {name: p.numpy() * p.grad.numpy() for name, p in parameters.items() if p.grad is not None}
    for p in parameters.values():
        p.grad = None
    return products
