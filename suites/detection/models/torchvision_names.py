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
from suites.vision.backbones import Backbone
from suites.vision.backbones.naming import conv

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
