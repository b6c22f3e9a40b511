"""The start of training in 8 bits: norms are folded, ranges measured; from there on each step computes as inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework import hosts
from framework.errors import ConfigError
from framework.graph.ir import Operation, Program
from framework.graph.passes import INFERENCE_PASSES
from framework.quantization import ranges_of
from suites.engine.config.building import build_runtime
from suites.engine.config.sections import EightBitsSettings
from suites.engine.contract.capabilities import Publishes
from suites.engine.contract.resources import KeepsResources
from suites.engine.contract.step import OwnStep
from suites.engine.hosts.agreement import newest_checkpoint
from suites.engine.names import listing
from suites.engine.pieces import whole
from suites.engine.predict.deploying import deployed_program, in_whole_layers
from suites.engine.predict.quantizing import Quantization, calibration_batches
from suites.engine.weights.eight_bits import EightBits, eight_bits_of, fold, norms_to_fold, put, put_as

if TYPE_CHECKING:
    from suites.engine.config import Config
    from suites.engine.contract.task import Task
    from suites.engine.run.folder import RunFolder

_SHOWN = 4


def train_in_8_bits(task: Task, config: Config, kept: RunFolder | None) -> Iterator[str]:
    """Make a task's model one that trains in 8 bits; yield lines for the log.

    Args:
        task: with the weights that training starts from.
        config: of the run.
        kept: a run that is continued: its newest checkpoint says what is in 8 bits.

    Raises:
        ConfigError: something else in the config excludes it.
        AttributeValueError, NumericsError: there is nothing to train so, or a value is not finite.
    """
    _expect_able(task, config)
    checkpoint = newest_checkpoint(kept) if kept is not None else None
    if checkpoint is not None:
        put_as(task, checkpoint["model"])
        return
    if (found := eight_bits_of(task)) is not None:
        yield (
            f"8 bits: as the weights say, {len(found.ranges)} ranges and {len(found.folded)} batch norms folded; none "
            "is measured anew, so what `eight_bits` says of that does nothing"
        )
        return
    if missing := [name for name in task.eval_inputs if name not in task.train_inputs]:
        raise ConfigError(
            f"eight_bits: training batches have no {', '.join(missing)}, which {type(task).__name__} reads when it "
            "predicts, so nothing measures its ranges; train it in float32"
        )
    runtime = build_runtime(config)
    settings: EightBitsSettings = config.build("eight_bits")
    how = Quantization("static", settings.method, settings.batches)
    batches = list(calibration_batches(task, how, runtime.seed))
    first = dict(zip(task.eval_inputs, batches[0], strict=True))
    for name, parameter in task.model.named_parameters():
        parameter.name = name
    with whole():  # what is inside of control flow has no ranges, and its norms are not seen
        folded = norms_to_fold(task.model, deployed_program(task, first, pass_names=()))
        for norm, conv in folded.items():
            fold(task.model, norm, conv)
        unfolded = _before_norms(deployed_program(task, first, pass_names=()))
        program = deployed_program(task, first, pass_names=in_whole_layers(INFERENCE_PASSES))
    keep = [*settings.keep, *unfolded]
    ranges = ranges_of(program, batches, method=settings.method, keep=keep, smallest=settings.smallest)
    put(task, EightBits(ranges, folded), are_folded=True)
    layers = sum(role.endswith(":x") for found in ranges for role in found.roles)
    yield (
        f"8 bits: {layers} convolutions and products with {len(ranges)} ranges of {len(batches)} training batches "
        f"({settings.method}), {len(folded)} batch norms folded"
    )
    if unfolded:
        shown = listing(unfolded[:_SHOWN]) + (", ..." if len(unfolded) > _SHOWN else "")
        yield f"8 bits: {shown} stay in float32, as a batch norm behind them cannot be folded"


def _before_norms(program: Program) -> list[str]:
    """Names of the weights of convolutions that a batch norm still follows."""
    producers = program.producers()

    def before(op: Operation) -> str | None:
        made = producers.get(op.inputs[0]) if op.inputs[0] is not None else None
        weight = made.input("weight") if made is not None and made.name == "conv2d" else None
        return weight.name if weight is not None else None

    found = [before(op) for op in program.block if op.name == "batch_norm_inference"]
    return sorted({name for name in found if name})


def _expect_able(task: Task, config: Config) -> None:
    runtime = build_runtime(config)
    reasons = {
        "lora, whose adapters stay beside the weights": config.get("lora") is not None,
        "runtime.eager, which traces nothing": runtime.eager,
        f"runtime.precision {runtime.precision}": runtime.precision != "float32",
        f"the update of {type(task).__name__}, which is its own": isinstance(task, OwnStep),
        "several hosts, each of which would measure ranges of its own": hosts.world().size > 1,
        "tables of rows": isinstance(task, (Publishes, KeepsResources)),
    }
    for reason, excludes in reasons.items():
        if excludes:
            raise ConfigError(f"eight_bits: does not go with {reason}; take one of them away")
