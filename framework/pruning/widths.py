"""Widths of layers: what a narrower network is built by.

A Conv2d has [C, K], a Linear [C, K], a BatchNorm [C]. Groups of a depthwise convolution follow its channels, those of
any other grouped one stay as many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from framework.errors import CheckpointError
from framework.nn.conv import Conv2d
from framework.nn.layer import Layer, buffer
from framework.nn.linear import Linear
from framework.nn.norm import BatchNorm

_NAMES = {Conv2d: ("in_channels", "out_channels"), Linear: ("in_features", "out_features"), BatchNorm: ("channels",)}


def narrowable(layer: Layer) -> bool:
    """Whether a layer is of a kind whose widths can change: no class derived from one, which may compute otherwise."""
    if type(layer) is Linear and layer.blocks != 1:
        return False
    return type(layer) in _NAMES and not layer.children


def widths_of(model: Layer) -> dict[str, list[int]]:
    """The widths of all layers that have some, by path."""
    layers = model.named_layers()
    return {path: _widths(layer) for path, layer in layers if narrowable(layer)}


def _widths(layer: Layer) -> list[int]:
    return [int(getattr(layer, name)) for name in _NAMES[type(layer)]]


def narrow(model: Layer, widths: Mapping[str, Sequence[int]]) -> None:
    """Give layers of a model other widths; what their parameters hold is drawn anew.

    Args:
        model: is changed.
        widths: by path, see `widths_of`; layers that are not named stay as they are.

    Raises:
        CheckpointError: the model has no such layer, or one of another kind; nothing is changed then.
    """
    layers = dict(model.named_layers())
    for path, wanted in widths.items():
        _check(path, layers.get(path), wanted)
    for path, wanted in widths.items():
        _resize(layers[path], [int(w) for w in wanted])


def widths_by(model: Layer, arrays: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    """The widths that layers need to hold these parameters, of those that have other widths, by path."""
    found = {}
    for path, layer in model.named_layers():
        if narrowable(layer):
            wanted = _by_shapes(layer, path, arrays)
            if wanted != _widths(layer):
                found[path] = wanted
    return found


def _by_shapes(layer: Layer, path: str, arrays: Mapping[str, np.ndarray]) -> list[int]:
    if isinstance(layer, BatchNorm):
        return [len(arrays[f"{path}.scale"])]
    outputs, *_, read = arrays[f"{path}.weight"].shape
    if isinstance(layer, Conv2d) and layer.groups == layer.in_channels > 1:
        return [outputs // (layer.out_channels // layer.in_channels), outputs]
    return [read * (layer.groups if isinstance(layer, Conv2d) else 1), outputs]


def _check(path: str, layer: Layer | None, wanted: Sequence[int]) -> None:
    if layer is None:
        raise CheckpointError(f"widths: the model has no layer '{path}'")
    if not narrowable(layer):
        raise CheckpointError(f"widths: '{path}' is a {type(layer).__name__}; only {_KINDS} have widths")
    names = _NAMES[type(layer)]
    if len(wanted) != len(names) or not all(isinstance(w, (int, np.integer)) and w >= 1 for w in wanted):
        raise CheckpointError(
            f"widths: '{path}' is given {list(wanted)}; a {type(layer).__name__} has {', '.join(names)}, each 1 or more"
        )
    if isinstance(layer, Conv2d) and layer.groups > 1:
        groups = wanted[0] if layer.groups == layer.in_channels else layer.groups
        if wanted[0] % groups or wanted[1] % groups:
            raise CheckpointError(f"widths: '{path}' is given {list(wanted)}, which {groups} groups do not divide")


_KINDS = ", ".join(kind.__name__ for kind in _NAMES)


def _resize(layer: Layer, wanted: list[int]) -> None:
    if isinstance(layer, Conv2d) and layer.groups == layer.in_channels > 1:
        layer.groups = wanted[0]
    for name, width in zip(_NAMES[type(layer)], wanted, strict=True):
        setattr(layer, name, width)
    if isinstance(layer, Conv2d):
        _, r, s, _ = layer.weight.shape
        shapes = {"weight": (wanted[1], r, s, wanted[0] // layer.groups), "bias": (wanted[1],)}
    elif isinstance(layer, Linear):
        shapes = {"weight": (wanted[1], wanted[0]), "bias": (wanted[1],)}
    else:
        shapes = {"scale": (wanted[0],), "bias": (wanted[0],)}
        for name, value in (("running_mean", 0.0), ("running_var", 1.0)):
            setattr(layer, name, buffer(np.full(wanted[0], value, np.float32)))
    for name, shape in shapes.items():
        before = getattr(layer, name)
        if before is not None and before.shape != shape:
            layer.add_parameter(name, shape, layer._initializers[name])
            getattr(layer, name).requires_grad = before.requires_grad
