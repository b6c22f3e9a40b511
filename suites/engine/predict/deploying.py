"""A task's network as a Program for serving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from framework import conv_algorithm, from_numpy, no_grad, program
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.contract.capabilities import Publishes
from suites.engine.contract.task import Task


def deployed_program(
    task: Task,
    batch: Mapping[str, np.ndarray],
    algorithm: str = "auto",
    passes: Sequence[str] = INFERENCE_PASSES,
) -> Program:
    """The network in evaluation mode, traced on a batch as `export_step` takes it; its weights are constants.

    Args:
        task: whose network it is; it stays in evaluation mode.
        batch: arrays by the names of `eval_inputs`.
        algorithm: of convolutions, see `framework.conv_algorithm`.
        passes: what the Program goes through.
    """
    tensors = {name: from_numpy(batch[name]) for name in task.eval_inputs}
    for name, tensor in tensors.items():
        tensor.name = name
    task.model.eval()
    step = task.export_step if isinstance(task, Publishes) else task.eval_step
    with no_grad(), conv_algorithm(algorithm):
        return program(step, pass_names=passes).program_for(tensors).program
