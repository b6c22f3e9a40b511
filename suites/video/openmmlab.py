"""Configs of MMAction2 as ours, see `suites.engine.config.openmmlab`."""

from __future__ import annotations

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
    steps_of,
    told_loss,
)

_HEAD = "model.cls_head"
_CARDS = 8  # that the rates of its published configs are for
_DEFAULT_SIZE = 224
_KNOWN_NAMES = """
DecordInit DecordDecode PyAVInit PyAVDecode OpenCVInit OpenCVDecode FormatShape PackActionInputs Collect ToTensor
"""
_KNOWN = frozenset(_KNOWN_NAMES.split())  # steps that need no word here


@register(ROLE, "Recognizer2D")
def frames_classifier(theirs: Foreign) -> dict[str, Any]:
    """TSN or TSM on a ResNet."""
    kinds = {("TSNHead", "ResNet"): "TSN", ("TSMHead", "ResNetTSM"): "TSM"}
    pair = theirs.get(f"{_HEAD}.type"), theirs.get(f"{BACKBONE}.type")
    if pair not in kinds:
        raise ConfigError(
            f"{theirs.name}: model.cls_head is {str(pair[0])[:40]} on {str(pair[1])[:40]}; translated are TSNHead on "
            "ResNet and TSMHead on ResNetTSM"
        )
    expect(theirs, f"{_HEAD}.spatial_type", None, "avg")
    backbone = resnet(theirs, ("ResNet", "ResNetTSM")) | {"out_strides": [32]}
    backbone["frozen_norm"] = bool(theirs.get(f"{BACKBONE}.norm_eval", False))
    model = {
        "type": kinds[pair],
        "backbone": backbone,
        "num_classes": "${data.num_classes}",
        "dropout": theirs.number(f"{_HEAD}.dropout_ratio", 0.4 if pair[0] == "TSNHead" else 0.8),
        "fc_std": theirs.number(f"{_HEAD}.init_std", 0.01),
    }
    if kinds[pair] == "TSM":
        model["share"] = int(theirs.number(f"{BACKBONE}.shift_div", 8))
        expect(theirs, f"{BACKBONE}.shift_place", None, "blockres")
        expect(theirs, f"{BACKBONE}.non_local_cfg", None, {})
        theirs.get(f"{BACKBONE}.num_segments")
    expect(theirs, f"{_HEAD}.consensus.type", None, "AvgConsensus")
    told_loss(theirs, f"{_HEAD}.loss_cls", "cross entropy", "CrossEntropyLoss")
    for name in ("in_channels", "consensus", "average_clips", "num_segments", "is_shift"):
        theirs.get(f"{_HEAD}.{name}")
    for name in ("train_cfg", "test_cfg"):
        theirs.get(f"model.{name}")
    data = _data(theirs, int(theirs.number(f"{_HEAD}.num_classes")))
    return {"suite": "video", "model": model, "data": data, **_schedule(theirs, data["train"]["batch_size"])}


def _data(theirs: Foreign, classes: int) -> dict[str, Any]:
    data: dict[str, Any] = {"root": "data/video", "num_classes": classes}
    normal: list[dict[str, Any]] = preprocessed(theirs, rgb=True)  # its decoders give red first
    for part in ("train", "eval"):
        path = dataset_at(theirs, part == "train")
        expect(theirs, f"{path}.type", "VideoDataset")
        folder = theirs.get(f"{path}.data_prefix.video", theirs.get(f"{path}.data_prefix"))
        root = (folder if isinstance(folder, str) else data["root"]).rstrip("/")
        if part == "train":
            data["root"] = root
        told = str(theirs.get(f"{path}.ann_file", f"{part}.txt"))
        annotations = below(f"{root}/", told)
        if annotations == told.strip("/") and "/" in told:  # the list lies elsewhere
            annotations = told.rsplit("/", 1)[-1]
            theirs.note(f"{path}.ann_file: lists lie with the videos here: copy {told} into {root}")
        transforms, segments = _transforms(theirs, path, part, normal)
        data[part] = {
            "dataset": {
                "type": "VideoFiles",
                "root": "${data.root}" if root == data["root"] else root,
                "annotations": annotations,
                "segments": segments,
            },
            "transforms": transforms,
            "batch_size": batch_of(theirs, part == "train", 8),
        }
        theirs.get(path)
    for path in ("data", "train_dataloader", "val_dataloader", "val_pipeline"):
        theirs.get(path)
    return data


def _transforms(
    theirs: Foreign, path: str, part: str, normal: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Their usual pipeline: a short side, a crop, a mirror, means; and which frames of a video are read."""
    found: list[dict[str, Any]] = []
    segments: dict[str, Any] = {}
    crops = {"MultiScaleCrop": "MultiScaleCrop", "CenterCrop": "CenterCrop", "RandomResizedCrop": "RandomResizedCrop"}
    for step in steps_of(theirs, path):
        kind, size = step.get("type"), step.get("scale")
        if kind == "SampleFrames":
            segments = {"count": step.get("num_clips", 1), "length": step.get("clip_len", 1)}
            segments |= {"interval": step["frame_interval"]} if step.get("frame_interval", 1) > 1 else {}
        elif kind == "Resize" and isinstance(size, list) and len(size) == 2 and min(size) == -1:
            found.append({"id": "resize", "type": "ResizeShort", "size": max(size)})
        elif kind in crops:
            side = step.get("input_size", step.get("crop_size", _DEFAULT_SIZE))
            scales = {"scales": step["scales"]} if kind == "MultiScaleCrop" and "scales" in step else {}
            found.append({"id": "crop", "type": crops[kind], "size": side, **scales})
        elif kind == "Flip":
            found.append({"id": "flip", "type": "RandomFlip", "prob": step.get("flip_ratio", 0.5)})
        elif kind == "Normalize":
            normal = [normalize(step.get("mean"), step.get("std"), True)]
        elif kind not in _KNOWN and not (kind == "Resize" and step.get("keep_ratio") is False):
            theirs.note(f"{part}'s pipeline: the step {kind} is not translated")
    return found + (normal or [{"id": "normalize", "type": "Normalize"}]), segments


def _schedule(theirs: Foreign, batch: int) -> dict[str, Any]:
    made, rate = optimizer(theirs)
    if not theirs.has("auto_scale_lr.base_batch_size"):
        theirs.note(f"schedule.reference_batch: the rate is taken for {_CARDS} cards of {batch} clips")
    reference = int(theirs.number("auto_scale_lr.base_batch_size", _CARDS * batch))
    epochs = int(theirs.number("train_cfg.max_epochs", theirs.number("total_epochs", 100)))
    milestones, gamma, warm = theirs.get("lr_config.step", []), 0.1, 0
    for i, step in enumerate(theirs.get("param_scheduler", [])):
        if step.get("type") == "MultiStepLR":
            milestones, gamma = step.get("milestones", []), step.get("gamma", 0.1)
        else:
            theirs.note(f"param_scheduler.{i}: {step.get('type')} is not translated")
    for path in ("lr_config", "train_cfg", "total_epochs"):
        theirs.get(path)
    schedule = {
        "type": "MultiStep",
        "base_lr": rate,
        "gamma": gamma,
        "reference_batch": reference,
        "milestones": [round(each / epochs, 4) for each in milestones if each < epochs],
        "warmup_steps": warm,
    }
    return {"optimizer": made, "schedule": schedule, "runtime": {"epochs": epochs} | clipped(theirs)}
