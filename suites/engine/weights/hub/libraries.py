"""Names that other libraries give weights: `torchvision:resnet50`, `timm:vit_small_patch16_224.augreg_in1k`,
`paddle:ernie-3.0-base-zh`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from framework.errors import ConfigError
from suites.engine.names import did_you_mean

TORCHVISION, TIMM, PADDLE = "torchvision:", "timm:", "paddle:"
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
    r"^(efficientnet_lite|yolo|minilm|dinov2|inception_v4|ernie)|_(detectron2|paddle)$|^mobilenetv2_imagenet$"
)
_RECORD = re.compile(r"(?P<net>\w+?)_(?P<data>imagenet|coco|kinetics)(?P<version>_v\d)?")
_VERSIONS = {"imagenet": "IMAGENET1K", "kinetics": "KINETICS400"}  # before the number of torchvision's weights
_OF_TORCHVISION = ".tv_in1k"  # timm's tag of the same weights
_OF_PADDLE = {  # names of PaddleNLP and PaddleDetection that are records
    "ernie-1.0": "ernie1_base",
    "ernie-1.0-base-zh": "ernie1_base",
    "ernie-2.0-base-zh": "ernie2_base_zh",
    "ernie-2.0-large-zh": "ernie2_large_zh",
    "ernie-2.0-base-en": "ernie2_base_en",
    "ernie-2.0-large-en": "ernie2_large_en",
    "ernie-3.0-xbase-zh": "ernie3_xbase",
    "ernie-3.0-base-zh": "ernie3_base",
    "ernie-3.0-medium-zh": "ernie3_medium",
    "ernie-3.0-mini-zh": "ernie3_mini",
    "ernie-3.0-micro-zh": "ernie3_micro",
    "ernie-3.0-nano-zh": "ernie3_nano",
    "ernie-tiny": "ernie_tiny",
    "ernie-gram-zh": "ernie_gram",
    "yolov3_darknet53_270e_coco": "yolov3_darknet53_coco_paddle",
    "yolov3_r34_270e_coco": "yolov3_r34_coco_paddle",
    "yolov3_r50vd_dcn_270e_coco": "yolov3_r50vd_dcn_coco_paddle",
}
_DETECTION = "https://paddledet.bj.bcebos.com/models/{}.pdparams"
_CLAS = "https://paddle-imagenet-models-name.bj.bcebos.com/dygraph/legendary_models/{}_pretrained.pdparams"
_SEG = "https://bj.bcebos.com/paddleseg/dygraph/{data}/{{}}/model.pdparams"
_ADDRESSES = {  # of names that are no records, and whose tensors are known here
    **dict.fromkeys(
        (
            *("faster_rcnn_r50_fpn_1x_coco", "faster_rcnn_r50_fpn_2x_coco", "mask_rcnn_r50_fpn_1x_coco"),
            *("mask_rcnn_r50_fpn_2x_coco", "cascade_rcnn_r50_fpn_1x_coco", "retinanet_r50_fpn_1x_coco"),
            *("ssd_vgg16_300_240e_voc", "yolov3_mobilenet_v1_270e_coco"),
        ),
        _DETECTION,
    ),
    **dict.fromkeys(
        (
            *("ResNet18", "ResNet34", "ResNet50", "ResNet101", "ResNet152"),
            *("ResNet18_vd", "ResNet34_vd", "ResNet50_vd", "ResNet101_vd", "MobileNetV1"),
        ),
        _CLAS,
    ),
    **dict.fromkeys(
        (
            *("deeplabv3p_resnet50_os8_cityscapes_1024x512_80k", "deeplabv3p_resnet101_os8_cityscapes_769x769_80k"),
            *("pspnet_resnet50_os8_cityscapes_1024x512_80k", "pspnet_resnet101_os8_cityscapes_1024x512_80k"),
            *("fcn_hrnetw18_cityscapes_1024x512_80k", "fcn_hrnetw48_cityscapes_1024x512_80k"),
            *("ocrnet_hrnetw18_cityscapes_1024x512_160k", "ocrnet_hrnetw48_cityscapes_1024x512_160k"),
            "unet_cityscapes_1024x512_160k",
        ),
        _SEG.format(data="cityscapes"),
    ),
}


def our_name(name: str, records: Iterable[str]) -> str:
    """What a name of another library is called here: a record, or a repository of the hub; other names as they are.

    `torchvision:NAME` is torchvision's default weights, `torchvision:NAME.IMAGENET1K_V1` a version's. `timm:NAME` is
    `hf:timm/NAME`, or torchvision's record where it has the same weights. `paddle:NAME` is what PaddleNLP,
    PaddleDetection, PaddleClas or PaddleSeg call weights: a record, or their address. What stands behind # stays there.

    Raises:
        ConfigError: a network of torchvision or Paddle is not known.
    """
    library = next((prefix for prefix in (TIMM, TORCHVISION, PADDLE) if name.startswith(prefix)), None)
    if library is None:
        return name
    wanted, sign, part = name.removeprefix(library).partition("#")
    if library == PADDLE:
        return f"{_of_paddle(wanted, name)}{sign}{part}"
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


def _of_paddle(wanted: str, name: str) -> str:
    if wanted in _ADDRESSES:
        return _ADDRESSES[wanted].format(wanted)
    if wanted not in _OF_PADDLE:
        known = [*_OF_PADDLE, *_ADDRESSES]
        hint = did_you_mean(wanted, known) or "."
        raise ConfigError(f"zoo: there are no weights called '{name}'{hint} Known are {', '.join(sorted(known))}")
    return _OF_PADDLE[wanted]


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
