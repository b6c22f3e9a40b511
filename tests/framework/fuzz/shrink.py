"""Cuts a failing recipe down to a small one that still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from framework.autograd.tape import no_grad
from tests.framework.fuzz.control_steps import call
from tests.framework.fuzz.recipe import Leaf, Recipe, plain_array


def shrink(recipe: Recipe, fails: Callable[[Recipe], bool], seconds: float = 30.0) -> Recipe:
    """The smallest recipe found within the time for which `fails` still holds; the recipe itself if none is smaller."""
    end, best, changed = time.monotonic() + seconds, recipe, True
    while changed:
        changed = False
        for smaller in _smaller(best):
            if time.monotonic() > end:
                return best
            if _is_valid(smaller) and fails(smaller):
                best, changed = smaller, True
                break
    return best


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Simpler recipes, the boldest cuts first."""
    if len(recipe.results) > 1:
        for n in recipe.results:
            yield replace(recipe, results=(n,)).without_unused()
    for less in ({"optimizer": ""}, {"updates": ()}, {"order": 0, "optimizer": ""}, {"order": 1}):
        if any(getattr(recipe, k) and getattr(recipe, k) != v for k, v in less.items()):
            yield replace(recipe, **less).without_unused()
    if len(recipe.results) > 1:
        for n in recipe.results:
            yield replace(recipe, results=tuple(r for r in recipe.results if r != n)).without_unused()
    for pair in recipe.updates:
        yield replace(recipe, updates=tuple(p for p in recipe.updates if p != pair)).without_unused()
    yield from _without_a_step(recipe)
    yield from _with_a_plainer_leaf(recipe)


def _without_a_step(recipe: Recipe) -> Iterator[Recipe]:
    """A step's outputs become inputs, latest step first; or its readers take one of its inputs instead."""
    values = _values(recipe)
    for i in reversed(range(len(recipe.steps))):
        step, rest = recipe.steps[i], recipe.steps[:i] + recipe.steps[i + 1 :]
        made = {n: Leaf("input", values[n], values[n].dtype.kind == "f") for n in step.outputs}
        yield replace(recipe, leaves=recipe.leaves | made, steps=rest).without_unused()
        out = values[step.outputs[0]]
        for n in step.inputs:
            if n is not None and (values[n].shape, values[n].dtype) == (out.shape, out.dtype):
                yield _renamed(replace(recipe, steps=rest), step.outputs[0], n).without_unused()


def _renamed(recipe: Recipe, old: int, new: int) -> Recipe:
    def name(n: int | None) -> int | None:
        return new if n == old else n

    steps = tuple(replace(s, inputs=tuple(map(name, s.inputs))) for s in recipe.steps)
    results = tuple(new if n == old else n for n in recipe.results)
    return replace(
        recipe, steps=steps, results=results, updates=tuple((s, new if v == old else v) for s, v in recipe.updates)
    )


def _with_a_plainer_leaf(recipe: Recipe) -> Iterator[Recipe]:
    for n, leaf in recipe.leaves.items():
        plainer = []
        if leaf.differentiable:
            plainer.append(replace(leaf, differentiable=False))
        if leaf.kind != "input" and n not in [s for s, _ in recipe.updates]:
            plainer.append(replace(leaf, kind="input"))
        pattern = plain_array(leaf.array.shape, leaf.array.dtype)
        if leaf.array.dtype.kind == "f" and leaf.array.tobytes() != pattern.tobytes():
            plainer.append(replace(leaf, array=pattern))
        for new in plainer:
            yield replace(recipe, leaves=recipe.leaves | {n: new})


def _values(recipe: Recipe) -> dict[int, np.ndarray]:
    """Every value of a recipe, eagerly."""
    values = {n: leaf.tensor() for n, leaf in recipe.leaves.items()}
    with no_grad():
        for step in recipe.steps:
            out = call(step.operator, [None if n is None else values[n] for n in step.inputs], step.attrs)
            values.update(zip(step.outputs, out, strict=True))
    return {n: np.array(t.numpy()) for n, t in values.items()}


def _is_valid(recipe: Recipe) -> bool:
    """Whether every number is defined before it is read."""
    known = set(recipe.leaves)
    for step in recipe.steps:
        if not known.issuperset(n for n in step.inputs if n is not None):
            return False
        known.update(step.outputs)
    return bool(recipe.results) and known.issuperset(recipe.results)
