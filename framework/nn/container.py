"""Layers made of other layers: one after the other, or held in a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from framework.nn.layer import Layer


class LayerList(Layer):
    """A list of layers; their names are "0", "1", ..."""

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        super().__init__()
        for layer in layers:
            self.append(layer)

    def append(self, layer: Layer) -> None:
        """Adds a layer at the end."""
        setattr(self, str(len(self)), layer)

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.children)

    def __getitem__(self, index: int) -> Layer:
        return self.children[index]


class Sequential(LayerList):
    """Layers that run one after the other: Sequential(Linear(4, 8), Activation("relu"))."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__(layers)

    def forward(self, x: Any) -> Any:
        """The last layer's output."""
        for layer in self:
            x = layer(x)
        return x
