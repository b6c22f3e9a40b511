"""Layers made of other layers: one after the other, or held in a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from framework.errors import AttributeValueError
from framework.nn.layer import Layer


class LayerList(Layer):
    """A list of layers; their names are "0", "1", ...

    Example:
        >>> layers = nn.LayerList(nn.Linear(4, 4) for _ in range(3))
        >>> len(layers), next(iter(layers.state_dict()))
        (3, '0.weight')
    """

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


class LayerDict(Layer):
    """Layers by name; a name is an identifier, as it becomes a part of the paths of parameters.

    Raises:
        AttributeValueError: a name is none, or that of a method of layers.

    Example:
        >>> heads = nn.LayerDict({"age": nn.Linear(4, 1)})
        >>> list(heads.state_dict())
        ['age.weight', 'age.bias']
    """

    def __init__(self, layers: Mapping[str, Layer] | None = None) -> None:
        super().__init__()
        for name, layer in (layers or {}).items():
            self[name] = layer

    def __setitem__(self, name: str, layer: Layer) -> None:
        if not name.isidentifier() or (hasattr(type(self), name) or name.startswith("_")):
            raise AttributeValueError(f"LayerDict: '{name}' cannot name a layer; take another identifier")
        setattr(self, name, layer)

    def __getitem__(self, name: str) -> Layer:
        if name not in self._parts:
            raise KeyError(name)
        return getattr(self, name)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._parts))

    def items(self) -> list[tuple[str, Layer]]:
        """(name, layer) in order."""
        return list(self.named_children())


class Sequential(LayerList):
    """Layers that run one after the other: Sequential(Linear(4, 8), Activation("relu")).

    y = f_n(... f_2(f_1(x)))

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Activation("relu"), nn.Linear(8, 2))
        >>> net(tensor(np.ones((3, 4), np.float32))).shape
        (3, 2)
    """

    def __init__(self, *layers: Layer) -> None:
        super().__init__(layers)

    def forward(self, x: Any) -> Any:
        """The last layer's output."""
        for layer in self:
            x = layer(x)
        return x
