"""Training in 8 bits: what a model keeps of it beside its weights, and a task whose steps compute in 8 bits.

What is kept is a part of the weights, so a checkpoint and a weight file say themselves that they are of such a model,
and how it is built.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from framework import Tensor, nn, ops, tensor
from framework.context import context
from framework.errors import CheckpointError
from framework.graph.ir import Program
from framework.nn import init
from framework.nn.layer import buffer
from framework.quantization import Range, Steps, simulated, trained, weight_of
from suites.engine.contract.losses import Kept, Loss, Scalar
from suites.engine.pieces import whole

if TYPE_CHECKING:
    from suites.engine.contract.task import Task

NAME = "eight_bits"  # of the layer in the model
PLAN = f"{NAME}.plan"  # the tensor that says how such a model is built
_STEPS = ("train_step", "eval_step")


class FoldedConv2d(nn.Conv2d):
    """A convolution that a batch norm was folded into: its weights are `weight` times `gain`, [K], which is constant.

    What is trained are the weights of before, so a learning rate means what it did. Folded ones are larger by the
    norm's scale over its deviation, in MobileNetV2 0.01 to 1,900 times: some hardly moved, and others much too far.
    """

    gain: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H', W', K]."""
        weight = self.weight * ops.reshape(self.gain, shape=(-1, 1, 1, 1))
        if context.trace is not None:
            context.trace.value_of(weight).name = self.weight.name  # by which ranges know the layer
        return self.convolved(x, weight)


class EightBits(nn.Layer):
    """What training in 8 bits found, in a model.

    Args:
        ranges: what is in 8 bits, with the steps that training began with.
        folded: paths of batch norms, and of the convolutions before them that they were folded into.
        apart: whether those are `FoldedConv2d`; weights of before 2026-11-29 are multiplied with their gains.
        whole_biases: whether biases lie on steps of the sums, see `quantize_trained`; those of before 2026-11-30 do
            not.

    Attributes:
        factors: what the steps' scales are multiplied with, float32 [ranges]; they are trained.
        plan: `ranges` and `folded` as JSON, uint8.
    """

    factors: Tensor

    def __init__(
        self, ranges: Sequence[Range], folded: Mapping[str, str], *, apart: bool = True, whole_biases: bool = True
    ) -> None:
        super().__init__()
        self.ranges, self.folded, self.apart, self.whole_biases = tuple(ranges), dict(folded), apart, whole_biases
        self.add_parameter("factors", (len(ranges),), init.Constant(1.0))
        plan = {
            "ranges": [[list(r.roles), r.steps.scale, r.steps.zero] for r in ranges],
            "folded": self.folded,
            **({"apart": True} if apart else {}),
            **({"whole_biases": True} if whole_biases else {}),
        }
        self.plan = buffer(np.frombuffer(json.dumps(plan).encode(), np.uint8).copy())

    @classmethod
    def read(cls, plan: np.ndarray) -> EightBits:
        """What a plan describes; raises CheckpointError for one that is damaged."""
        try:
            found = json.loads(plan.astype(np.uint8).tobytes())
            ranges = [Range(tuple(map(str, r)), Steps(float(s), int(z))) for r, s, z in found["ranges"]]
            folded = {str(norm): str(conv) for norm, conv in found["folded"].items()}
            apart, whole_biases = (bool(found.get(name, False)) for name in ("apart", "whole_biases"))
            if not ranges or not all(0 < r.steps.scale < 1e30 and 0 <= r.steps.zero <= 255 for r in ranges):
                raise ValueError("its ranges are none")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{PLAN} is damaged ({error}); take another copy of the weights") from None
        return cls(ranges, folded, apart=apart, whole_biases=whole_biases)

    def trained(self) -> list[Range]:
        """The ranges with the scales that training has come to."""
        return trained(self.ranges, self.factors.numpy())


def eight_bits_of(task: Task) -> EightBits | None:
    """Return what a task's model keeps of training in 8 bits; None for one that is trained in float32."""
    found = task.model.__dict__.get(NAME)
    return found if isinstance(found, EightBits) else None


def fold(model: nn.Layer, norm: str, conv: str, *, apart: bool = True) -> None:
    """Give a convolution the batch norm behind it, whose running statistics count from now on, and take the norm away.

    `apart`: it becomes a `FoldedConv2d`; else its weights are multiplied.

    Raises CheckpointError where they are not in the model.
    """
    layers = dict(model.named_layers())
    before, behind = layers.get(conv), layers.get(norm)
    if not isinstance(before, nn.Conv2d) or not isinstance(behind, nn.BatchNorm):
        raise CheckpointError(f"weights of training in 8 bits: the model has no '{norm}' behind a '{conv}'")
    factor = behind.scale.numpy() / np.sqrt(behind.running_var.numpy() + np.float32(behind.eps))
    shift = behind.bias.numpy() - behind.running_mean.numpy() * factor
    if before.bias is None:
        before.add_parameter("bias", (before.out_channels,), init.Constant(0.0))
    assert before.bias is not None
    before.bias.set(tensor(before.bias.numpy() * factor + shift))
    if apart:
        before.__class__ = FoldedConv2d  # the same layer to all that know it
        before.register_buffer("gain", factor)
    else:
        before.weight.set(tensor(before.weight.numpy() * factor[:, None, None, None]))
    parent, _, name = norm.rpartition(".")
    setattr(layers[parent], name, nn.Sequential())


def norms_to_fold(model: nn.Layer, program: Program) -> dict[str, str]:
    """Return paths of batch norms and of the convolutions before them, of those that can be folded.

    They are called together each time, once or (where a picture and its mirror image are looked at) more often.

    Args:
        model: whose network `program` is.
        program: of evaluation, as it was traced.
    """
    paths = {id(t): path for path, layer in model.named_layers() for t in _own_tensors(layer)}
    layer_of = {v: paths[id(t)] for v, t in program.states.items() if id(t) in paths}
    called = {op: layer_of.get(op.inputs[1], "") for op in program.block if len(op.inputs) > 1 and op.inputs[1]}
    calls = Counter(called.values())
    users, producers = program.users(), program.producers()
    together: Counter[tuple[str, str]] = Counter()
    for op in program.block:
        x = op.inputs[0] if op.name == "batch_norm_inference" else None
        before = producers.get(x) if x is not None else None
        if before is None or before.name != "conv2d" or users[before.outputs[0]] != [op] or x in program.results:
            continue
        together[called[op], called[before]] += 1
    found = {norm: conv for (norm, conv), n in together.items() if norm and conv and n == calls[norm] == calls[conv]}
    return found


def float_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """What a step of a task computes in float32."""
    plain: Callable[..., Any] = getattr(step, "in_float", step)
    return plain


def _own_tensors(layer: nn.Layer) -> list[Tensor]:
    if isinstance(layer, nn.Conv2d):
        return [layer.weight]
    return [layer.scale] if isinstance(layer, nn.BatchNorm) else []


def put(task: Task, found: EightBits, *, are_folded: bool = False) -> None:
    """Make a task's model one that trains in 8 bits; what its steps compute is in 8 bits from now on.

    Args:
        task: whose `train_step` and `eval_step` are replaced.
        found: what is in 8 bits.
        are_folded: the norms are folded already; else they are now.

    Raises CheckpointError where the model has not what is to be folded.
    """
    for norm, conv in found.folded.items() if not are_folded else ():
        fold(task.model, norm, conv, apart=found.apart)
    _expect_weights(task.model, found)
    setattr(task.model, NAME, found)
    for name, parameter in task.model.named_parameters():
        parameter.name = name  # which roles refer to
    for step in _STEPS:
        setattr(task, step, _in_8_bits(getattr(task, step), found))


def _expect_weights(model: nn.Layer, found: EightBits) -> None:
    """Refuse ranges of layers that the model has not: those would compute in float32 without a word."""
    known = {name for name, _ in model.named_parameters()}
    for role in (role for each in found.ranges for role in each.roles):
        name = weight_of(role)
        if name is not None and name not in known:
            raise CheckpointError(
                f"weights of training in 8 bits: the model has no '{name}', which they hold a range of"
            )


def put_as(task: Task, tensors: Mapping[str, Tensor]) -> None:
    """The same as the weights say, which are about to be loaded; nothing where they are of training in float32."""
    if PLAN in tensors and eight_bits_of(task) is None:
        put(task, EightBits.read(tensors[PLAN].numpy()))


def refuse_folded(model: nn.Layer, arrays: Mapping[str, Any], where: str) -> None:
    """Refuse weights of training in 8 bits for a model in float32: its norms would begin anew, and most would not fit.

    Args:
        model: or a part of one, that is about to take what fits of them.
        arrays: tensors or arrays of the file, by name.
        where: the file.

    Raises CheckpointError.
    """
    if PLAN not in arrays or PLAN in model.state_dict():
        return
    plan = arrays[PLAN]
    folded = EightBits.read(plan.numpy() if isinstance(plan, Tensor) else plan).folded
    if folded:
        raise CheckpointError(
            f"{where}: holds weights that were trained in 8 bits, with {len(folded)} batch norms folded into "
            "convolutions, and a network in float32 has no place for those. Train on in 8 bits (a section `eight_bits` "
            "and `runtime.weights`), or take the weights from before that training"
        )


def _in_8_bits(step: Callable[..., Any], found: EightBits) -> Callable[..., Any]:
    def apart(inputs: dict[str, Tensor]) -> dict[str, Any]:
        with whole():  # layers inside of control flow would compute in float32
            return _apart(step(inputs))

    compute = simulated(apart, found.ranges, lambda: found.factors, whole_biases=found.whole_biases)

    def run(inputs: dict[str, Tensor]) -> Any:
        return {name: _together(parts) for name, parts in compute(inputs).items()}

    run.in_float = step  # type: ignore[attr-defined]
    return run


def _apart(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Results of a step as plain trees of tensors."""
    kinds: dict[type, Callable[[Any], list[Any]]] = {
        Loss: lambda t: [Loss, t.mean, t.weight],
        Scalar: lambda t: [Scalar, t.value],
        Kept: lambda t: [Kept, t.value],
    }
    return {name: kinds.get(type(t), lambda t: [None, t])(t) for name, t in terms.items()}


def _together(parts: list[Any]) -> Any:
    kind, *values = parts
    return kind(*values) if kind is not None else values[0]
