"""Configs of MMDetection 2 and 3 as ours, see `suites.engine.config.openmmlab`."""

from __future__ import annotations

from typing import Any

from framework.errors import ConfigError
from suites.engine.config.openmmlab import ROLE, Foreign
from suites.engine.registry import register
from suites.vision.openmmlab import (
    BACKBONE,
    STRIDES,
    batch_of,
    clipped,
    dataset_at,
    expect,
    normalize,
    optimizer,
    preprocessed,
    resnet,
    steps_of,
    strides_of,
    told_loss,
)

_NECK, _RPN, _REGIONS = "model.neck", "model.rpn_head", "model.roi_head"
_CLASS_LOSS, _BOX_LOSS = ("cross entropy", "CrossEntropyLoss"), ("smooth L1", "L1Loss", "SmoothL1Loss")
_BOXES, _MASKS = f"{_REGIONS}.bbox_head", f"{_REGIONS}.mask_head"


@register(ROLE, "FasterRCNN")
@register(ROLE, "MaskRCNN")
def two_stages(theirs: Foreign) -> dict[str, Any]:
    """Faster or Mask R-CNN with a pyramid."""
    masks = theirs.has(_MASKS)
    theirs.get(f"{_REGIONS}.type")
    head = {"type": "BoxHead", "num_classes": "${data.num_classes}", **_box_head(theirs, _BOXES)}
    head |= _sampled(theirs, "model.train_cfg.rcnn", _REGIONS)
    head["postprocess"] = _postprocess(theirs, "model.test_cfg.rcnn", nms_top_k=1000)
    model: dict[str, Any] = {"type": "MaskRCNN" if masks else "FasterRCNN", **_ground(theirs), "head": head}
    if masks:
        model["mask_head"] = _mask_head(theirs)
    return _config(theirs, model, theirs.number(f"{_BOXES}.num_classes"), masks=masks)


@register(ROLE, "CascadeRCNN")
def cascade(theirs: Foreign) -> dict[str, Any]:
    """Cascade R-CNN without masks: theirs have a mask head a stage."""
    if theirs.has(_MASKS):
        raise ConfigError(f"{theirs.name}: {_MASKS}: a cascade with a mask head for each stage is not translated")
    stages = theirs.get(_BOXES)
    if not isinstance(stages, list) or not stages:
        raise ConfigError(f"{theirs.name}: {_BOXES} must be a list of stages")
    codes = [_code(theirs, f"{_BOXES}.{i}") for i in range(len(stages))]
    for i in range(len(stages)):
        if not theirs.get(f"{_BOXES}.{i}.reg_class_agnostic", False):
            raise ConfigError(f"{theirs.name}: {_BOXES}.{i}: boxes for each class in a cascade are not translated")
    rules = theirs.get("model.train_cfg.rcnn", [])
    ious = [rule["assigner"]["pos_iou_thr"] for rule in rules[1:]] if isinstance(rules, list) else []
    for name in ("type", "num_stages"):
        theirs.get(f"{_REGIONS}.{name}")
    head = {
        "type": "CascadeHead",
        "num_classes": "${data.num_classes}",
        "codes": codes,
        "weights": theirs.get(f"{_REGIONS}.stage_loss_weights", [1.0, 0.5, 0.25]),
        "width": int(theirs.number(f"{_BOXES}.0.fc_out_channels", 1024)),
        "postprocess": _postprocess(theirs, "model.test_cfg.rcnn", nms_top_k=1000),
        **({"ious": ious} if len(ious) == len(stages) - 1 else {}),
        **_pool(theirs, f"{_REGIONS}.bbox_roi_extractor"),
    }
    return _config(
        theirs, {"type": "CascadeRCNN", **_ground(theirs), "head": head}, theirs.number(f"{_BOXES}.0.num_classes")
    )


@register(ROLE, "RetinaNet")
def retinanet(theirs: Foreign) -> dict[str, Any]:
    """RetinaNet with its own head."""
    head = "model.bbox_head"
    expect(theirs, f"{head}.type", "RetinaHead")
    anchors = {
        "scale": theirs.number(f"{head}.anchor_generator.octave_base_scale", 4),
        "octaves": int(theirs.number(f"{head}.anchor_generator.scales_per_octave", 3)),
        "ratios": theirs.get(f"{head}.anchor_generator.ratios", [0.5, 1.0, 2.0]),
    }
    for name in ("in_channels", "feat_channels", "anchor_generator", "bbox_coder"):
        theirs.get(f"{head}.{name}")
    told_loss(theirs, f"{head}.loss_cls", "focal loss", "FocalLoss")
    told_loss(theirs, f"{head}.loss_bbox", *_BOX_LOSS)
    made = {
        "type": "RetinaNetHead",
        "num_classes": "${data.num_classes}",
        "convs": int(theirs.number(f"{head}.stacked_convs", 4)),
        **anchors,
        "postprocess": {
            **_postprocess(theirs, "model.test_cfg", nms_top_k=None),
            "level_top_k": int(theirs.number("model.test_cfg.nms_pre", 1000)),
        },
    }
    theirs.get("model.train_cfg")
    neck = _neck(theirs)
    model = {"type": "RetinaNet", "backbone": _backbone(theirs, neck.pop("first")), "neck": neck, "head": made}
    return _config(theirs, model, theirs.number(f"{head}.num_classes"))


@register(ROLE, "YOLOV3")
def yolov3(theirs: Foreign) -> dict[str, Any]:
    """YOLOv3 on DarkNet-53."""
    expect(theirs, f"{BACKBONE}.type", "Darknet")
    expect(theirs, f"{BACKBONE}.depth", 53)
    expect(theirs, "model.bbox_head.anchor_generator.type", "YOLOAnchorGenerator")
    by_level = theirs.get("model.bbox_head.anchor_generator.base_sizes", [])
    anchors = [list(pair) for level in reversed(by_level) for pair in level]
    width = theirs.get(f"{_NECK}.out_channels", [512, 256, 128])
    for path in (f"{BACKBONE}.out_indices", f"{BACKBONE}.init_cfg", f"{_NECK}.type", f"{_NECK}.in_channels"):
        theirs.get(path)
    for name in ("type", "in_channels", "out_channels", "featmap_strides", "bbox_coder", "anchor_generator.strides"):
        theirs.get(f"model.bbox_head.{name}")
    for name in ("loss_cls", "loss_conf", "loss_xy", "loss_wh"):
        theirs.get(f"model.bbox_head.{name}")
    theirs.get(f"{_NECK}.num_scales")
    theirs.note("model.bbox_head: the terms of the loss are PaddleDetection's here, not MMDetection's")
    theirs.get("model.train_cfg")
    model = {
        "type": "YOLOv3",
        "backbone": {"type": "DarkNet53", "out_strides": [8, 16, 32]},
        "neck": {"type": "YOLOv3Neck", "width": int(width[0])},
        "head": {
            "type": "YOLOv3Head",
            "num_classes": "${data.num_classes}",
            **({"anchors": anchors} if anchors else {}),
            "postprocess": _postprocess(
                theirs, "model.test_cfg", nms_top_k=int(theirs.number("model.test_cfg.nms_pre", 1000))
            ),
        },
    }
    theirs.get("model.test_cfg.conf_thr")
    theirs.get("model.test_cfg.min_bbox_size")
    return _config(theirs, model, theirs.number("model.bbox_head.num_classes"))


def _ground(theirs: Foreign) -> dict[str, Any]:
    """Backbone, pyramid and proposals of two-stage detectors."""
    neck = _neck(theirs)
    anchors = f"{_RPN}.anchor_generator"
    expect(theirs, f"{_RPN}.type", "RPNHead")
    scales, strides = theirs.get(f"{anchors}.scales", [8]), theirs.get(f"{anchors}.strides", [4, 8, 16, 32, 64])
    if len(scales) != 1:
        raise ConfigError(f"{theirs.name}: {anchors}.scales: several sizes a level are not translated")
    for name in ("in_channels", "feat_channels", "anchor_generator.type", "bbox_coder"):
        theirs.get(f"{_RPN}.{name}")
    told_loss(theirs, f"{_RPN}.loss_cls", *_CLASS_LOSS)
    told_loss(theirs, f"{_RPN}.loss_bbox", *_BOX_LOSS)
    rpn: dict[str, Any] = {
        "type": "RPN",
        "sizes": [scales[0] * stride for stride in strides],
        "ratios": theirs.get(f"{anchors}.ratios", [0.5, 1.0, 2.0]),
    }
    rule, sampler = "model.train_cfg.rpn.assigner", "model.train_cfg.rpn.sampler"
    if theirs.has(rule):
        rpn["matcher"] = {
            "high": theirs.number(f"{rule}.pos_iou_thr", 0.7),
            "low": theirs.number(f"{rule}.neg_iou_thr", 0.3),
        }
        theirs.get(rule)
    if theirs.has(sampler):
        rpn |= {
            "samples": int(theirs.number(f"{sampler}.num", 256)),
            "positive_share": theirs.number(f"{sampler}.pos_fraction", 0.5),
        }
        theirs.get(sampler)
    for ours, path in (("train", "model.train_cfg.rpn_proposal"), ("predict", "model.test_cfg.rpn")):
        if theirs.has(path):
            rpn[ours] = {
                "before_nms": int(theirs.number(f"{path}.nms_pre", 1000)),
                "after_nms": int(theirs.number(f"{path}.max_per_img", 1000)),
            }
            rpn["nms_iou"] = theirs.get(f"{path}.nms.iou_threshold", 0.7)
            theirs.get(path)
    theirs.get("model.train_cfg.rpn")
    return {"backbone": _backbone(theirs, neck.pop("first")), "neck": neck, "rpn": rpn}


def _neck(theirs: Foreign) -> dict[str, Any]:
    """The pyramid, and under `first` the place of the backbone's finest map that it takes."""
    expect(theirs, f"{_NECK}.type", "FPN")
    theirs.get(f"{_NECK}.in_channels")
    theirs.get(f"{_NECK}.relu_before_extra_convs")
    extra = theirs.get(f"{_NECK}.add_extra_convs", False)
    kinds = {False: "pool", True: "conv_c5", "on_input": "conv_c5", "on_output": "conv_p5"}
    if extra not in kinds:
        raise ConfigError(f"{theirs.name}: {_NECK}.add_extra_convs is {extra!r}; translated are on_input and on_output")
    first = int(theirs.number(f"{_NECK}.start_level", 0))
    return {
        "type": "FPN",
        "width": int(theirs.number(f"{_NECK}.out_channels", 256)),
        "extra": kinds[extra],
        "levels": int(theirs.number(f"{_NECK}.num_outs", 5)),
        "first": first,
    }


def _backbone(theirs: Foreign, first: int) -> dict[str, Any]:
    """The backbone; `first` is the place of the finest of its maps that the pyramid takes."""
    found = resnet(theirs)
    found["out_strides"] = strides_of(theirs.get(f"{BACKBONE}.out_indices", [0, 1, 2, 3]))[first:]
    if (dilated := theirs.get(f"{BACKBONE}.stage_with_dcn")) and theirs.has(f"{BACKBONE}.dcn"):
        found["deformable"] = [STRIDES[i] for i, on in enumerate(dilated) if on and i]
        found["modulated"] = theirs.get(f"{BACKBONE}.dcn.type", "DCN") == "DCNv2"
        theirs.get(f"{BACKBONE}.dcn")
    return found


def _box_head(theirs: Foreign, path: str) -> dict[str, Any]:
    if theirs.get(f"{path}.type", "Shared2FCBBoxHead") != "Shared2FCBBoxHead":
        expect(theirs, f"{path}.type", "Shared2FCBBoxHead")
    found = {
        "width": int(theirs.number(f"{path}.fc_out_channels", 1024)),
        "code": _code(theirs, path),
        "agnostic": bool(theirs.get(f"{path}.reg_class_agnostic", False)),
        **_pool(theirs, f"{_REGIONS}.bbox_roi_extractor"),
    }
    for name in ("in_channels", "roi_feat_size", "bbox_coder"):
        theirs.get(f"{path}.{name}")
    told_loss(theirs, f"{path}.loss_cls", *_CLASS_LOSS)
    told_loss(theirs, f"{path}.loss_bbox", *_BOX_LOSS)
    return found


def _code(theirs: Foreign, path: str) -> list[float]:
    """The factors of a box's code: one over their deviations."""
    deviations = theirs.get(f"{path}.bbox_coder.target_stds", [0.1, 0.1, 0.2, 0.2])
    return [round(1 / each, 6) for each in deviations]


def _pool(theirs: Foreign, path: str) -> dict[str, Any]:
    size = int(theirs.number(f"{path}.roi_layer.output_size", 7))
    theirs.get(path)
    return {"pool": {"size": size}} if size != 7 else {}


def _mask_head(theirs: Foreign) -> dict[str, Any]:
    expect(theirs, f"{_MASKS}.type", "FCNMaskHead")
    found = {
        "type": "MaskHead",
        "width": int(theirs.number(f"{_MASKS}.conv_out_channels", 256)),
        "convs": int(theirs.number(f"{_MASKS}.num_convs", 4)),
    }
    for name in ("in_channels", "num_classes"):
        theirs.get(f"{_MASKS}.{name}")
    told_loss(theirs, f"{_MASKS}.loss_mask", *_CLASS_LOSS)
    theirs.get(f"{_REGIONS}.mask_roi_extractor")
    return found


def _sampled(theirs: Foreign, path: str, regions: str) -> dict[str, Any]:
    if not theirs.has(path):
        return {}
    found = {
        "sampler": {
            "samples": int(theirs.number(f"{path}.sampler.num", 512)),
            "positive_share": theirs.number(f"{path}.sampler.pos_fraction", 0.25),
            "iou": theirs.number(f"{path}.assigner.pos_iou_thr", 0.5),
        }
    }
    theirs.get(path)
    return found


def _postprocess(theirs: Foreign, path: str, nms_top_k: int | None) -> dict[str, Any]:
    kind = theirs.get(f"{path}.nms.type", "nms")
    found: dict[str, Any] = {
        "score_threshold": theirs.number(f"{path}.score_thr", 0.05),
        "iou_threshold": theirs.number(f"{path}.nms.iou_threshold", 0.5),
        "keep_top_k": int(theirs.number(f"{path}.max_per_img", 100)),
    }
    if nms_top_k is not None:
        found["nms_top_k"] = nms_top_k
    if kind != "nms":
        theirs.note(f"{path}.nms.type is {kind}; ours is plain here, see `method` of PostProcess")
    theirs.get(path)
    return found


def _config(theirs: Foreign, model: dict[str, Any], classes: float, masks: bool = False) -> dict[str, Any]:
    """The whole config: the model, the data, the length."""
    data: dict[str, Any] = {"root": "data/coco", "num_classes": int(classes)}
    transforms: list[dict[str, Any]] = []
    for ours, part in (("train", "train_dataloader"), ("eval", "val_dataloader")):
        dataset = dataset_at(theirs, ours == "train")
        if ours == "train":
            transforms = _transforms(theirs, dataset)
        root = str(theirs.get(f"{dataset}.data_root", "") or "")
        images = theirs.get(f"{dataset}.data_prefix.img", theirs.get(f"{dataset}.img_prefix", "")) or ""
        annotations = theirs.get(f"{dataset}.ann_file", "") or ""
        whole = [str(each) if str(each).startswith(root) else f"{root}{each}" for each in (annotations, images)]
        names = theirs.get(f"{dataset}.metainfo.classes", theirs.get(f"{dataset}.classes"))
        data[ours] = {
            "dataset": {
                "type": "CocoDetection",
                "annotations": whole[0] or "${data.root}/annotations.json",
                "images": whole[1].rstrip("/") or "${data.root}",
                **({"classes": list(names)} if isinstance(names, list) else {}),
                **({"masks": True} if masks else {}),
                **({"skip_empty": True} if ours == "train" else {}),
            },
            "transforms": [each for each in transforms if ours == "train" or each["type"] != "RandomFlip"],
            "batch_size": batch_of(theirs, ours == "train", 2),
        }
        theirs.get(part)
        if theirs.get(f"{dataset}.type", "CocoDataset") != "CocoDataset":
            theirs.note(f"{dataset}.type is {theirs.get(f'{dataset}.type')}; its annotations must be COCO's JSON here")
    theirs.get("data")
    theirs.get("val_dataloader")
    return {
        "suite": "detection",
        "model": model,
        "data": data,
        "metric": {"type": "CocoEvaluator"},
        **_schedule(theirs, data["train"]["batch_size"]),
    }


def _transforms(theirs: Foreign, dataset: str) -> list[dict[str, Any]]:
    """Their usual pipeline: the longest sides, a mirror, means."""
    found: list[dict[str, Any]] = []
    known = ("LoadImageFromFile", "LoadAnnotations", "PackDetInputs", "DefaultFormatBundle", "Collect", "Pad")
    for step in steps_of(theirs, dataset):
        kind = step.get("type")
        scale = step.get("scale", step.get("img_scale"))
        sized = isinstance(scale, list) and len(scale) == 2 and all(isinstance(each, int) for each in scale)
        if kind == "Resize" and step.get("keep_ratio") and sized:
            found.append({"id": "resize", "type": "ResizeKeepRatio", "short": min(scale), "max_long": max(scale)})
        elif kind == "RandomFlip":
            found.append({"id": "flip", "type": "RandomFlip", "prob": step.get("prob", step.get("flip_ratio", 0.5))})
        elif kind == "Normalize":
            found.append(normalize(step.get("mean"), step.get("std"), step.get("to_rgb", True)))
        elif kind not in known:
            theirs.note(f"train_pipeline: the step {kind} is not translated")
    return found + preprocessed(theirs)


def _schedule(theirs: Foreign, batch: int) -> dict[str, Any]:
    """Optimizer, rates and length. A rate is for `reference_batch` images, theirs for all cards together."""
    made, rate = optimizer(theirs)
    epochs = int(theirs.number("train_cfg.max_epochs", theirs.number("runner.max_epochs", 12)))
    schedule: dict[str, Any] = {"type": "MultiStep", "base_lr": rate, "gamma": 0.1}
    schedule["reference_batch"] = int(theirs.number("auto_scale_lr.base_batch_size", 16))
    milestones, warm = theirs.get("lr_config.step", []), theirs.get("lr_config.warmup_iters", 0)
    for i, step in enumerate(theirs.get("param_scheduler", [])):
        if step.get("type") == "MultiStepLR":
            milestones, schedule["gamma"] = step.get("milestones", []), step.get("gamma", 0.1)
        elif step.get("type") == "LinearLR":
            warm = step.get("end", 0)
        else:
            theirs.note(f"param_scheduler.{i}: {step.get('type')} is not translated")
    theirs.get("lr_config")
    schedule |= {"milestones": [round(each / epochs, 4) for each in milestones], "warmup_steps": int(warm)}
    for path in ("train_cfg", "runner"):
        theirs.get(path)
    runtime: dict[str, Any] = {"epochs": epochs} | clipped(theirs)
    return {"optimizer": made, "schedule": schedule, "runtime": runtime}
