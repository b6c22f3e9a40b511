"""LoRA (Hu et al. 2021, arXiv:2106.09685): a linear layer or convolution stays as it is, plus a product of low rank.

`add_lora` puts adapters beside layers of any model, `merge_lora` adds their products to the weights and takes them
away. PEFT's files are read and written by `peft`. Letters: r the rank, C channels in, K out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError
from framework.nn import init
from framework.patterns import checked
from framework.tensors import Tensor
from suites.engine.config.sections import LoraSettings
from suites.engine.names import listing

_NAME = "lora"  # of an adapter in its layer
_SHOWN = 8


class Adapter(nn.Layer):
    """What is added to a linear layer or convolution: alpha / r times b(a(dropout(x))).

    A layer that is several matrices side by side, as those of queries, keys and values, has a product for each of them:
    its `blocks` are how many of one size, or the rows of each.

    Args:
        layer: a Linear, or a Conv2d without groups.
        rank: r.
        alpha: see `LoraSettings`.
        dropout: see `LoraSettings`.
    """

    a: Tensor
    b: Tensor
    new_tensors = ("a", "b")  # files of plain networks lack them

    def __init__(self, layer: nn.Linear | nn.Conv2d, rank: int, alpha: float, dropout: float) -> None:
        super().__init__()
        outputs, *inner = layer.weight.shape
        self.rank, self.alpha = rank, alpha
        blocks = layer.blocks if isinstance(layer, nn.Linear) else 1
        self.rows = (outputs // blocks,) * blocks if isinstance(blocks, int) else blocks
        self.scale, bound = alpha / rank, math.prod(inner) ** -0.5
        self.add_parameter("a", (rank * len(self.rows), *inner), init.Uniform(-bound, bound))
        self.add_parameter("b", (outputs, rank), init.Constant(0.0))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layer: nn.Layer) -> Tensor:
        """x and the result as the layer's."""
        x = self.dropout(x)
        if isinstance(layer, nn.Conv2d):
            hidden = ops.conv2d(
                x, self.a, None, stride=layer.stride, padding=layer.padding, dilation=layer.dilation, groups=1
            )
        else:
            hidden = ops.matmul(x, self.a, transpose_b=True)
        if len(self.rows) == 1:
            return ops.matmul(hidden, self.b, transpose_b=True) * self.scale
        parts = ops.split(hidden, axis=-1, sizes=[self.rank] * len(self.rows))
        made = [
            ops.matmul(part, self.b[rows], transpose_b=True)
            for part, (_, rows) in zip(parts, self.places(), strict=True)
        ]
        return ops.concat(made, axis=-1) * self.scale

    def places(self) -> list[tuple[slice, slice]]:
        """Of each matrix its rows of `a` and of `b`."""
        ends = np.cumsum([0, *self.rows]).tolist()
        return [
            (slice(i * self.rank, (i + 1) * self.rank), slice(*rows)) for i, rows in enumerate(itertools.pairwise(ends))
        ]

    def product(self) -> np.ndarray:
        """What is added to the layer's weight: an array of its shape."""
        a, b = self.a.numpy(), self.b.numpy()
        found = [b[rows] @ a[inner].reshape(self.rank, -1) for inner, rows in self.places()]
        return (np.concatenate(found) * self.scale).reshape(len(b), *a.shape[1:])


def _added(layer: nn.Layer, args: tuple[Any, ...], y: Tensor) -> Tensor:
    """The hook of a layer with an adapter."""
    adapter: Adapter = getattr(layer, _NAME)
    return y + adapter(args[0], layer)


def adapters(model: nn.Layer) -> Iterator[tuple[str, nn.Linear | nn.Conv2d, Adapter]]:
    """Path and layer of each adapter of a model."""
    for path, layer in model.named_layers():
        found = layer.__dict__.get(_NAME)
        if isinstance(found, Adapter) and isinstance(layer, (nn.Linear, nn.Conv2d)):
            yield path, layer, found


def add_lora(model: nn.Layer, settings: LoraSettings) -> list[str]:
    """Put adapters beside layers of a model and freeze everything but them and what `train` names.

    Args:
        model: whose results stay the same, as an adapter begins with zeros.
        settings: which layers.

    Returns:
        Paths of the layers that have adapters.

    Raises:
        AttributeValueError: no layer fits a target.
    """
    train = settings.train if settings.train is not None else list(getattr(model, "class_tensors", ()))
    full = [checked(pattern) for pattern in train]
    fits: dict[str, nn.Linear | nn.Conv2d] = {}
    for path, layer in model.named_layers():
        whole = any(expression.search(f"{path}.weight") for expression in full)
        if _takes(layer) and not whole and any(checked(target).search(path) for target in settings.targets):
            fits[path] = layer  # type: ignore[assignment]
    for target in settings.targets:
        if not any(checked(target).search(path) for path in fits):
            known = [path for path, layer in model.named_layers() if _takes(layer)]
            raise AttributeValueError(
                f"lora: no linear layer or convolution without groups has a path with {target!r}; there are "
                f"{listing(known[:_SHOWN])}{', ...' if len(known) > _SHOWN else ''}"
            )
    for name, parameter in model.named_parameters():
        if not any(expression.search(name) for expression in full):
            parameter.requires_grad = False
    for layer in fits.values():
        setattr(layer, _NAME, Adapter(layer, settings.rank, settings.alpha, settings.dropout))
        layer.register_forward_hook(_added)
    return list(fits)


def _takes(layer: nn.Layer) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1
    return isinstance(layer, nn.Linear)


def merge_lora(model: nn.Layer) -> int:
    """Add each adapter's product to its layer's weight and take it away; return how many there were."""
    found = list(adapters(model))
    for _, layer, adapter in found:
        layer.weight.set(tensor(layer.weight.numpy() + adapter.product(), dtype=layer.weight.dtype))
        for number, (_, call) in list(layer._hooks.items()):
            if call is _added:
                del layer._hooks[number]
        delattr(layer, _NAME)
    return len(found)
