"""Pieces of networks that passes look for and that random operators hardly ever make: shortcuts, separable layers,
trained tables, losses, control flow.

A motif adds its steps through `Layers`, on values that are there or on new ones; any of its steps may be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tests.framework.fuzz.recipe import Leaf

ACTIVATIONS = ("relu", "leaky_relu", "relu6", "tanh", "sigmoid")
TABLE = (2100, 8)  # elements enough for its gradient to stay rows


class Layers(Protocol):
    """What a motif is grown on."""

    rng: np.random.Generator

    def value(self, ndim: int) -> int | None:
        """Number of a floating point value with so many axes, none of them empty; None where there is none."""

    def shape(self, number: int) -> tuple[int, ...]:
        """A value's shape."""

    def layer(self, name: str, *inputs: int | Leaf | None, **attrs: Any) -> int | None:
        """One step; the number of its first output, None if it was refused."""

    def leaf(self, x: np.ndarray) -> Leaf:
        """A leaf of a random kind."""

    def train_with(self, optimizer: str) -> None:
        """Asks for gradients and this optimizer."""


def separable(g: Layers) -> None:
    """A depthwise convolution, perhaps an activation, and the 1 x 1 convolution that reads it."""
    x = _image(g)
    channels = g.shape(x)[3]
    kernel, stride, dilation = int(g.rng.choice([1, 3, 5])), int(g.rng.choice([1, 1, 2])), int(g.rng.choice([1, 1, 2]))
    padding = int(g.rng.integers(0, kernel // 2 * dilation + 1))
    attrs: dict[str, Any] = {"stride": stride, "dilation": dilation, "padding": padding, "groups": channels}
    depth = g.layer("conv2d", x, _weight(g, channels, kernel, kernel, 1), _maybe(g, channels), None, **attrs)
    if depth is not None and g.rng.random() < 0.6:
        depth = g.layer(str(g.rng.choice(ACTIVATIONS[:3])), depth)
    if depth is None:
        return
    width = int(g.rng.integers(1, 20))
    y = g.layer("conv2d", depth, _weight(g, width, 1, 1, channels), _maybe(g, width), None)
    _end(g, y)


def shortcut(g: Layers) -> None:
    """A convolution or product with an activation, to which a value of its shape is added: DarkNet's and ResNet's."""
    x = _image(g)
    channels = g.shape(x)[3]
    size = int(g.rng.choice([1, 3]))
    weight = _weight(g, channels, size, size, channels)
    y = g.layer("conv2d", x, weight, _maybe(g, channels), None, padding=size // 2)
    if y is not None and g.rng.random() < 0.8:
        y = g.layer(str(g.rng.choice(ACTIVATIONS)), y)
    if y is not None:
        _end(g, g.layer("add", *((x, y) if g.rng.random() < 0.5 else (y, x))))


def looked_up(g: Layers) -> None:
    """A table so large that its gradient may stay rows, some of which are looked up more than once."""
    rows = g.rng.integers(0, TABLE[0], (int(g.rng.integers(1, 12)),))
    if g.rng.random() < 0.5:
        rows[-1] = rows[0]
    x = g.layer("embedding", Leaf("state", g.rng.standard_normal(TABLE), True), Leaf("input", rows))
    g.train_with("adamw")
    if x is not None and g.rng.random() < 0.7:
        g.layer("matmul", x, _weight(g, TABLE[1], 3))


def chosen_classes(g: Layers) -> None:
    """The log-probabilities of classes by their labels, some of which count from the end: a loss written by hand."""
    x = _rows(g)
    rows, classes = g.shape(x)
    logs = g.layer("log_softmax", x)
    labels = g.layer("expand_dims", Leaf("input", g.rng.integers(-classes, classes, rows)), axis=-1)
    if logs is not None and labels is not None:
        g.layer("take_along_axis", logs, labels, axis=-1)


def branch(g: Layers) -> None:
    """One of two activations, as the data says."""
    x = _rows(g)
    yes, no = g.rng.choice(ACTIVATIONS, 2)
    g.layer("branch", x, _weight(g, g.shape(x)[1]), yes=str(yes), no=str(no))


def repeat(g: Layers) -> None:
    """A layer repeated until its result is small, at most a few times."""
    x = _rows(g)
    width = g.shape(x)[1]
    g.layer(
        "repeat", x, _weight(g, width, width), activation=str(g.rng.choice(ACTIVATIONS)), most=int(g.rng.integers(4))
    )


def recurrence(g: Layers) -> None:
    """A state carried over the rows of a matrix."""
    x = _rows(g)
    width = g.shape(x)[1]
    start, weight = _weight(g, width), _weight(g, width)
    activation = str(g.rng.choice(ACTIVATIONS))
    g.layer("recurrence", start, x, weight, activation=activation, reverse=bool(g.rng.random() < 0.5))


MOTIFS: tuple[Callable[[Layers], None], ...] = (
    separable, shortcut, looked_up, chosen_classes, branch, repeat, recurrence,
)  # fmt: skip


def _end(g: Layers, y: int | None) -> None:
    """What follows a layer."""
    if y is not None and g.rng.random() < 0.5:
        g.layer(str(g.rng.choice(ACTIVATIONS)), y)


def _image(g: Layers) -> int:
    x = g.value(4) if g.rng.random() < 0.5 else None
    return x if x is not None else _new(g, *g.rng.integers(1, 7, 3), int(g.rng.integers(2, 18)))


def _rows(g: Layers) -> int:
    x = g.value(2) if g.rng.random() < 0.5 else None
    return x if x is not None else _new(g, *g.rng.integers(1, 7, 2))


def _new(g: Layers, *shape: int) -> int:
    """A new value with these axes."""
    number = g.layer("relu", g.leaf(g.rng.standard_normal(shape)))
    assert number is not None, "relu takes everything"
    return number


def _weight(g: Layers, *shape: int) -> Leaf:
    """A state or a constant: what passes may rely on; now and then any leaf."""
    array = 0.5 * g.rng.standard_normal(shape)
    if g.rng.random() < 0.1:
        return g.leaf(array)
    return Leaf("state", array, True) if g.rng.random() < 0.5 else Leaf("constant", array)


def _maybe(g: Layers, *shape: int) -> Leaf | None:
    return _weight(g, *shape) if g.rng.random() < 0.5 else None
