"""A task's network as a Program for serving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from framework import conv_algorithm, from_numpy, no_grad, program
from framework.graph import passes
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.quantization import quantize_trained
from suites.engine.contract.capabilities import Publishes
from suites.engine.contract.task import Task
from suites.engine.pieces import whole
from suites.engine.weights.eight_bits import EightBits, float_step

_JOINING = ("fuse_separable", "fuse_chains")  # passes that hide layers and sums in operators without an 8-bit form


def deployed_program(
    task: Task,
    batch: Mapping[str, np.ndarray],
    algorithm: str = "auto",
    pass_names: Sequence[str] = INFERENCE_PASSES,
) -> Program:
    """The network in evaluation mode, traced on a batch as `export_step` takes it; its weights are constants.

    It is in float32, also where the model was trained in 8 bits; see `in_8_bits`.

    Args:
        task: whose network it is; it stays in evaluation mode.
        batch: arrays by the names of `eval_inputs`.
        algorithm: of convolutions, see `framework.conv_algorithm`.
        pass_names: what the Program goes through.
    """
    tensors = {name: from_numpy(batch[name]) for name in task.eval_inputs}
    for name, tensor in tensors.items():
        tensor.name = name
    task.model.eval()
    step = task.export_step if isinstance(task, Publishes) else float_step(task.eval_step)
    with no_grad(), conv_algorithm(algorithm):
        return program(step, pass_names=pass_names).program_for(tensors).program


def flat_program(
    task: Task,
    found: Program,
    batch: Mapping[str, np.ndarray],
    algorithm: str = "auto",
    pass_names: Sequence[str] = INFERENCE_PASSES,
) -> Program | None:
    """The same as `found`, which `deployed_program` made, with all layers that can be outside of control flow.

    None where it has no control flow. Calibration sees only what is outside, see `quantize`.
    """
    if not any(op.blocks for op in found.block):
        return None
    with whole():
        return deployed_program(task, batch, algorithm, pass_names)


def in_8_bits(
    task: Task,
    found: EightBits,
    batch: Mapping[str, np.ndarray],
    algorithm: str = "auto",
    pass_names: Sequence[str] = INFERENCE_PASSES,
) -> Program:
    """The network of a task that was trained in 8 bits, with the whole numbers that training came to.

    Args:
        found: what the model keeps of its training.
        task, batch, algorithm, pass_names: as of `deployed_program`.
    """
    large = deployed_program(task, batch, algorithm, in_whole_layers(pass_names))
    small = quantize_trained(large, found.trained(), whole_biases=found.whole_biases)
    passes.run(small, [name for name in pass_names if name in _JOINING])
    return small


def in_whole_layers(pass_names: Sequence[str]) -> list[str]:
    """Of these passes those after which each layer and sum is an operator of its own, as 8 bits need them."""
    return [name for name in pass_names if name not in _JOINING]
