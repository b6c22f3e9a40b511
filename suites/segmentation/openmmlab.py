"""Configs of MMSegmentation as ours, see `suites.engine.config.openmmlab`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.errors import ConfigError
from suites.engine.config.openmmlab import ROLE, Foreign
from suites.engine.registry import register
from suites.vision.openmmlab import (
    BACKBONE,
    batch_of,
    below,
    clipped,
    dataset_at,
    expect,
    normalize,
    optimizer,
    preprocessed,
    resnet,
    root_of,
    steps_of,
    strides_of,
    told_loss,
)

_HEAD, _AUX = "model.decode_head", "model.auxiliary_head"
_CARDS = 4  # that the rates of its published configs are for
_HALVING, _DILATED = [1, 1, 1, 1], {16: [1, 1, 1, 2], 8: [1, 1, 2, 4]}


@register(ROLE, "EncoderDecoder")
def segmenter(theirs: Foreign) -> dict[str, Any]:
    """PSPNet or DeepLabV3+ on a ResNet, with or without a second head."""
    kind = theirs.get(f"{_HEAD}.type")
    if kind not in _HEADS:
        known = ", ".join(_HEADS)
        raise ConfigError(f"{theirs.name}: {_HEAD}.type is {str(kind)[:60]!r}; translated are {known}")
    expect(theirs, f"{_HEAD}.align_corners", None, False)
    model = {"num_classes": "${data.num_classes}", **_HEADS[kind](theirs), **_second_head(theirs)}
    for name in ("in_channels", "in_index", "norm_cfg", "act_cfg"):
        theirs.get(f"{_HEAD}.{name}")
    told_loss(theirs, f"{_HEAD}.loss_decode", "cross entropy", "CrossEntropyLoss")
    model["dropout"] = theirs.number(f"{_HEAD}.dropout_ratio", 0.1)
    inference = _inference(theirs)
    for name in ("test_cfg", "train_cfg"):
        theirs.get(f"model.{name}")
    data = _data(theirs, int(theirs.number(f"{_HEAD}.num_classes")))
    losses = [{"id": "ce", "type": "CrossEntropy"}]
    return {
        "suite": "segmentation",
        "model": model,
        "losses": losses,
        **({"inference": inference} if inference else {}),
        "data": data,
        **_schedule(theirs, data["train"]["batch_size"]),
    }


def _psp(theirs: Foreign) -> dict[str, Any]:
    return {
        "type": "PSPNet",
        "backbone": _backbone(theirs, [3]),
        "channels": int(theirs.number(f"{_HEAD}.channels", 512)),
        "grids": theirs.get(f"{_HEAD}.pool_scales", [1, 2, 3, 6]),
        "aux_weight": 0.0,
    }


def _separable_aspp(theirs: Foreign) -> dict[str, Any]:
    rates = theirs.get(f"{_HEAD}.dilations", [1, 12, 24, 36])
    if rates[:1] != [1]:
        raise ConfigError(f"{theirs.name}: {_HEAD}.dilations is {rates}; the first must be 1")
    theirs.get(f"{_HEAD}.c1_in_channels")
    return {
        "type": "DeepLabV3Plus",
        "backbone": _backbone(theirs, [0, 3]),
        "rates": rates[1:],
        "channels": int(theirs.number(f"{_HEAD}.channels", 512)),
        "low_channels": int(theirs.number(f"{_HEAD}.c1_channels", 48)),
        "merge_kernel": 3,
    }


_HEADS: dict[str, Callable[[Foreign], dict[str, Any]]] = {
    "PSPHead": _psp,
    "DepthwiseSeparableASPPHead": _separable_aspp,
}


def _backbone(theirs: Foreign, places: list[int]) -> dict[str, Any]:
    """The backbone with its maps at `places`; stages dilate by its `dilations`."""
    found = resnet(theirs, ("ResNet", "ResNetV1c", "ResNetV1d"))
    found["frozen_norm"] = bool(theirs.get(f"{BACKBONE}.norm_eval", False))
    dilations = theirs.get(f"{BACKBONE}.dilations", _HALVING)
    stride = next((stride for stride, each in _DILATED.items() if each == dilations), 32)
    if stride == 32 and dilations != _HALVING:
        raise ConfigError(f"{theirs.name}: {BACKBONE}.dilations is {dilations}; translated are strides 8, 16 and 32")
    if stride != 32:
        expect(theirs, f"{BACKBONE}.contract_dilation", True)
    for name in ("out_indices", "strides", "contract_dilation"):
        theirs.get(f"{BACKBONE}.{name}")
    return found | {"output_stride": stride, "out_strides": strides_of(places, stride)}


def _inference(theirs: Foreign) -> dict[str, Any]:
    """Windows that are slid over a picture; nothing where it is taken whole."""
    if theirs.get("model.test_cfg.mode", "whole") == "whole":
        return {}
    sizes = theirs.get("model.test_cfg.crop_size", [512, 512]), theirs.get("model.test_cfg.stride", [341, 341])
    if any(height != width for height, width in sizes):
        theirs.note(f"model.test_cfg: windows are squares here, of the shorter side of {sizes[0]}")
    return {"mode": "slide", "window": min(sizes[0]), "stride": min(sizes[1])}


def _second_head(theirs: Foreign) -> dict[str, Any]:
    """The head on the stage before the last, if there is one."""
    if not theirs.has(_AUX):
        return {}
    expect(theirs, f"{_AUX}.type", "FCNHead")
    expect(theirs, f"{_AUX}.num_convs", 1)
    expect(theirs, f"{_AUX}.concat_input", False)
    expect(theirs, f"{_AUX}.in_index", 2)
    found = {
        "aux_channels": int(theirs.number(f"{_AUX}.channels", 256)),
        "aux_weight": theirs.number(f"{_AUX}.loss_decode.loss_weight", 1.0),
    }
    told_loss(theirs, f"{_AUX}.loss_decode", "cross entropy", "CrossEntropyLoss")
    expect(theirs, f"{_AUX}.align_corners", None, False)
    for name in ("in_channels", "num_classes", "norm_cfg", "act_cfg", "dropout_ratio"):
        theirs.get(f"{_AUX}.{name}")
    return found


def _data(theirs: Foreign, classes: int) -> dict[str, Any]:
    data: dict[str, Any] = {"root": "data/segmentation", "num_classes": classes}
    for part in ("train", "eval"):
        path = dataset_at(theirs, part == "train")
        if part == "train":
            data["root"] = root_of(theirs, path, theirs.get("data_root") or data["root"])
            transforms = _transforms(theirs, path)
        root = root_of(theirs, path, data["root"])
        dataset = _dataset(theirs, path, part, root)
        data[part] = {
            "dataset": dataset if root == data["root"] else dataset | {"root": root},
            "transforms": transforms if part == "train" else transforms[-1:],
            "batch_size": batch_of(theirs, part == "train", 2 if part == "train" else 1),
        }
        theirs.get(path)
    for path in ("data", "train_dataloader", "val_dataloader"):
        theirs.get(path)
    return data


def _dataset(theirs: Foreign, path: str, part: str, root: str) -> dict[str, Any]:
    """One of the public sets by its own reader; any other as two folders of the same names."""
    kind = theirs.get(f"{path}.type")
    split = "train" if part == "train" else "val"
    if kind == "CityscapesDataset":
        return {"type": "Cityscapes", "root": "${data.root}", "split": split}
    if kind == "ADE20KDataset":
        return {"type": "Ade20k", "root": "${data.root}", "split": split}
    if kind == "PascalVOCDataset":
        theirs.note(
            f"{path}: the lists of VOC's own {split} are read; `split: trainaug` with `sbd` are the larger ones"
        )
        return {"type": "VocSegmentation", "root": "${data.root}", "split": split}
    theirs.note(f"{path}.type is {kind}; its label maps must hold numbers of classes here, and 255")
    found: dict[str, Any] = {"type": "ImageLabelPairs", "root": "${data.root}"}
    places = ("images", "data_prefix.img_path", "img_dir"), ("labels", "data_prefix.seg_map_path", "ann_dir")
    for ours, new, old in places:
        if folder := theirs.get(f"{path}.{new}", theirs.get(f"{path}.{old}")):
            found[ours] = below(f"{root}/", str(folder))
    names = theirs.get(f"{path}.metainfo.classes", theirs.get(f"{path}.classes"))
    suffix = theirs.get(f"{path}.seg_map_suffix", ".png")
    return {
        **found,
        **({"classes": list(names)} if isinstance(names, list) else {}),
        **({"label_suffix": suffix} if suffix != ".png" else {}),
        **({"reduce_zero": True} if theirs.get(f"{path}.reduce_zero_label") else {}),
    }


def _transforms(theirs: Foreign, path: str) -> list[dict[str, Any]]:
    """Their usual pipeline: a random size, a crop, a mirror, colours, means; what is last is for evaluation too."""
    found: list[dict[str, Any]] = []
    known = ("LoadImageFromFile", "LoadAnnotations", "PackSegInputs", "DefaultFormatBundle", "Collect", "Pad")
    for step in steps_of(theirs, path):
        kind, ratios = step.get("type"), step.get("ratio_range")
        if kind in ("RandomResize", "Resize") and ratios:
            scale = step.get("scale", step.get("img_scale"))
            theirs.note(f"train_pipeline: {kind} begins with {scale} there, and with the picture's own size here")
            found.append({"id": "scale", "type": "RandomScale", "low": ratios[0], "high": ratios[1]})
        elif kind == "RandomCrop":
            share = step.get("cat_max_ratio", 1.0)
            crop = {"id": "crop", "type": "RandomCrop", "size": step["crop_size"]}
            found.append(crop | ({"max_share": share} if share < 1 else {}))
        elif kind == "RandomFlip":
            found.append({"id": "flip", "type": "RandomFlip", "prob": step.get("prob", step.get("flip_ratio", 0.5))})
        elif kind == "PhotoMetricDistortion":
            theirs.note("train_pipeline: ColorDistort stands in the place of PhotoMetricDistortion")
            change = {name: step.get(f"{name}_range", [0.5, 1.5]) for name in ("contrast", "saturation")}
            found.append({"id": "color", "type": "ColorDistort", **change})
        elif kind == "Normalize":
            found.append(normalize(step.get("mean"), step.get("std"), step.get("to_rgb", True)))
        elif kind not in known:
            theirs.note(f"train_pipeline: the step {kind} is not translated")
    found += preprocessed(theirs)
    last = [each for each in found if each["type"] == "Normalize"] or [{"id": "normalize", "type": "Normalize"}]
    return [each for each in found if each["type"] != "Normalize"] + last[-1:]


def _schedule(theirs: Foreign, batch: int) -> dict[str, Any]:
    made, rate = optimizer(theirs)
    if not theirs.has("auto_scale_lr.base_batch_size"):
        theirs.note(f"schedule.reference_batch: the rate is taken for {_CARDS} cards of {batch} pictures")
    reference = int(theirs.number("auto_scale_lr.base_batch_size", _CARDS * batch))
    power, warm = theirs.number("lr_config.power", 0.9), theirs.get("lr_config.warmup_iters", 0)
    least = theirs.number("lr_config.min_lr", 0.0)
    for i, step in enumerate(theirs.get("param_scheduler", [])):
        if step.get("type") == "PolyLR":
            power, least = step.get("power", 0.9), step.get("eta_min", 0.0)
        elif step.get("type") == "LinearLR":
            warm = step.get("end", 0)
        else:
            theirs.note(f"param_scheduler.{i}: {step.get('type')} is not translated")
    schedule = {"type": "Polynomial", "base_lr": rate, "power": power, "reference_batch": reference}
    schedule |= {"final_share": round(least / rate, 6)} if least else {}
    steps = theirs.get("train_cfg.max_iters", theirs.get("runner.max_iters"))
    length = {"steps": int(steps)} if steps else {"epochs": int(theirs.number("train_cfg.max_epochs", 100))}
    for path in ("lr_config", "train_cfg", "runner"):
        theirs.get(path)
    runtime = length | clipped(theirs)
    return {"optimizer": made, "schedule": schedule | {"warmup_steps": int(warm)}, "runtime": runtime}
