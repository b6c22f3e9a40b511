"""What torchvision calls the tensors of detectors: `backbone.body`, `backbone.fpn` and the heads behind them.

Its published files of 2020 and 2021 have the older names, without the `.0` that came with an optional norm behind
each convolution: scheme "torchvision_old".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from suites.detection.models.base import Neck
from suites.detection.models.fpn import FPN
from suites.engine.weights import Names, Source
from suites.vision.backbones import Backbone, MobileNetV3
from suites.vision.backbones.naming import conv, conv_norm

OLD = "torchvision_old"
SCHEMES = ("torchvision", OLD)


def known(backbone: Backbone, *schemes: str) -> tuple[str, ...]:
    """Those of `schemes` that have names for a backbone too."""
    return tuple(s for s in schemes if ("torchvision" if s == OLD else s) in backbone.schemes)


def placed(names: Names, ours: str, theirs: str) -> Names:
    """Names of a part that lies under `ours` in our model and under `theirs` in theirs, such as "backbone.body."."""
    sources = {
        ours + name: replace(source, names=tuple(theirs + n for n in source.names))
        for name, source in names.sources.items()
    }
    unused = tuple(f"^{theirs}{pattern.removeprefix('^')}" for pattern in names.unused)
    return Names(sources, unused)


def backbone_names(backbone: Backbone, neck: Neck, scheme: str) -> Names:
    """Names of a backbone with an FPN behind it."""
    found = placed(backbone.names_in("torchvision"), "backbone.", "backbone.body.")
    if not isinstance(neck, FPN):
        return found
    inner = "" if scheme == OLD else ".0"
    sources: dict[str, Source] = {}
    for i in range(len(neck.inner_blocks)):
        for part in ("inner_blocks", "layer_blocks"):
            sources |= conv(f"neck.{part}.{i}", f"backbone.fpn.{part}.{i}{inner}", bias=True)
    for i in range(len(neck.extra_blocks)):
        sources |= conv(f"neck.extra_blocks.{i}", f"backbone.fpn.extra_blocks.p{6 + i}", bias=True)
    return found | Names(sources)


def convs(pairs: Mapping[str, str]) -> dict[str, Source]:
    """Names of convolutions with bias: ours to theirs."""
    sources: dict[str, Source] = {}
    for ours, theirs in pairs.items():
        sources |= conv(ours, theirs, bias=True)
    return sources


def ssdlite(backbone: MobileNetV3, extras: int, levels: int) -> Names:
    """Names in `ssdlite320_mobilenet_v3_large`, whose backbone is cut behind the expansion of its one opening block."""
    (cut,) = backbone.openers
    sources = {
        f"backbone.{ours}": replace(source, names=tuple(_cut_name(name, cut + 1) for name in source.names))
        for ours, source in backbone.names_in("torchvision").sources.items()
    }
    for i in range(extras):
        for j in range(3):
            sources |= conv_norm(f"neck.extras.{i}.{j}", f"backbone.extra.{i}.{j}.0", f"backbone.extra.{i}.{j}.1")
    for i in range(levels):
        for ours, theirs in (("cls_outs", "classification_head"), ("box_outs", "regression_head")):
            place = f"head.{theirs}.module_list.{i}"
            sources |= conv_norm(f"head.{ours}.{i}.0", f"{place}.0.0", f"{place}.0.1")
            sources |= conv(f"head.{ours}.{i}.1", f"{place}.1", bias=True)
    return Names(sources)


def _cut_name(name: str, cut: int) -> str:
    """`features.N.REST` of a MobileNetV3 in two parts, the second from within block `cut` on."""
    _, number, rest = name.split(".", 2)
    at = int(number)
    if at < cut:
        return f"backbone.features.0.{at}.{rest}"
    if at > cut:
        return f"backbone.features.1.{at - cut}.{rest}"
    rest = rest.removeprefix("block.")
    first = rest.startswith("0.")
    return f"backbone.features.0.{cut}.{rest.removeprefix('0.')}" if first else f"backbone.features.1.0.{rest}"
