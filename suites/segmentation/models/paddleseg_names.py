"""What PaddleSeg 2 calls the tensors of a segmenter, by its code; its heads' convolutions have a bias before the norm.

backbone.bb_0_0.conv0._conv.weight    head.aspp.aspp_blocks.1.depthwise_conv._batch_norm._mean    head.decoder.conv.bias
"""

from __future__ import annotations

from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv_norm

SCHEME = "paddleseg"


def schemes(backbone: Backbone) -> tuple[str, ...]:
    """PaddleSeg's, where the backbone knows its names."""
    return (SCHEME,) if SCHEME in backbone.schemes else ()


def module(ours: str, theirs: str, *, biased: bool = True) -> dict[str, Source]:
    """Names of a `ConvBNAct`."""
    return conv_norm(ours, f"{theirs}._conv", f"{theirs}._batch_norm", paddle=True, biased=biased)


def separable(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a depthwise and a 1x1 convolution, as `parts.separable` makes them; the second is spelled so there."""
    return module(f"{ours}.0", f"{theirs}.depthwise_conv") | module(f"{ours}.1", f"{theirs}.piontwise_conv")


def moved(count: int, first: int) -> tuple[int, ...]:
    """`Source.columns` of `count` channels whose last `first` come first in theirs."""
    return (*range(first, count), *range(first))


def whole(backbone: Backbone, head: dict[str, Source], unused: tuple[str, ...] = ()) -> Names:
    """Names of a segmenter: of its backbone and its own; `unused` may find no place."""
    return backbone.names_in(SCHEME).inside("backbone.").below("backbone.") | Names(head, unused)
