"""Cross-layer equalisation: neighbouring layers share what is large, so that one range fits all channels between them.

Channel i between two layers is divided by s_i, in the rows of the first layer's weights and in its bias, and multiplied
by s_i in the columns of the second's (Nagel et al. 2019, arXiv:1906.04721, section 4.1). What lies between must let a
positive factor pass: no activation, ReLU, leaky ReLU, pooling, resizing. In float32 the network computes the same.

ReLU6 lets none pass where it cuts. Its clip stays at 6, and only channels that calibration never saw cut are changed:
they grow, at most until HEADROOM times their largest value reaches 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.fusion import finish_convolutions
from framework.graph.passes.report import chain_of
from framework.graph.passes.rewriter import DataReaders
from framework.graph.reports import PassReport
from framework.quantization.calibration import Batch, observe
from framework.quantization.images import separate
from framework.quantization.observers import Channels
from framework.quantization.weights import array_of, by_channel, constant_of

EQUALIZATIONS = ("weights", "activations")
SWEEPS = 20  # over all pairs, at most
SETTLED = 0.01  # no factor moves by more in the last sweep
HEADROOM = 1.25
DEVIATIONS = 3.0
_CUT = 6.0


def equalize(
    program: Program, calibration: Iterable[Batch], *, by: str = "activations", absorb: bool = True
) -> Program:
    """A copy of a Program, equalised; `framework.graph.explain(result)["equalize"]` says which layers, and why not.

    Args:
        program: forward only, with constant weights.
        calibration: batches of the Program's inputs: how far channels reach.
        by: what is made as large as the second layer's columns: the first layer's "weights", as in the paper, or the
            "activations" that calibration saw between. Only they have one scale for all channels here.
        absorb: also move what ReLU's channels never fall below into the second layer's bias (section 4.1.3): the lowest
            value seen, or three deviations below the mean where that is less.

    Raises:
        AttributeValueError, ShapeError, DTypeError, NumericsError: as `quantize`.
    """
    if by not in EQUALIZATIONS:
        raise AttributeValueError(f"equalize: by is '{by}'; takes {', '.join(map(repr, EQUALIZATIONS))}")
    new = program.clone()
    new.reports = list(program.reports)
    separate(new)
    finish_convolutions(new)
    report = PassReport("equalize")
    new.reports.append(report)
    pairs = _pairs(new, report)
    if not pairs and not report.missed:
        report.missed.append("no two layers stand behind each other, so nothing is equalised")
    if pairs:
        seen = observe(new, [op.outputs[0] for p in pairs for op in p.first.ops], calibration, Channels)
        for pair in pairs:
            pair.look(Channels.joined(seen[op.outputs[0]] for op in pair.first.ops), by)
        pairs = [pair for pair in pairs if pair.has_rows]
        _balance(pairs)
        for pair in pairs:
            pair.finish(report, absorb)
        for layer in dict.fromkeys(layer for pair in pairs for layer in (pair.first, pair.second)):
            layer.write(new)
    return new


class _Layer:
    """A conv2d or matmul, as float64 [K, R, S, C/groups] until it is written.

    Attributes:
        ops: its calls; several where a layer is called again, as on a mirror image.
    """

    def __init__(self, program: Program, ops: Sequence[Operation]) -> None:
        self.ops, self.op = tuple(ops), ops[0]
        op = self.op
        assert op.inputs[1] is not None
        w = array_of(program, op.inputs[1])
        self._turned = op.name == "matmul" and not op.attr("transpose_b")
        if op.name == "matmul":
            w = (w.T if self._turned else w)[:, None, None, :]
        self.w = w.astype(np.float64)
        bias = op.input("bias")
        self.bias = None if bias is None else array_of(program, bias).astype(np.float64)
        self.groups = int(op.attr("groups")) if op.name == "conv2d" else 1

    @property
    def columns(self) -> np.ndarray:
        """[C] the largest weight that each channel of the input meets."""
        parts = np.abs(self.w).max(axis=(1, 2)).reshape(self.groups, -1, self.w.shape[3])
        return np.asarray(parts.max(axis=1).reshape(-1))

    def by_column(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers [C] of the input's channels beside the weights that meet them."""
        return by_channel(numbers, self.w, self.groups)

    @property
    def has_border(self) -> bool:
        """Whether it reads zeros around its image."""
        return self.op.name == "conv2d" and bool(np.any(self.op.attr("padding")))

    def write(self, program: Program) -> None:
        weight, w = self.op.inputs[1], self.w
        assert weight is not None
        if self.op.name == "matmul":
            w = w[:, 0, 0, :].T if self._turned else w[:, 0, 0, :]
        made = constant_of(program, np.ascontiguousarray(w.astype(np.float32)), weight.name)
        place = [a["name"] for a in self.op.info.inputs].index("bias")
        old = self.op.input("bias")
        bias = old
        if self.bias is not None:
            bias = constant_of(program, self.bias.astype(np.float32), old.name if old is not None else None)
        for op in self.ops:
            op.inputs[1] = made
            if bias is not None:
                op.inputs += [None] * (place + 1 - len(op.inputs))
                op.inputs[place] = bias


@dataclass(eq=False)
class _Pair:
    """Two layers and what lies between them.

    Attributes:
        between: operations after the first that keep channels apart, of all calls.
    """

    first: _Layer
    second: _Layer
    between: list[Operation]

    def look(self, seen: Channels, by: str) -> None:
        self._seen, self._by = seen, by
        self.has_rows = len(seen.lows) > 0
        self.scale = np.ones(len(self.first.w))  # that the channels are divided by

    def step(self) -> float:
        """Balances once; the largest relative change."""
        by_weights = self._by == "weights"
        rows = np.abs(self.first.w).max(axis=(1, 2, 3)) if by_weights else self._seen.largest / self.scale
        columns = self.second.columns
        live = (rows > 0) & (columns > 0)
        s = np.sqrt(np.divide(rows, columns, out=np.ones_like(rows), where=live))
        s[~live] = 1
        if self.first.op.attr("activation") == "relu6":
            s = self._below_the_clip(s)
        self.scale *= s
        self.first.w /= s[:, None, None, None]
        if self.first.bias is not None:
            self.first.bias /= s
        self.second.w *= self.second.by_column(s)
        return float(np.abs(np.log(s)).max(initial=0))

    def _below_the_clip(self, s: np.ndarray) -> np.ndarray:
        wanted = self.scale * s
        wanted /= wanted.max(initial=1e-30)
        least = self._seen.largest * (HEADROOM / _CUT)
        return np.clip(wanted, np.minimum(np.maximum(least, 1e-3), 1), 1) / self.scale

    def finish(self, report: PassReport, absorb: bool) -> None:
        low, high = self.scale.min(initial=1), self.scale.max(initial=1)
        said = chain_of(self.first.op, self.second.op) + f": channels divided by {low:.3g} to {high:.3g}"
        if self.first.op.attr("activation") == "relu6":
            said += f", {int((self.scale == 1).sum())} of {len(self.scale)} left alone, for ReLU6 cuts them"
        report.match(said + self._absorbed() if absorb else said)

    def _absorbed(self) -> str:
        """Takes off the first layer's bias what its channels never fall below, and adds what it led to behind."""
        if self.first.op.attr("activation") != "relu" or self.between or self.second.has_border:
            return ""
        usual = self._seen.means - DEVIATIONS * self._seen.deviations
        floor = np.maximum(np.minimum(self._seen.lows, usual), 0) / self.scale
        if not floor.any():
            return ""
        bias = self.first.bias
        self.first.bias = (0.0 if bias is None else bias) - floor
        more = (self.second.w * self.second.by_column(floor)).sum(axis=(1, 2, 3))
        self.second.bias = more if self.second.bias is None else self.second.bias + more
        return f"; what {int((floor > 0).sum())} never fall below is absorbed"


def _balance(pairs: Sequence[_Pair]) -> None:
    for _ in range(SWEEPS):
        if max((pair.step() for pair in pairs), default=0.0) < SETTLED:
            return


def _pairs(program: Program, report: PassReport) -> list[_Pair]:
    """Layers behind each other. Those that are called again count where all calls of both are such a pair."""
    readers, users = DataReaders(program), program.users()
    calls: dict[tuple[Value, Value], list[tuple[Operation, Operation, list[Operation]]]] = {}
    for op in program.block:
        if not _is_layer(program, op):
            continue
        v, between = op.outputs[0], []
        while (follower := readers.only(v)) is not None and follower.info.family in ("pool", "resize"):
            between.append(follower)
            v = follower.outputs[0]
        if follower is None or not _is_layer(program, follower) or follower.inputs[0] is not v:
            continue
        if follower.input("residual") is v:
            continue
        calls.setdefault((_weight(op), _weight(follower)), []).append((op, follower, between))
    layers: dict[Value, _Layer] = {}

    def layer(ops: Sequence[Operation]) -> _Layer:
        if _weight(ops[0]) not in layers:
            layers[_weight(ops[0])] = _Layer(program, ops)
        return layers[_weight(ops[0])]

    found = []
    for met in calls.values():
        op, follower, _ = met[0]
        between = [each for _, _, passed in met for each in passed]
        firsts, seconds = [first for first, _, _ in met], [second for _, second, _ in met]
        if not (_are_one(firsts, users) and _are_one(seconds, users)):
            report.missed.append(f"{chain_of(op, follower)} not equalised: other layers share their weights")
        elif any(first.input("residual") is not None for first in firsts):
            report.missed.append(f"{chain_of(op, follower)} not equalised: a residual joins between")
        elif op.attr("activation") not in ("none", "relu", "leaky_relu", "relu6"):
            report.missed.append(f"{chain_of(op, follower)} not equalised: {op.attr('activation')} lets no factor pass")
        else:
            found.append(_Pair(layer(firsts), layer(seconds), between))
    return found


def _are_one(ops: Sequence[Operation], users: Mapping[Value, Sequence[Operation]]) -> bool:
    """Whether these are all calls of one layer: of its weights, with one bias and the same attributes."""
    first = ops[0]
    return set(users[_weight(first)]) == set(ops) and all(
        op.name == first.name and op.attrs == first.attrs and op.input("bias") is first.input("bias") for op in ops
    )


def _weight(op: Operation) -> Value:
    weight = op.inputs[1]
    assert weight is not None
    return weight


def _is_layer(program: Program, op: Operation) -> bool:
    if op.name not in ("conv2d", "matmul"):
        return False
    weight, bias = op.inputs[1], op.input("bias")
    if weight not in program.constants or weight.dtype != "float32":
        return False
    if op.name == "matmul" and (len(weight.shape) != 2 or op.attr("transpose_a")):
        return False
    if bias is not None and (bias not in program.constants or len(bias.shape) != 1):
        return False
    return bool(np.isfinite(array_of(program, weight)).all())
