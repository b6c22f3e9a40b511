"""What each operator does to labels of channels; an operator without a rule makes all channels that it reads stay.

A rule is right where a network without some channels computes what the whole one does with zeros in the weights that
read them. So channels may be read by weights, and each may be changed by itself, but never mixed in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from framework.graph.ir import Operation, Value
from framework.pruning.labels import Axis, Classes, Labels

Rule = Callable[[Classes, Operation, list[Labels], str], list[Labels]]
RULES: dict[str, Rule] = {}


def follow(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    """Labels of an operation's results; those of its inputs are joined or kept as the operator demands."""
    rule = RULES.get(op.name)
    if rule is None and op.info.is_elementwise and not op.blocks:
        rule = elementwise
    if rule is None or op.blocks:
        rule = unknown
    return rule(classes, op, inputs, where)


def followed(op: Operation) -> bool:
    """Whether an operator has a rule."""
    return (op.name in RULES or op.info.is_elementwise) and not op.blocks


def unlabelled(op: Operation) -> list[Labels]:
    """Results without channels."""
    return [[None] * len(out.shape) for out in op.outputs]


def unknown(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    """All that is read has to stay."""
    for labels in inputs:
        classes.keep_all(labels, where)
    return unlabelled(op)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the rule of operators."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


def _axes(op: Operation, rank: int) -> set[int]:
    """The axes that an attribute names, all where it names none."""
    named = op.attr("axes")
    axes = [int(named)] if isinstance(named, int) else [int(a) for a in named]
    return {a % rank for a in axes} if axes else set(range(rank))


def _axis(op: Operation, rank: int, name: str = "axis") -> int:
    return int(op.attr(name)) % max(rank, 1)


def elementwise(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    """Each place by itself; extents of 1 are repeated."""
    (out,) = op.outputs
    found: Labels = []
    for place in range(-len(out.shape), 0):
        meeting = [
            labels[place]
            for labels, v in zip(inputs, op.inputs, strict=True)
            if v is not None and len(v.shape) >= -place and (v.shape[place] != 1 or out.shape[place] == 1)
        ]
        found.append(_all_joined(classes, meeting, where))
    return [found]


def _all_joined(classes: Classes, meeting: Sequence[Axis], where: str) -> Axis:
    if not meeting:
        return None
    joined = meeting[0]
    for axis in meeting[1:]:
        joined = classes.join(joined, axis, where)
    if joined is None:
        for axis in meeting:
            classes.keep(axis, where)
    return joined


@rule("copy", "dropout")
def _same(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return [inputs[0]]


@rule("full_like")
def _like(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return [inputs[0]]


@rule("broadcast_like")
def _broadcast_like(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return elementwise(classes, op, inputs, where)


@rule("conv2d")
def _conv2d(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    x, weight, bias, residual = [*inputs, [], []][:4]
    groups, (k, _, _, per_group) = int(op.attr("groups")), op.inputs[1].shape if op.inputs[1] else (0, 0, 0, 0)
    if not _is_state(op.inputs[1]) or residual or op.attr("activation") != "none":
        return unknown(classes, op, inputs, where)
    if groups == 1:
        classes.join(x[3], weight[3], where)
    else:
        _join_groups(classes, x[3], weight, (groups, k // groups, per_group), where)
    out = weight[0]
    if bias:
        out = classes.join(out, bias[0], where)
    return [[None, None, None, out]]


def _join_groups(classes: Classes, x: Axis, weight: Labels, sizes: tuple[int, int, int], where: str) -> None:
    """Channels of a grouped convolution: all groups lose the same places, so that they stay alike.

    Of a depthwise one each channel goes with its own filters.
    """
    groups, outputs, per_group = sizes
    out = weight[0]
    if x is None or out is None:
        classes.keep_all([x, *weight], where)
        return
    if per_group == 1:
        for filters in out.reshape(groups, outputs).T:
            classes.join(x, filters, where)
        return
    for places, first in ((x.reshape(groups, per_group), weight[3]), (out.reshape(groups, outputs), out[:outputs])):
        for one in places:
            classes.join(first, one, where)


@rule("matmul")
def _matmul(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    a, b, bias, residual = [*inputs, [], []][:4]
    plain = not residual and op.attr("activation") == "none" and not op.attr("transpose_a") and len(a) >= 1
    if not plain or not _is_state(op.inputs[1]) or len(b) != 2:
        return unknown(classes, op, inputs, where)
    read, out = (b[1], b[0]) if op.attr("transpose_b") else (b[0], b[1])
    classes.join(a[-1], read, where)
    if bias:
        out = classes.join(out, bias[0], where)
    return [[*a[:-1], out]]


@rule("batch_norm_inference", "batch_norm")
def _batch_norm(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    x, *states = inputs
    count = 4 if op.name == "batch_norm_inference" else 2
    if len(states) > count and states[count]:
        return unknown(classes, op, inputs, where)
    channels = _all_joined(classes, [x[-1], *(s[0] for s in states[:count])], where)
    own: list[Labels] = [[channels] for _ in op.outputs[1:]]
    return [[*x[:-1], channels], *own]


@rule("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d")
def _pool(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return [[None, None, None, inputs[0][3]]]


@rule("resize_nearest", "resize_bilinear", "resize_bicubic")
def _resize(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return [[None, None, None, inputs[0][3]]]  # of `like` the height and width alone are read


@rule("roi_align")
def _roi_align(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    maps = [labels[3] for labels in inputs if len(labels) == 4]
    (out,) = op.outputs
    return [[*[None] * (len(out.shape) - 1), _all_joined(classes, maps, where)]]


@rule("mean", "sum", "max", "min")
def _reduce(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    axes = _axes(op, len(x))
    if len(op.outputs) != 1:
        return unknown(classes, op, inputs, where)
    found: Labels = []
    for place, axis in enumerate(x):
        if place not in axes:
            found.append(axis)
            continue
        classes.keep(axis, where)
        found += [None] if op.attr("keepdims") else []
    return [found]


@rule("softmax", "log_softmax")
def _softmax(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return unknown(classes, op, inputs, where)  # all channels share one sum


@rule("concat")
def _concat(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    rank = len(inputs[0])
    along = _axis(op, rank)
    found: Labels = []
    for place in range(rank):
        parts = [labels[place] for labels in inputs]
        if place != along:
            found.append(_all_joined(classes, parts, where))
        elif all(part is None for part in parts):
            found.append(None)
        else:
            found.append(
                np.concatenate([_or_kept(classes, p, v, along) for p, v in zip(parts, op.inputs, strict=True)])
            )
    return [found]


def _or_kept(classes: Classes, part: Axis, value: Value | None, axis: int) -> np.ndarray:
    """The labels of a part of a concatenation; new ones that have to stay where it has no channels."""
    if part is not None:
        return part
    assert value is not None
    made = classes.fresh(value.shape[axis])
    classes.keep(made, "they are no layer's channels")
    return made


@rule("split", "split_like")
def _split(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    x = inputs[0]
    along = _axis(op, len(x))
    classes.keep(x[along], where)  # the parts' widths stand in the program
    return [[None if place == along else axis for place, axis in enumerate(x)] for _ in op.outputs]


@rule("slice")
def _slice(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    axes = _axes(op, len(x)) if len(op.attr("axes")) else set(range(len(op.attr("starts"))))
    for place in axes:
        classes.keep(x[place], where)
    return [[None if place in axes else axis for place, axis in enumerate(x)]]


@rule("pad")
def _pad(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,), (out,) = inputs, op.outputs
    value = op.inputs[0]
    assert value is not None
    changed = [a != b for a, b in zip(value.shape, out.shape, strict=True)]
    for axis, is_changed in zip(x, changed, strict=True):
        classes.keep(axis if is_changed else None, where)
    return [[None if c else axis for axis, c in zip(x, changed, strict=True)]]


@rule("flip")
def _flip(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    axes = _axes(op, len(x))
    for place in axes:
        classes.keep(x[place], where)
    return [list(x)]


@rule("transpose")
def _transpose(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    order = [int(p) for p in op.attr("perm")] or list(reversed(range(len(x))))
    return [[x[p] for p in order]]


@rule("expand_dims")
def _expand_dims(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    at = _axis(op, len(x) + 1)
    return [[*x[:at], None, *x[at:]]]


@rule("squeeze")
def _squeeze(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    at = _axis(op, len(x))
    classes.keep(x[at], where)
    return [[*x[:at], *x[at + 1 :]]]


@rule("extent", "positions")
def _extent(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,) = inputs
    classes.keep(x[_axis(op, len(x))] if x else None, where)
    return unlabelled(op)


@rule("anchor_grid")
def _anchors(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    return unlabelled(op)  # of the map the height and width alone are read


@rule("unflatten_like")
def _unflatten_like(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    x, like = inputs
    at, start, end = _axis(op, len(x)), _axis(op, len(like), "start"), _axis(op, len(like), "end")
    for axis in (x[at], *like[start : end + 1]):
        classes.keep(axis, where)
    return [[*x[:at], *[None] * (end - start + 1), *x[at + 1 :]]]


@rule("flatten", "reshape")
def _reshape(classes: Classes, op: Operation, inputs: list[Labels], where: str) -> list[Labels]:
    (x,), (out,) = inputs, op.outputs
    value = op.inputs[0]
    assert value is not None
    written = [-1] * len(out.shape) if op.name == "flatten" else [int(n) for n in op.attr("shape")]
    found: Labels = [None] * len(out.shape)
    for before, after in _blocks(value.shape, out.shape):
        labelled = [a for a in before if x[a] is not None]
        if not labelled:
            continue
        made = _through(x, value.shape, before, labelled) if len(labelled) == 1 else None
        is_free = len(after) == 1 and (written[after[0]] == -1 or (written[after[0]] == 0 and before == [after[0]]))
        if made is None or not is_free:
            for a in labelled:
                classes.keep(x[a], where)
        else:
            found[after[0]] = made
    return [found]


def _through(x: Labels, shape: Sequence[int], before: list[int], labelled: list[int]) -> np.ndarray:
    """Labels of the axis that several axes become, of which one has channels."""
    (at,) = labelled
    sizes = [shape[a] for a in before]
    channels: Any = x[at]
    view = channels.reshape([-1 if a == at else 1 for a in before])
    return np.ascontiguousarray(np.broadcast_to(view, sizes)).reshape(-1)


def _blocks(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes of two shapes that hold the same elements, as short as can be."""
    found, i, j = [], 0, 0
    while i < len(before) or j < len(after):
        left, right = [i] if i < len(before) else [], [j] if j < len(after) else []
        a, b = (before[i] if left else 1), (after[j] if right else 1)
        i, j = i + len(left), j + len(right)
        while a != b:
            if a < b and i < len(before):
                a, left, i = a * before[i], [*left, i], i + 1
            elif j < len(after):
                b, right, j = b * after[j], [*right, j], j + 1
            else:
                break
        found.append((left, right))
    return found


def _is_state(value: Value | None) -> bool:
    return value is not None and value.kind == "state"
