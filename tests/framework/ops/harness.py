"""The test object of an operator: its samples, bad inputs and independent reference.

`tests/framework/ops/specs/<family>.py` declares one `spec(...)` an operator; `test_ops.py` derives every test from it:
forward against the reference, gradients numerically, eager against Program, one thread against two, each instruction
set, errors, and the completeness of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import framework
from framework.ops import dispatch, registry
from framework.ops.compositions import composition_of

FLOATS = ("float32", "float64")


@dataclass
class Sample:
    """One call: `inputs` in signature order (float arrays in float64, None for an absent one; a variadic input's
    arrays follow one another), `attrs` by name."""

    inputs: Sequence[np.ndarray | None]
    attrs: dict[str, Any] = field(default_factory=dict)
    differentiable: Sequence[int] | None = None  # numbers of the inputs without a kink; by default all float inputs

    def tensors(self, dtype: str) -> list[framework.Tensor | None]:
        """Inputs as Tensors; float64 arrays are cast to `dtype`, others keep their type."""
        return [None if x is None else framework.tensor(_as(x, dtype)) for x in self.inputs]

    def run(self, name: str, dtype: str) -> list[np.ndarray]:
        """The operator's outputs."""
        return outputs_of(dispatch.call_by_name(name, self.tensors(dtype), **self.attrs))


def _as(x: np.ndarray, dtype: str) -> np.ndarray:
    x = np.asarray(x)
    return x.astype(dtype) if x.dtype == np.float64 else x


def outputs_of(out: Any) -> list[np.ndarray]:
    """NumPy copies of an operator's output or outputs."""
    return [np.array(o.numpy()) for o in (out if isinstance(out, tuple) else (out,))]


@dataclass
class Bad:
    """A call that must fail with `error`, whose message matches the regular expression `match`."""

    inputs: Sequence[np.ndarray | None]
    error: type[Exception]
    match: str
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Spec:
    name: str
    reference: Callable[..., Any]  # (*inputs in float64, **attrs) -> array or tuple of arrays, in NumPy
    samples: list[Sample]
    errors: list[Bad]
    # Error allowed for an element, in units of eps(dtype) * what the element is made of (see tolerance.py): the number
    # of roundings on the way to it (1 for an exact operator, about the length of a sum for a reduction).
    roundings: float = 8.0
    # (*inputs in float64, **attrs) -> what is added to every element's unit: the size of numbers that cancel on the way
    # and that the inputs do not show.
    unit: Callable[..., float] | None = None
    gradient: bool = True  # False: declared with no_gradient
    exact: bool = False  # outputs must equal the reference
    dtypes: Sequence[str] = FLOATS


def composed(name: str) -> Callable[..., Any]:
    """The composition that fused operator `name` stands for, as a reference in NumPy arrays."""
    info = registry.OPS[name]

    def reference(*inputs: np.ndarray | None, **attrs: Any) -> Any:
        tensors = [None if x is None else framework.tensor(x) for x in inputs]
        values = {a["name"]: a["default"] for a in info.attrs} | attrs
        out = outputs_of(composition_of(info)(*tensors, **values))
        return tuple(out) if len(out) > 1 else out[0]

    return reference


SPECS: dict[str, Spec] = {}


def spec(name: str, **kwargs: Any) -> None:
    """Declares the test object of operator `name`; see `Spec`."""
    assert name not in SPECS, f"{name} has two specs"
    SPECS[name] = Spec(name, **kwargs)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Standard normal float64 numbers, the same each time."""
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape) * scale)


def away_from(points: Sequence[float], x: np.ndarray, margin: float = 0.05) -> np.ndarray:
    """`x` with values near a kink pushed away from it, for gradient checks."""
    x = x.copy()
    for p in points:
        near = np.abs(x - p) < margin
        x[near] = p + np.where(x[near] >= p, margin, -margin) * 2
    return x


def integers(low: int, high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """int64 numbers in [low, high), the same each time."""
    return np.random.default_rng([seed, low % 2**32, high % 2**32, *shape]).integers(low, high, shape)
