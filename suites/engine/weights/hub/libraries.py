"""Names that other libraries give weights: `torchvision:resnet50`, `timm:vit_small_patch16_224.augreg_in1k`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from framework.errors import ConfigError
from suites.engine.names import did_you_mean

TORCHVISION, TIMM = "torchvision:", "timm:"
_SPELLED = {  # where our name of a network is another
    "mobilenetv2": "mobilenet_v2",
    "mobilenetv3_large": "mobilenet_v3_large",
    "mobilenetv3_small": "mobilenet_v3_small",
    "deeplabv3_mobilenetv3_large": "deeplabv3_mobilenet_v3_large",
    "lraspp_mobilenetv3_large": "lraspp_mobilenet_v3_large",
    "ssdlite320_mobilenetv3": "ssdlite320_mobilenet_v3_large",
    "keypoint_rcnn_r50_fpn": "keypointrcnn_resnet50_fpn",
    "faster_rcnn_r50_fpn": "fasterrcnn_resnet50_fpn",
    "mask_rcnn_r50_fpn": "maskrcnn_resnet50_fpn",
    "retinanet_r50_fpn": "retinanet_resnet50_fpn",
}
_OTHERS = re.compile(
    r"^(efficientnet_lite|yolo|minilm|dinov2|inception_v4)|_(detectron2|paddle)$|^mobilenetv2_imagenet$"
)
_RECORD = re.compile(r"(?P<net>\w+?)_(?P<data>imagenet|coco|kinetics)(?P<version>_v\d)?")
_VERSIONS = {"imagenet": "IMAGENET1K", "kinetics": "KINETICS400"}  # before the number of torchvision's weights
_OF_TORCHVISION = ".tv_in1k"  # timm's tag of the same weights


def our_name(name: str, records: Iterable[str]) -> str:
    """What a name of another library is called here: a record, or a repository of the hub; other names as they are.

    `torchvision:NAME` is torchvision's default weights, `torchvision:NAME.IMAGENET1K_V1` a version's. `timm:NAME` is
    `hf:timm/NAME`, or torchvision's record where it has the same weights. What stands behind # stays there.

    Raises:
        ConfigError: torchvision's network is none of the records.
    """
    library = next((prefix for prefix in (TIMM, TORCHVISION) if name.startswith(prefix)), None)
    if library is None:
        return name
    wanted, sign, part = name.removeprefix(library).partition("#")
    known = of_torchvision(records)
    if library == TIMM:
        same = known.get(f"{wanted.removesuffix(_OF_TORCHVISION)}.IMAGENET1K_V1")
        found = same if same is not None and wanted.endswith(_OF_TORCHVISION) else f"hf:timm/{wanted}"
    elif wanted in known:
        found = known[wanted]
    else:
        hint = did_you_mean(wanted, known) or "."
        raise ConfigError(f"zoo: there are no weights called '{name}'{hint} `paddock zoo search torchvision` shows all")
    return f"{found}{sign}{part}"


def of_torchvision(records: Iterable[str]) -> dict[str, str]:
    """The record of each of torchvision's networks, and of each version of its weights."""
    found: dict[str, str] = {}
    for record in sorted(records):  # a second version comes behind the first and is the default
        parts = _RECORD.fullmatch(record)
        if parts is None or _OTHERS.search(record):
            continue
        net = _SPELLED.get(parts["net"], parts["net"])
        found[net] = record
        if parts["data"] in _VERSIONS:
            found[f"{net}.{_VERSIONS[parts['data']]}{(parts['version'] or '_v1').upper()}"] = record
    return found
