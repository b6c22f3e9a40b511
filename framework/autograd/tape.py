"""The tape: remembers operators as nodes of a graph and walks it backwards, calling one rule for each.

Rules are made of public operators, so a gradient can itself be differentiated (`create_graph=True`), and tracing a
function that calls `backward()` puts the gradient into the same Program.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from framework.autograd.formulas import evaluate, rule_of
from framework.autograd.rule_table import RULES
from framework.autograd.saved import edge_of, keep, kept, place_of
from framework.context import context
from framework.errors import GradientError
from framework.ops.compositions import composition_of
from framework.ops.functions import cast, copy, full_like, reshape_like
from framework.ops.registry import OpInfo
from framework.precision import as_given, promoting
from framework.tensors import Tensor

_sequence = itertools.count()
DIFFERENTIABLE = frozenset(("float32", "float64", "float16", "bfloat16"))
HALF = frozenset(("float16", "bfloat16"))


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Inside, operators are not remembered: for evaluation and for updates of parameters."""
    with recording(False):
        yield


@contextlib.contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Inside, operators are remembered or not."""
    before, context.grad_enabled = context.grad_enabled, enabled
    try:
        yield
    finally:
        context.grad_enabled = before


class Node:
    """One remembered operator: what its rule needs of inputs and outputs, and where each input came from."""

    __slots__ = ("attrs", "edges", "freed", "info", "input_slots", "order", "outputs", "saved", "types")

    def __init__(self, info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...], outputs: Sequence[Tensor]) -> None:
        self.info = info
        self.attrs = attrs
        retention = info.retention or _retention_of(info)
        slots = retention.slots
        # Which entries of `inputs` belong to which input of the signature (a variadic input has several).
        self.input_slots = slots if len(inputs) == len(slots) else [min(i, slots[-1]) for i in range(len(inputs))]
        # An edge is the input's node and output number, the leaf tensor itself, or None where no gradient goes.
        edges = [edge_of(x) for x in inputs]
        saved = retention.saved_inputs
        self.saved = (
            [keep(x) if saved[s] else None for x, s in zip(inputs, self.input_slots, strict=True)]
            if retention.saves
            else []
        )
        # Outputs are saved as bare data: holding the tensors would make a reference cycle through `node`.
        keeps = retention.keeps_outputs
        self.start(edges, [(o._data, o._value) if keeps else None for o in outputs])

    def start(self, edges: list[Any], outputs: list[Any]) -> None:
        """Takes its place on the tape."""
        self.order = next(_sequence)
        self.types: list[str | None] | None = None  # of the inputs, where half types take part
        self.freed = False
        self.edges = edges
        self.outputs = outputs

    def gradients(self, dys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Gradients of the inputs from those of the outputs."""
        return self._by_rule(dys) if self.types is None else self._half_gradients(dys)

    def _by_rule(self, dys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        rule = rule_of(self.info)
        return _composed_gradients(self, dys) if rule.through_composition else evaluate(rule, self, dys)

    def _half_gradients(self, dys: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """The same where half and float32 meet: each gradient has its input's type."""
        assert self.types is not None
        with promoting():
            grads = self._by_rule(dys)
        return [
            g if g is None or t is None or g.dtype == t else cast(g, dtype=t, elidable=True)
            for g, t in zip(grads, self.types, strict=True)
        ]

    @property
    def name(self) -> str:
        """The operator's name, for messages."""
        return self.info.name

    def output(self, i: int) -> Tensor:
        """The i-th output again, as a tensor with this node as its history."""
        saved = self.outputs[i]
        assert saved is not None
        t = Tensor(saved[0], requires_grad=True)
        t._value = saved[1]
        t.node = (self, i)
        return t

    def free(self) -> None:
        """Lets go of saved tensors after they have been used."""
        self.freed = True
        self.saved = []
        self.outputs = []


class Retention:
    """What the tape keeps of an operator's inputs and outputs, from its gradient rule."""

    __slots__ = ("keeps_outputs", "saved_inputs", "saves", "slots")

    def __init__(self, info: OpInfo) -> None:
        needed = RULES.saves(info)
        self.slots = list(range(len(info.inputs)))
        self.saved_inputs = [a["name"] in needed for a in info.inputs]
        self.saves = any(self.saved_inputs)
        # An operator with several outputs keeps them: the shape of one without a gradient is needed for its zeros.
        self.keeps_outputs = info.many_outputs or any(o["name"] in needed for o in info.outputs)


def _retention_of(info: OpInfo) -> Retention:
    info.retention = Retention(info)
    return info.retention


def attach(node: Node, outputs: Sequence[Tensor]) -> bool:
    """Makes `node` the history of its float outputs; says whether one of them is of a half type."""
    half = False
    for i, t in enumerate(outputs):
        dtype = t.dtype
        if dtype in DIFFERENTIABLE:
            t.requires_grad = True
            t.node = (node, i)
            half = half or dtype in HALF
    return half


def remember(info: OpInfo, inputs: Sequence[Any], attrs: tuple[Any, ...], out: Any) -> None:
    """Adds an operator that was just run or traced."""
    if info.name in RULES.without_gradient:
        return
    outputs = out if info.many_outputs else (out,)
    node = Node(info, inputs, attrs, outputs)
    if attach(node, outputs) or (info.widens and any(x is not None and x.dtype in HALF for x in inputs)):
        node.types = [None if x is None else x.dtype for x in inputs]


def backward(
    root: Tensor, grad: Tensor | None = None, *, create_graph: bool = False, retain_graph: bool | None = None
) -> None:
    """Adds the gradient of `root` to `grad` of every leaf it depends on that requires one.

    Args:
        root: a scalar, unless `grad` is given.
        grad: d(objective)/d(root), of root's shape; 1 when absent.
        create_graph: remember the gradient's own operators too, so that it can be differentiated again.
        retain_graph: keep the history for another call; by default as `create_graph`.

    Raises:
        GradientError: `root` has no history, is not a scalar, or its history was freed by an earlier call.
    """
    _leave([root], [grad], create_graph, create_graph if retain_graph is None else retain_graph)


def backward_from(roots: Sequence[Tensor], grads: Sequence[Tensor]) -> None:
    """`backward` of several tensors with a common history, whose gradients are given."""
    _leave(roots, grads, create_graph=False, retain_graph=False)


def _leave(roots: Sequence[Tensor], grads: Sequence[Tensor | None], create_graph: bool, retain_graph: bool) -> None:
    leaves = _walk(roots, grads, create_graph, {}, retain_graph)
    shared = _Shared([*roots, *grads])
    for leaf, g in leaves.values():
        if isinstance(g, Tensor) and g.dtype not in DIFFERENTIABLE:  # rows of a table have another gradient
            raise GradientError(
                f"backward: {leaf.name or 'a tensor'} of type {g.dtype} has requires_grad set; whole numbers "
                "have no gradient"
            )
        before = leaf.grad
        leaf.grad = shared.own(g) if before is None else before + g


class _Shared:
    """Which memory somebody holds already: a gradient that is left to the user must be nobody else's."""

    def __init__(self, held: Sequence[Tensor | None]) -> None:
        self._addresses = {t._data.address for t in held if t is not None and t._data is not None}

    def own(self, g: Tensor) -> Tensor:
        """`g`, or a copy where it lies in memory that is held."""
        if g._data is None:  # of a trace: its values are never overwritten
            return g
        if g._data.address in self._addresses:
            g = copy(g)
        self._addresses.add(g._data.address)
        return g


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grads: Sequence[Tensor | None] | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
) -> list[Tensor | None]:
    """d(sum of outputs . grads)/d(each input), without touching anybody's `grad`; None where there is no path.

    `inputs` are leaves (tensors made with requires_grad, such as parameters) or results of operators. The rest is as
    for `backward`.
    """
    keys = [_key(place_of(x)) for x in inputs]
    stops = dict(zip(keys, inputs, strict=True))
    retain = create_graph if retain_graph is None else retain_graph
    found = _walk(outputs, grads or [None] * len(outputs), create_graph, stops, retain)
    given: set[int] = set()  # one gradient of several inputs is a tensor of its own for each
    results: list[Tensor | None] = []
    for key in keys:
        g = found[key][1] if key in found else None
        if isinstance(g, Tensor) and g._data is not None:
            g = copy(g) if g._data.address in given else g
            given.add(g._data.address)
        results.append(g)
    return results


def key_of(x: Tensor) -> Any:
    """Equal for tensors whose gradients go to the same place; None for one that has none."""
    return _key(edge_of(x)) if x.requires_grad else None


def _key(edge: Any) -> Any:
    """What an edge leads to: a leaf, or an output of a node."""
    return id(edge) if isinstance(edge, Tensor) else (edge[0].order, edge[1])


def _walk(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    create_graph: bool,
    stops: dict[Any, Tensor],
    retain_graph: bool,
) -> dict[Any, tuple[Tensor, Tensor]]:
    """Visits nodes from the latest to the earliest; returns the gradient of every leaf, by its key.

    `stops` are tensors at which the walk ends as if they were leaves, by their keys.
    """
    leaves: dict[Any, tuple[Tensor, Tensor]] = {}
    pending: dict[int, list[Tensor | None]] = {}  # gradients of a node's outputs, by its order
    heap: list[tuple[int, Node]] = []

    def send(edge: Any, g: Tensor) -> None:
        key = _key(edge)
        if isinstance(edge, Tensor) or key in stops:
            have = leaves.get(key)
            leaves[key] = (stops.get(key, edge), g if have is None else have[1] + g)
            return
        node, i = edge
        if node.order not in pending:
            pending[node.order] = [None] * len(node.outputs)
            if node.freed:
                raise GradientError(
                    f"backward: the history of '{node.name}' was freed by an earlier backward(); "
                    "run the forward pass again, or pass retain_graph=True the first time"
                )
            heapq.heappush(heap, (-node.order, node))
        have_g = pending[node.order][i]
        pending[node.order][i] = g if have_g is None else have_g + g

    with recording(create_graph), as_given():
        for root, grad in zip(roots, grads, strict=True):
            edge = edge_of(root)
            if edge is None:
                raise GradientError("backward: this tensor does not depend on anything that requires a gradient")
            send(edge, _seed(root, grad))
        while heap:
            _, node = heapq.heappop(heap)
            for edge, g in zip(node.edges, node.gradients(pending.pop(node.order)), strict=True):
                if edge is not None and g is not None:
                    send(edge, g)
            if not retain_graph:
                node.free()
    return leaves


def _seed(root: Tensor, grad: Tensor | None) -> Tensor:
    if grad is not None:
        return grad
    if root.ndim != 0 and root.size != 1:
        raise GradientError(
            f"backward: the tensor has shape {list(root.shape)}; only a scalar has a gradient without `grad`"
        )
    return full_like(root, value=1.0)


def _composed_gradients(node: Node, dys: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Gradients of the composition that the operator stands for, which runs again for this."""
    keeps_history = context.grad_enabled
    attrs = {spec["name"]: value for spec, value in zip(node.info.attrs, node.attrs, strict=True)}
    with recording(True):
        # A view of each input, at which the walk stops: an input given twice has two of them.
        views = [None if x is None else reshape_like(x, x) for x in map(kept, node.saved)]
        out = composition_of(node.info)(*views, **attrs)
    outs = out if isinstance(out, tuple) else (out,)
    roots = [(o, dy) for o, dy in zip(outs, dys, strict=True) if dy is not None and o.requires_grad]
    wanted = [v for v, edge in zip(views, node.edges, strict=True) if v is not None and edge is not None]
    found = gradients([o for o, _ in roots], wanted, [dy for _, dy in roots], create_graph=keeps_history)
    given = iter(found)
    return [next(given) if v is not None and e is not None else None for v, e in zip(views, node.edges, strict=True)]
