"""Which channels of a network go together, followed through its Programs.

A channel is a place along an axis of a parameter. Channels of residual sums, of norms, of depthwise and grouped
convolutions and of the layers that read them can only be cut together (Fang et al. 2023, DepGraph, on layers; here
place by place, on operators). What reaches a result, or an operator that no rule is known of, stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from framework.graph import passes
from framework.graph.ir import Operation, Program, Value
from framework.nn.layer import Layer
from framework.pruning.labels import Classes, Labels
from framework.pruning.rules import follow, followed
from framework.pruning.widths import narrowable
from framework.tensors import Tensor

Place = tuple[str, int]  # a parameter's or buffer's name, and which of its axes


@dataclass
class Group:
    """Channels of the same layers, such as all that a residual stage adds up.

    Attributes:
        name: of the first weight that makes them.
        sets: which channels; each is a set that is cut as a whole.
        places: of each parameter's axis the sets that its places are of, int64 [extent], -1 for those of other groups.
        made: the weights that make the channels, along their axis of outputs.
        read: the weights that read them.
    """

    name: str
    sets: np.ndarray
    places: dict[Place, np.ndarray]
    made: list[Place]
    read: list[Place]


@dataclass
class Channels:
    """The channels of a network that can be cut.

    Attributes:
        groups: by what is cut together, in the order of the network.
        kept: why the channels of a weight stay, by its name.
    """

    groups: list[Group]
    kept: dict[str, str]
    _costs: list[_Cost] = field(default_factory=list)
    _axes: dict[Place, np.ndarray] = field(default_factory=dict)

    def places_kept(self, cut: Set[int]) -> dict[Place, np.ndarray]:
        """The places of each axis that stays, int64 rising, of the axes that lose some without the sets `cut`."""
        stays = self._stay(cut)
        kept = {place: np.flatnonzero(stays[sets]) for place, sets in self._axes.items()}
        return {place: places for place, places in kept.items() if len(places) < len(self._axes[place])}

    def _stay(self, cut: Set[int]) -> np.ndarray:
        """Whether a set stays, by its number, bool; the last item is of no set."""
        largest = max((int(sets.max(initial=0)) for sets in self._axes.values()), default=0)
        stays = np.ones(largest + 2, bool)
        stays[list(cut)] = False
        return stays

    def narrowed(self, arrays: Mapping[str, np.ndarray], cut: Set[int]) -> dict[str, np.ndarray]:
        """Parameters and buffers without the sets `cut`."""
        found = dict(arrays)
        for (name, axis), places in self.places_kept(cut).items():
            found[name] = np.ascontiguousarray(np.take(found[name], places, axis=axis))
        return found

    def masked(self, arrays: Mapping[str, np.ndarray], cut: Set[int]) -> dict[str, np.ndarray]:
        """Those weights, whole, that read channels of the sets `cut`, with zeros where they do.

        The network with them computes what the narrowed one does.
        """
        stays = self._stay(cut)
        found: dict[str, np.ndarray] = {}
        for group in self.groups:
            for name, axis in group.read:
                places = np.flatnonzero(~stays[group.places[name, axis]])
                if len(places):
                    array = found[name] if name in found else arrays[name].copy()
                    array[(slice(None),) * axis + (places,)] = 0
                    found[name] = array
        return found

    def multiply_adds(self, cut: Set[int] = frozenset()) -> int:
        """Multiply-adds of convolutions and products for the batch that was traced, without the sets `cut`."""
        stays = self._stay(cut)
        return sum(cost.multiply_adds(stays) for cost in self._costs)


@dataclass
class _Cost:
    """An operation that counts: its inputs' shapes, and the sets along their axes."""

    op: Operation
    axes: list[Labels]

    def multiply_adds(self, stays: np.ndarray) -> int:
        shapes: list[tuple[tuple[int, ...], str] | None] = []
        for value, labels in zip(self.op.inputs, self.axes, strict=True):
            if value is None:
                shapes.append(None)
                continue
            shape = [
                extent if axis is None else int(stays[axis].sum())
                for extent, axis in zip(value.shape, labels, strict=True)
            ]
            shapes.append((tuple(shape), value.dtype))
        attrs = self.op.attrs
        if self.op.name == "conv2d" and self.op.attr("groups") > 1 and shapes[0] and shapes[1]:
            attrs = self.op.with_attrs(groups=shapes[0][0][3] // max(1, shapes[1][0][3]))
        return self.op.info.flops(shapes, attrs) // 2


def channels_of(model: Layer, programs: Sequence[Program]) -> Channels:
    """The channels of a model that can be cut.

    Args:
        model: whose network it is.
        programs: of all that it computes, as traced, without passes: in evaluation, which `multiply_adds` counts, and
            in training, where layers may stand that evaluation does not need.
    """
    follower = _Follower(model)
    costs = [follower.follow(program) for program in programs]
    return follower.found(costs[0] if costs else [])


class _Follower:
    def __init__(self, model: Layer) -> None:
        self._classes = Classes()
        self._labels: dict[int, Labels] = {}  # of a state, by the tensor's identity
        self._names: dict[int, str] = {}
        self._owners: dict[str, tuple[Layer, str]] = {}
        for path, layer in model.named_layers():
            for kind in ("parameter", "buffer"):
                for name, tensor in layer._of_kind(kind):
                    full = f"{path}.{name}" if path else name
                    if id(tensor) in self._names:  # two layers share it
                        self._classes.keep_all(self._labels[id(tensor)], f"{self._names[id(tensor)]} is shared")
                        continue
                    self._names[id(tensor)] = full
                    self._owners[full] = (layer, name)
                    self._labels[id(tensor)] = [self._classes.fresh(extent) for extent in tensor.shape]
                    if not narrowable(layer):
                        self._classes.keep_all(self._labels[id(tensor)], f"{full} belongs to a {type(layer).__name__}")

    def follow(self, program: Program) -> list[_Cost]:
        """Join what a Program computes together; its costly operations."""
        labels: dict[int, Labels] = {}
        for value in (*program.inputs, *program.constants):
            labels[value.id] = [None] * len(value.shape)
        for value, tensor in program.states.items():
            labels[value.id] = self._of_state(tensor)
        costs = []
        for op in program.block:
            inputs: list[Labels] = [[] if v is None else labels[v.id] for v in op.inputs]
            made = follow(self._classes, op, inputs, _said(op))
            for out, found in zip(op.outputs, made, strict=True):
                labels[out.id] = found
            if op.info.heavy:
                costs.append(_Cost(op, inputs))
        for number, value in enumerate(program.results):
            self._classes.keep_all(labels[value.id], f"result {number} of the network")
        for state, value in program.updates.items():
            for a, b in zip(labels[state.id], labels[value.id], strict=True):
                self._classes.join(a, b, "a state that is updated")
        return costs

    def _of_state(self, tensor: Tensor) -> Labels:
        return self._labels.get(id(tensor)) or [None] * len(tensor.shape)

    def found(self, costs: Sequence[_Cost]) -> Channels:
        """The groups, once all Programs were followed."""
        axes: dict[Place, np.ndarray] = {}
        for key, labels in self._labels.items():
            for axis, label in enumerate(labels):
                if label is not None:
                    axes[self._names[key], axis] = self._classes.roots(label)
        kept: dict[str, str] = {}
        touched: dict[int, list[Place]] = {}
        for place, sets in axes.items():
            for one in dict.fromkeys(sets.tolist()):
                why = self._classes.reason(one)
                if why is None:
                    touched.setdefault(one, []).append(place)
                elif self._is_made(place):
                    kept.setdefault(place[0], why)
        together: dict[tuple[Place, ...], list[int]] = {}
        for one, places in touched.items():
            made = [place for place in places if self._is_made(place)]
            if made and any(self._is_read(place) for place in places):
                together.setdefault(tuple(places), []).append(one)
        groups = [self._group(places, sets, axes) for places, sets in together.items()]
        for cost in costs:
            cost.axes = [[None if a is None else self._classes.roots(a) for a in labels] for labels in cost.axes]
        return Channels(groups, kept, list(costs), axes)

    def _group(self, places: Sequence[Place], sets: Sequence[int], axes: Mapping[Place, np.ndarray]) -> Group:
        members = np.array(sorted(sets), np.int64)
        own: dict[Place, np.ndarray] = {p: np.where(np.isin(axes[p], members), axes[p], -1) for p in places}
        made, read = [p for p in places if self._is_made(p)], [p for p in places if self._is_read(p)]
        return Group(made[0][0], members, own, made, read)

    def _is_made(self, place: Place) -> bool:
        """Whether a place is a filter or a row of a weight, which makes a channel."""
        return place[1] == 0 and self._owners[place[0]][1] == "weight"

    def _is_read(self, place: Place) -> bool:
        """Whether it is of a weight's last axis, along which channels are read; a depthwise one reads only its own."""
        name, axis = place
        layer, own = self._owners[name]
        return own == "weight" and axis == len(getattr(layer, own).shape) - 1 and axis > 0


def _said(op: Operation) -> str:
    return f"{op.name}" + (f" ({op.where})" if op.where else "")


def last_layers(program: Program) -> tuple[Program, list[str]]:
    """A copy of a Program whose results are those of the last layers, and the names of their weights.

    The last convolutions and products that no other reads from, before the first operator without a rule: what comes
    behind one, such as a choice of boxes, may differ where sums are taken in another order.
    """
    cut = program.clone()
    smooth: set[Value] = {*cut.inputs, *cut.states, *cut.constants}
    layers: list[Operation] = []
    for op in cut.block:
        if followed(op) and all(v is None or v in smooth for v in op.inputs):
            smooth.update(op.outputs)
            if op.info.heavy and any(v in cut.states for v in op.inputs[1:2]):
                layers.append(op)
    read: set[Value] = set()
    ends: list[Operation] = []
    for op in reversed(cut.block.ops):
        leads = any(v in read for v in op.outputs)
        is_layer = op in layers
        if is_layer and not leads:
            ends.append(op)
        if (leads or is_layer) and all(v in smooth for v in op.outputs):
            read.update(v for v in op.inputs if v is not None)
    cut.results = [op.outputs[0] for op in ends[::-1]]
    cut.updates = {}
    passes.run(cut, ["drop_dead_code"])
    names = [op.inputs[1].name if op.inputs[1] is not None else None for op in ends[::-1]]
    return cut, [name or op.name for name, op in zip(names, ends[::-1], strict=True)]
