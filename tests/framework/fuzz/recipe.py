"""A small program as data: leaves, operators on numbered values, results, updates of states, gradients.

The same recipe runs eagerly or under a tracer (`Instance`), prints as Python code, and can be cut down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import framework
from framework import optim
from framework.optim.optimizer import Optimizer
from framework.tensors import Tensor
from tests.framework.fuzz.control_steps import CONTROL, call


@dataclass(frozen=True)
class Leaf:
    """A value that is given: `kind` is "input", "state" or "constant"."""

    kind: str
    array: np.ndarray
    differentiable: bool = False

    def tensor(self) -> Tensor:
        """The leaf as a Tensor of its own memory."""
        t = framework.tensor(self.array.copy(), requires_grad=self.differentiable)
        t.persistable = self.kind == "state"
        return t


@dataclass(frozen=True)
class Step:
    """One call of an operator or of CONTROL: numbers of the values it takes (None for an absent one) and makes."""

    operator: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A program over numbered values.

    Attributes:
        leaves: what is given, by number.
        steps: the operators, in order.
        results: numbers of the values that are handed out.
        updates: (state, value) pairs: the state's new value.
        order: 0 without gradients; 1 with those of the results by the leaves; 2 with those of the gradients too.
        optimizer: a name of OPTIMIZERS: differentiable states are trained by their gradients; "" for none.
    """

    leaves: dict[int, Leaf]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    updates: tuple[tuple[int, int], ...] = ()
    order: int = 0
    optimizer: str = ""

    def of_kind(self, kind: str) -> list[int]:
        """Numbers of the leaves of a kind."""
        return [n for n, leaf in self.leaves.items() if leaf.kind == kind]

    def trained(self) -> list[int]:
        """Numbers of the states that the optimizer updates."""
        return [n for n in self.of_kind("state") if self.optimizer and self.leaves[n].differentiable]

    def has_control_flow(self) -> bool:
        """Whether some step is of CONTROL."""
        return any(step.operator in CONTROL for step in self.steps)

    def without_unused(self) -> Recipe:
        """The same results without the steps, updates aside, and leaves that none of them needs."""
        needed = {*self.results, *(n for pair in self.updates for n in pair)}
        kept = []
        for step in reversed(self.steps):
            if not needed.isdisjoint(step.outputs):
                kept.append(step)
                needed.update(n for n in step.inputs if n is not None)
        leaves = {n: leaf for n, leaf in self.leaves.items() if n in needed}
        return replace(self, leaves=leaves, steps=tuple(reversed(kept)))

    def code(self) -> str:
        """Python that does the same; arrays of many elements are only described."""
        names = {n: f"{leaf.kind[0]}{n}" for n, leaf in self.leaves.items()}
        names |= {n: f"v{n}" for step in self.steps for n in step.outputs}
        lines = [f"{names[n]} = {_array_code(leaf)}" for n, leaf in self.leaves.items()]
        for step in self.steps:
            arguments = ["None" if n is None else names[n] for n in step.inputs]
            arguments += [f"{k}={v!r}" for k, v in step.attrs.items()]
            left = ", ".join(names[n] for n in step.outputs)
            lines.append(f"{left} = ops.{step.operator}({', '.join(arguments)})")
        lines += [f"{names[s]}.set({names[v]})" for s, v in self.updates]
        lines.append(f"return {', '.join(names[n] for n in self.results)}  # and gradients of order {self.order}")
        if self.optimizer:
            lines.append(f"# optimizer {self.optimizer} trains the states with gradient")
        return "\n".join(lines)


def plain_array(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """A fixed pattern that prints as one short expression."""
    return np.resize(np.linspace(-1.3, 1.7, 11), shape).astype(dtype)


def _array_code(leaf: Leaf) -> str:
    x = leaf.array
    text = f"{leaf.kind} {x.dtype}{list(x.shape)}" + (" with gradient" if leaf.differentiable else "")
    if x.dtype.kind == "f" and x.tobytes() == plain_array(x.shape, x.dtype).tobytes():
        return f"plain_array({x.shape}, {x.dtype.name!r})  # {text}"
    if x.size <= 64:
        return f"np.array({x.tolist()}, {x.dtype.name!r})  # {text}"
    return f"...  # {text}"


OPTIMIZERS: dict[str, Callable[[list[tuple[str, Tensor]]], Optimizer]] = {
    "sgd": lambda params: optim.SGD(params, lr=0.01, weight_decay=0.1),
    "momentum": lambda params: optim.Momentum(params, lr=0.01, nesterov=True),
    "adamw": lambda params: optim.AdamW(params, lr=0.01),
}
CLIP = 0.5  # joint norm of the gradients that an optimizer is given


class Instance:
    """A recipe's leaves as Tensors, with the optimizer that trains them: what one way to run it works on."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.leaves = {n: leaf.tensor() for n, leaf in recipe.leaves.items()}
        self.optimizer: Optimizer | None = None
        trained = [(str(n), self.leaves[n]) for n in recipe.trained()]
        if trained:
            self.optimizer = OPTIMIZERS[recipe.optimizer](trained)

    def states(self) -> list[Tensor]:
        """All that lives on between runs."""
        slots = self.optimizer.state_dict().values() if self.optimizer else ()
        return [*(self.leaves[n] for n in self.recipe.of_kind("state")), *slots]

    def calculate(self, inputs: Mapping[int, Tensor] | None = None) -> list[Tensor]:
        """Runs eagerly or as part of a trace; returns the results, then the gradients. States are updated at the end.

        Gradients that the optimizer takes are not returned: some passes make less than the whole of them.
        `inputs` take the places of leaves.
        """
        recipe, leaves = self.recipe, self.leaves | dict(inputs or {})
        values = dict(leaves)
        for step in recipe.steps:
            given = [None if n is None else values[n] for n in step.inputs]
            values.update(zip(step.outputs, call(step.operator, given, step.attrs), strict=True))
        results = [values[n] for n in recipe.results]
        wanted = [leaves[n] for n in sorted(leaves) if leaves[n].requires_grad]
        grads = _gradients(results, wanted, recipe.order)
        for state, value in recipe.updates:
            leaves[state].set(values[value])
        self._train(grads[: len(wanted)], wanted)
        taken = [g for g, t in zip(grads, wanted, strict=False) if self.optimizer and t.persistable]
        return results + [g for g in grads if g is not None and not any(g is t for t in taken)]

    def _train(self, grads: list[Tensor | None], wanted: list[Tensor]) -> None:
        if self.optimizer is None:
            return
        for t, g in zip(wanted, grads, strict=True) if grads else ():
            t.grad = g
        optim.clip_by_global_norm(self.optimizer.params.values(), CLIP)
        self.optimizer.step()
        for t in wanted:
            t.grad = None


def _gradients(results: list[Tensor], leaves: list[Tensor], order: int) -> list[Tensor | None]:
    """Gradients of half the sum of the results' squares by the leaves, then those of the gradients' squares."""
    roots = [r for r in results if r.requires_grad]
    if not order or not roots:
        return []
    grads = framework.gradients(roots, leaves, roots, create_graph=order > 1)
    return grads + _gradients([g for g in grads if g is not None], leaves, order - 1)
