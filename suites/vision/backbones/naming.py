"""What other frameworks call the tensors of convolutions, batch norms and linear layers.

Their convolution weights are [K, C, R, S], ours [K, R, S, C].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from suites.engine.weights import Source

CONV_AXES = (0, 2, 3, 1)
PADDLE = ("paddleclas", "paddledetection", "paddleseg", "paddleseg_hrnet")  # their linear weights are [in, out]
_NORM = {"scale": "weight", "bias": "bias", "running_mean": "running_mean", "running_var": "running_var"}
_PADDLE_NORM = {**_NORM, "running_mean": "_mean", "running_var": "_variance"}


def conv(ours: str, theirs: str, *, bias: bool = False, flipped: bool = False) -> dict[str, Source]:
    """Names of a `Conv2d`; `flipped`: our kernels are turned by 180 degrees."""
    names = {f"{ours}.weight": Source((f"{theirs}.weight",), CONV_AXES, (1, 2) if flipped else ())}
    return {**names, f"{ours}.bias": Source((f"{theirs}.bias",))} if bias else names


def norm(ours: str, theirs: str, *, paddle: bool = False) -> dict[str, Source]:
    """Names of a `BatchNorm`."""
    return {
        f"{ours}.{leaf}": Source((f"{theirs}.{name}",)) for leaf, name in (_PADDLE_NORM if paddle else _NORM).items()
    }


def conv_norm(
    ours: str, theirs: str, their_norm: str, *, flipped: bool = False, paddle: bool = False, biased: bool = False
) -> dict[str, Source]:
    """Names of a `ConvBNAct`; `biased`: their convolution has a bias, which is the norm's mean moved."""
    names = {**conv(f"{ours}.conv", theirs, flipped=flipped), **norm(f"{ours}.norm", their_norm, paddle=paddle)}
    if biased:
        mean = f"{ours}.norm.running_mean"
        names[mean] = replace(names[mean], less=f"{theirs}.bias")
    return names


def layer_norm(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a `LayerNorm`."""
    return {f"{ours}.scale": Source((f"{theirs}.weight",)), f"{ours}.bias": Source((f"{theirs}.bias",))}


def joined(ours: str, theirs: Sequence[str]) -> dict[str, Source]:
    """Names of a `Linear` whose outputs are those of several layers of theirs, one after the other."""
    return {f"{ours}.{leaf}": Source(tuple(f"{name}.{leaf}" for name in theirs)) for leaf in ("weight", "bias")}


def spread_over_frames(names: dict[str, Source], first: str, in_channels: int) -> dict[str, Source]:
    """The names of weights of one frame, where the convolution `first` sees `in_channels` of frames side by side."""
    if in_channels <= 3:
        return names
    weight = f"{first}.conv.weight"
    return {**names, weight: replace(names[weight], repeated=in_channels // 3)}


def linear(ours: str, theirs: str, *, paddle: bool = False) -> dict[str, Source]:
    """Names of a `Linear`; Paddle's weights are [in, out]."""
    weight = Source((f"{theirs}.weight",), (1, 0) if paddle else None)
    return {f"{ours}.weight": weight, f"{ours}.bias": Source((f"{theirs}.bias",))}


def darknet_units(units: Sequence[str], start: int = 0) -> dict[str, Source]:
    """Names of `ConvBNAct`s that are darknet's convolutions from number `start` on; see `read_darknet`."""
    names: dict[str, Source] = {}
    for number, ours in enumerate(units, start=start):
        names[f"{ours}.conv.weight"] = Source((f"{number}.weight",), CONV_AXES)
        for leaf, name in (("scale", "scale"), ("bias", "bias"), ("running_mean", "mean"), ("running_var", "variance")):
            names[f"{ours}.norm.{leaf}"] = Source((f"{number}.{name}",))
    return names
