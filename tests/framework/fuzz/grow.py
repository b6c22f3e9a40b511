"""Random recipes grown from the operators' own samples (tests/framework/ops/specs).

A step is a random sample of a random operator, some of whose inputs are replaced by values that are there already.
Where such a value has another shape than the sample's, the extents of the sample's other inputs are renamed likewise,
and the operator's shape rule has the last word. Now and then a motif (motifs.py) adds several steps at once. Every step
runs eagerly at once: what an operator refuses, what is not finite and what is too large is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from framework import _core
from framework.autograd.rule_table import RULES
from framework.autograd.tape import no_grad
from framework.errors import GradientError, PaddockError
from framework.ops import registry
from framework.tensors import Tensor
from tests.framework.fuzz.control_steps import CONTROL, call
from tests.framework.fuzz.motifs import MOTIFS, Layers
from tests.framework.fuzz.recipe import OPTIMIZERS, Instance, Leaf, Recipe, Step
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS, Sample

LARGEST_VALUE, LARGEST_SIZE, USUAL_SIZE = 1e3, 200_000, 4_000
# What passes look for: operators that often follow on another one's result.
NORMS, ACTIVATIONS = ("batch_norm", "batch_norm_inference"), ("relu", "leaky_relu", "relu6")
FOLLOWERS = {
    "conv2d": (*NORMS, "batch_norm_inference", *ACTIVATIONS, "add", "conv2d"),
    "embedding": ("matmul", "add", "layer_norm"),
    "matmul": (*ACTIVATIONS, "add", "add", "layer_norm"),
    **dict.fromkeys(NORMS, (*ACTIVATIONS, "add", "conv2d")),
    **dict.fromkeys(ACTIVATIONS, ("conv2d", "conv2d", "matmul", "add")),
    "transpose": ("relu", "conv2d", "sum", "transpose", "concat"),
    "add": (*ACTIVATIONS, "layer_norm", "add", "mul"),
}
IMAGE_LAYERS = ("conv2d", *NORMS, *ACTIVATIONS, "add", "max_pool2d", "concat", "resize_nearest", "transpose")
ROW_LAYERS = (
    "matmul",
    "embedding",
    *ACTIVATIONS,
    "add",
    "layer_norm",
    "batch_norm",
    "gelu",
    "softmax",
    "mul",
    "dropout",
)
FOLLOWED, FRESH = 0.5, 0.1  # chance that one follows; that a sample stays as it is
MOTIF_SHARE = 0.08  # of the attempts to add a step, those that add a motif
SPECIAL_SHARE = 0.02  # of the steps that make infinities or no numbers, those which are taken


@dataclass(frozen=True)
class Style:
    """What a random recipe is like: its type, its length, whether it takes large samples, how far gradients go."""

    dtype: str
    steps: int
    large: bool
    order: int
    optimizer: str
    deep: bool  # layers one after the other, as in a network

    @staticmethod
    def draw(rng: np.random.Generator) -> Style:
        """A random style: mostly float32, short and small."""
        deep = bool(rng.random() < 0.25)
        steps = int(rng.integers(2, 10)) if not deep and rng.random() < 0.8 else int(rng.integers(10, 25))
        dtype = "float32" if rng.random() < 0.7 else "float64"
        order = int(rng.choice([0, 0, 1, 2] if deep else [0, 1, 1, 2]))
        optimizer = str(rng.choice(list(OPTIMIZERS))) if order and rng.random() < 0.3 else ""
        return Style(dtype, steps, bool(rng.random() < 0.05), order, optimizer, deep)


def grow(rng: np.random.Generator, style: Style | None = None) -> Recipe:
    """A random recipe of at least one step."""
    grower = _Grower(rng, style or Style.draw(rng))
    while len(grower.steps) < grower.style.steps:
        grower.try_step()
    return grower.finish()


def grow_motif(motif: Callable[[Layers], None], rng: np.random.Generator) -> Recipe:
    """A recipe of one motif."""
    grower = _Grower(rng, Style("float32", 1, large=False, order=0, optimizer="", deep=False))
    motif(grower)
    return grower.finish()


class _Grower:
    def __init__(self, rng: np.random.Generator, style: Style) -> None:
        self.rng = rng
        self.style = style
        self.leaves: dict[int, Leaf] = {}
        self.steps: list[Step] = []
        self.values: dict[int, Tensor] = {}
        self._operators = list(SPECS)
        if style.deep:
            self._operators = list(IMAGE_LAYERS if rng.random() < 0.6 else ROW_LAYERS)

    # -- one step
    def try_step(self) -> None:
        """Adds one step or a motif's, if the operator that is drawn takes what it is given."""
        rng = self.rng
        if rng.random() < MOTIF_SHARE:
            MOTIFS[int(rng.integers(len(MOTIFS)))](self)
            return
        last = self.steps[-1] if self.steps else None
        share = 0.9 if self.style.deep else FOLLOWED
        follows = last is not None and last.operator in FOLLOWERS and rng.random() < share
        name = str(rng.choice(FOLLOWERS[last.operator] if follows else self._operators))
        samples = [s for s in SPECS[name].samples if self._is_taken(s)]
        if not samples:
            return
        sample = samples[int(rng.integers(len(samples)))]
        arrays = [None if x is None else self._typed(np.asarray(x)) for x in sample.inputs]
        chosen = self._choose(arrays, last.outputs[0] if follows else None)
        renamed = _renamings(arrays, {i: self.values[n].shape for i, n in chosen.items()})
        last_only = bool(rng.random() < 0.5)
        new: dict[int, Leaf] = {}
        inputs: list[int | None] = []
        for i, x in enumerate(arrays):
            if x is None or i in chosen:
                inputs.append(chosen.get(i))
                continue
            number = self._next_number() + len(new)
            new[number] = self.leaf(self._renamed(x, renamed, last_only))
            inputs.append(number)
        self._run(name, inputs, new, sample.attrs)

    # -- what motifs use
    def value(self, ndim: int) -> int | None:
        """Number of a value of the recipe's type with so many axes, none of them empty; None where there is none."""
        fitting = [n for n, t in self.values.items() if t.ndim == ndim and t.dtype == self.style.dtype and t.size]
        return int(self.rng.choice(fitting)) if fitting else None

    def shape(self, number: int) -> tuple[int, ...]:
        """A value's shape."""
        return self.values[number].shape

    def layer(self, name: str, *inputs: int | Leaf | None, **attrs: Any) -> int | None:
        """One step; the number of its first output, None if it was refused."""
        numbers: list[int | None] = []
        new: dict[int, Leaf] = {}
        for x in inputs:
            if isinstance(x, Leaf):
                number = self._next_number() + len(new)
                new[number] = replace(x, array=self._typed(x.array))
                numbers.append(number)
            else:
                numbers.append(x)
        before = len(self.steps)
        self._run(name, numbers, new, attrs)
        return self.steps[-1].outputs[0] if len(self.steps) > before else None

    def train_with(self, optimizer: str) -> None:
        """Asks for gradients and this optimizer."""
        self.style = replace(self.style, order=max(1, self.style.order), optimizer=optimizer)

    def _is_taken(self, sample: Sample) -> bool:
        largest = max((x.size for x in sample.inputs if x is not None), default=0)
        return largest <= (LARGEST_SIZE if self.style.large else USUAL_SIZE)

    def _typed(self, x: np.ndarray) -> np.ndarray:
        return x.astype(self.style.dtype) if x.dtype == np.float64 else x

    def _choose(self, arrays: Sequence[np.ndarray | None], first: int | None) -> dict[int, int]:
        """Inputs that take a value which is there already: at least one, where a type and a number of axes fit.

        `first`, where given, is the first input's value.
        """
        chosen: dict[int, int] = {} if first is None else {0: first}
        if (first is not None and self.rng.random() < 0.7) or self.rng.random() < FRESH:
            return chosen
        for i in self.rng.permutation(len(arrays)):
            x = arrays[i]
            if x is None or i in chosen or (chosen and self.rng.random() < 0.4):
                continue
            same_type = [n for n, t in self.values.items() if t.dtype == x.dtype.name]
            fitting = [n for n in same_type if self.values[n].ndim == x.ndim] or same_type
            if x.dtype.kind in "iu" and self.rng.random() < 0.7:
                continue  # an index from elsewhere is mostly out of range
            if not fitting:
                continue
            alike = [n for n in fitting if chosen and self.values[n].shape in self._shapes(chosen)]
            pool = alike if alike and self.rng.random() < 0.7 else fitting
            recent = pool[-1] if self.rng.random() < 0.5 else pool[int(self.rng.integers(len(pool)))]
            chosen[int(i)] = recent
        return chosen

    def _shapes(self, chosen: dict[int, int]) -> set[tuple[int, ...]]:
        return {self.values[n].shape for n in chosen.values()}

    def _renamed(self, x: np.ndarray, names: dict[int, int], last_only: bool) -> np.ndarray:
        """`x` with extents renamed: all of them or, as equal extents may be unrelated, that of the last axis only."""
        shape = tuple(names.get(n, n) if i == x.ndim - 1 or not last_only else n for i, n in enumerate(x.shape))
        return x if shape == x.shape or math.prod(shape) > LARGEST_SIZE else np.resize(x, shape)

    def leaf(self, x: np.ndarray) -> Leaf:
        """A leaf of a random kind."""
        is_float = x.dtype.kind == "f"
        kind = str(self.rng.choice(["input", "input", "state", "constant"] if is_float else ["input", "constant"]))
        return Leaf(kind, x, is_float and kind != "constant" and bool(self.rng.random() < 0.7))

    def _run(self, name: str, inputs: list[int | None], new: dict[int, Leaf], attrs: dict[str, Any]) -> None:
        tensors = {n: leaf.tensor() for n, leaf in new.items()}
        known = self.values | tensors
        try:
            given = [None if n is None else known[n] for n in inputs]
            if name not in CONTROL and self._output_size(name, given, attrs) > LARGEST_SIZE:
                return
            with no_grad():
                outs = call(name, given, attrs)
        except PaddockError:
            return
        if not all(self._is_tame(t.numpy()) for t in outs) and self.rng.random() > SPECIAL_SHARE:
            return
        self.leaves.update(new)
        self.values.update(tensors)
        numbers = tuple(range(self._next_number(), self._next_number() + len(outs)))
        self.values.update(zip(numbers, outs, strict=True))
        self.steps.append(Step(name, tuple(inputs), numbers, attrs))

    @staticmethod
    def _output_size(name: str, inputs: Sequence[Tensor | None], attrs: dict[str, Any]) -> int:
        """Elements of the largest output, by the operator's shape rule."""
        info = registry.OPS[name]
        types = [(None, None) if t is None else (t.shape, t.dtype) for t in inputs]
        shapes, dtypes = [s for s, _ in types], [d for _, d in types]
        return max(math.prod(s) for s, _ in _core.infer(info.native, shapes, dtypes, info.attr_values(attrs)))

    def _is_tame(self, x: np.ndarray) -> bool:
        return x.dtype.kind != "f" or (bool(np.isfinite(x).all()) and float(np.abs(x).max(initial=0)) < LARGEST_VALUE)

    def _next_number(self) -> int:
        return max(self.values, default=-1) + 1

    # -- the whole
    def finish(self) -> Recipe:
        """Hands out what nobody reads and some of the rest; states get new values."""
        read = {n for step in self.steps for n in step.inputs}
        made = [n for step in self.steps for n in step.outputs]
        results = [n for n in made if n not in read or self.rng.random() < 0.1]
        if self.rng.random() < 0.1:
            results.append(int(self.rng.choice(list(self.leaves))) if self.leaves else made[0])
        # Halves have no arithmetic, and so no gradients yet.
        halves = any(t.dtype in ("float16", "bfloat16") for t in self.values.values())
        order, optimizer = (0, "") if halves else (self.style.order, self.style.optimizer)
        recipe = Recipe(self.leaves, tuple(self.steps), tuple(results), order=order, optimizer=optimizer)
        updates = []
        for s in sorted({*recipe.of_kind("state")} - {*recipe.trained()}):
            like = self.values[s]
            fits = [n for n, t in self.values.items() if n != s and (t.shape, t.dtype) == (like.shape, like.dtype)]
            if fits and self.rng.random() < 0.5:
                updates.append((s, int(self.rng.choice(fits))))
        return _to_the_order_there_is(replace(recipe, updates=tuple(updates)).without_unused())


def _to_the_order_there_is(recipe: Recipe) -> Recipe:
    """Without gradients of an order that an operator says it has not."""
    try:
        Instance(recipe).calculate()
    except GradientError as error:
        if str(error).split(":")[0] in RULES.first_order_only:
            lower = recipe.order - 1
            return _to_the_order_there_is(replace(recipe, order=lower, optimizer=recipe.optimizer if lower else ""))
    except PaddockError:
        pass  # the checks will say so
    return recipe


def _renamings(arrays: Sequence[np.ndarray | None], shapes: dict[int, tuple[int, ...]]) -> dict[int, int]:
    """Extent in the sample -> extent in what replaces its inputs."""
    names: dict[int, int] = {}
    for i, shape in shapes.items():
        x = arrays[i]
        if x is not None:  # from the last axis, which is what most operators work along
            names.update(zip(x.shape[::-1], shape[::-1], strict=False))
    return names
