"""What MMAction2 calls the tensors of a ResNet on frames: convolution and norm of a layer stand under one name.

backbone.conv1.conv.weight    backbone.layer1.0.conv2.bn.bias    backbone.layer1.0.downsample.conv.weight
backbone.layer1.0.conv1.conv.net.weight (of TSM, which shifts there)    cls_head.fc_cls.weight
"""

from __future__ import annotations

import re
from dataclasses import replace

from suites.engine.weights import Names
from suites.vision.backbones import ResNet
from suites.vision.backbones.naming import linear

_NORM = re.compile(r"(^|\.)bn(\d)\.")
_CONV = re.compile(r"(^|\.)conv(\d)\.weight$")


def frame_names(backbone: ResNet, shifted: bool) -> Names:
    """Names of a classifier of frames with this backbone; `shifted` of TSM, in whose blocks the first layer shifts."""
    found = {}
    for ours, source in backbone.names_in("torchvision").sources.items():
        theirs = tuple(f"backbone.{_called(name, shifted)}" for name in source.names)
        found[f"backbone.{ours}"] = replace(source, names=theirs)
    return Names(found | linear("fc", "cls_head.fc_cls"), (r"^data_preprocessor\.",))


def _called(name: str, shifted: bool) -> str:
    """MMAction2's name for one of torchvision's."""
    name = name.replace("downsample.0.", "downsample.conv.").replace("downsample.1.", "downsample.bn.")
    name = _CONV.sub(r"\1conv\2.conv.weight", _NORM.sub(r"\1conv\2.bn.", name))
    return name.replace(".conv1.conv.weight", ".conv1.conv.net.weight") if shifted else name
