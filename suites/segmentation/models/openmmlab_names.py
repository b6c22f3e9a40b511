"""What MMSegmentation calls the tensors of a segmenter: convolution and norm of a layer stand under one name.

backbone.layer1.0.conv1.weight    decode_head.aspp_modules.1.depthwise_conv.bn.bias    decode_head.conv_seg.weight
auxiliary_head.convs.0.conv.weight (of a second head, which only helps in training)
"""

from __future__ import annotations

from collections.abc import Mapping

from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv, conv_norm

SCHEME = "openmmlab"
HEAD, AUX = "decode_head", "auxiliary_head"


def schemes(backbone: Backbone) -> tuple[str, ...]:
    """Of a segmenter whose head has their names: theirs, where the backbone knows OpenMMLab's names."""
    return (SCHEME,) if SCHEME in backbone.schemes else ()


def module(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a `ConvBNAct`."""
    return conv_norm(ours, f"{theirs}.conv", f"{theirs}.bn")


def separable(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a depthwise and a 1x1 convolution, as `parts.separable` makes them."""
    return module(f"{ours}.0", f"{theirs}.depthwise_conv") | module(f"{ours}.1", f"{theirs}.pointwise_conv")


def whole(backbone: Backbone, head: Mapping[str, Source], classifier: str, aux: bool) -> Names:
    """Names of a segmenter: of its backbone, head, classifier, and of a second head if it has one."""
    own = {**head, **conv(classifier, f"{HEAD}.conv_seg", bias=True)}
    if aux:
        own |= module("aux.0", f"{AUX}.convs.0") | conv("aux.2", f"{AUX}.conv_seg", bias=True)
    found = backbone.names_in(SCHEME).inside("backbone.").below("backbone.")
    return found | Names(own, (r"^data_preprocessor\.", *(() if aux else (rf"^{AUX}\.",))))
