"""What translators of OpenMMLab's configs share: backbones, pixels, optimizers. See `engine.config.openmmlab`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.errors import ConfigError
from suites.engine.config.openmmlab import Foreign

BACKBONE = "model.backbone"
STRIDES = (4, 8, 16, 32)  # of a ResNet's stages
_PREPROCESSOR = "model.data_preprocessor"
# What may stand in a loss and changes nothing.
_USUAL: dict[str, tuple[Any, ...]] = {
    "use_sigmoid": (True, False), "use_mask": (True,), "reduction": ("mean",), "loss_weight": (1.0,),
    "gamma": (2.0,), "alpha": (0.25,),
}  # fmt: skip
_VARIANTS = {"ResNetV1c": "c", "ResNetV1d": "d"}
# Their files of backbones, by ours.
_BACKBONES = {
    "torchvision://resnet18": "resnet18_imagenet",
    "torchvision://resnet50": "resnet50_imagenet",
    "torchvision://resnet101": "resnet101_imagenet",
}


def expect(theirs: Foreign, path: str, *values: Any) -> None:
    """Raises ConfigError unless one of `values` stands at the path."""
    found = theirs.get(path)
    if found not in values:
        only = " or ".join(repr(value) for value in values)
        raise ConfigError(f"{theirs.name}: {path} is {str(found)[:60]!r}; only {only} is translated")


def resnet(theirs: Foreign, kinds: Sequence[str] = ("ResNet", "ResNeXt", *_VARIANTS)) -> dict[str, Any]:
    """Their ResNet of one of these kinds as ours, without its `out_strides`: its shape, norms and first weights."""
    kind = theirs.get(f"{BACKBONE}.type")
    if kind not in kinds:
        raise ConfigError(f"{theirs.name}: {BACKBONE}.type is {str(kind)[:60]!r}; translated are {', '.join(kinds)}")
    style = theirs.get(f"{BACKBONE}.style", "pytorch")
    found: dict[str, Any] = {
        "type": "ResNeXt" if kind == "ResNeXt" else "ResNet",
        "depth": int(theirs.number(f"{BACKBONE}.depth", 50)),
        "freeze_at": int(theirs.number(f"{BACKBONE}.frozen_stages", -1)) + 1,
        "frozen_norm": bool(theirs.get(f"{BACKBONE}.norm_eval", True)),
    }
    if kind == "ResNeXt":
        found |= {
            "groups": int(theirs.number(f"{BACKBONE}.groups", 32)),
            "group_width": int(theirs.number(f"{BACKBONE}.base_width", 4)),
        }
    else:
        found["variant"] = _VARIANTS.get(kind, "a" if style == "caffe" else "b")
    if theirs.get(f"{BACKBONE}.norm_cfg.type", "BN") not in ("BN", "SyncBN"):
        raise ConfigError(f"{theirs.name}: {BACKBONE}.norm_cfg: only batch norms are translated")
    for name in ("num_stages", "norm_cfg", "with_cp"):
        theirs.get(f"{BACKBONE}.{name}")
    of_backbone = theirs.get(f"{BACKBONE}.pretrained", theirs.get("model.pretrained"))
    weights = theirs.get(f"{BACKBONE}.init_cfg.checkpoint", of_backbone)
    theirs.get(f"{BACKBONE}.init_cfg")
    if weights in _BACKBONES:
        found["pretrained"] = _BACKBONES[weights]
    elif weights:
        theirs.note(f"{BACKBONE}: begins with {weights}; fetch that file and name it as `pretrained`")
    return found


def told_loss(theirs: Foreign, path: str, ours: str, *usual: str) -> None:
    """Notes a loss of another type than the usual ones, in whose place `ours` stands.

    What else its section says is left to be listed, but for what these types have anyway.
    """
    kind = theirs.get(f"{path}.type")
    if kind is not None and kind not in usual:
        theirs.note(f"{path}.type is {kind}; {ours} stands in its place")
    for name, values in _USUAL.items():
        if theirs.has(f"{path}.{name}"):
            found = theirs.peek(f"{path}.{name}")
            if found in values:
                theirs.get(f"{path}.{name}")


def strides_of(places: Sequence[int], output_stride: int = 32) -> list[int]:
    """Strides of the stages at these places, where stages dilate in place of halving from `output_stride` on."""
    return [min(STRIDES[place], output_stride) for place in places]


def normalize(mean: Any, std: Any, rgb: Any) -> dict[str, Any]:
    """Means and deviations of 0 to 255 as ours of 0 to 1; theirs without `rgb` see blue first."""
    flip = 1 if rgb else -1
    found: dict[str, Any] = {"id": "normalize", "type": "Normalize"}
    found |= {
        "mean": [round(each / 255, 6) for each in mean][::flip],
        "std": [round(each / 255, 6) for each in std][::flip],
    }
    return found if rgb else {**found, "bgr": True}


def preprocessed(theirs: Foreign, rgb: bool | None = None) -> list[dict[str, Any]]:
    """The norm of pixels that stands with the model, none or one; `rgb` where the config does not say."""
    mean, std = theirs.get(f"{_PREPROCESSOR}.mean"), theirs.get(f"{_PREPROCESSOR}.std")
    told = theirs.get(f"{_PREPROCESSOR}.bgr_to_rgb", rgb or False)
    theirs.get(_PREPROCESSOR)
    return [] if mean is None else [normalize(mean, std, told)]


def optimizer(theirs: Foreign) -> tuple[dict[str, Any], float]:
    """The optimizer as ours, and its rate."""
    path = "optim_wrapper.optimizer" if theirs.has("optim_wrapper") else "optimizer"
    kind = theirs.get(f"{path}.type", "SGD")
    decay = theirs.number(f"{path}.weight_decay", 1e-4)
    made: dict[str, Any] = {"type": "AdamW", "weight_decay": decay}
    if kind == "SGD":
        made = {"type": "Momentum", "momentum": theirs.number(f"{path}.momentum", 0.9), "weight_decay": decay}
    elif kind != "AdamW":
        theirs.note(f"{path}.type is {kind}; AdamW stands in its place")
    rate = theirs.number(f"{path}.lr", 0.02)
    theirs.get(path)
    theirs.get("optimizer")  # of which the wrapper's is a copy
    return made, rate


def clipped(theirs: Foreign) -> dict[str, Any]:
    """The bound of the gradients' norm, if there is one, for `runtime`; no more is asked of the wrapper."""
    clip = theirs.get("optim_wrapper.clip_grad.max_norm", theirs.get("optimizer_config.grad_clip.max_norm"))
    for path in ("optim_wrapper", "optimizer_config"):
        theirs.get(path)
    return {"clip_norm": clip} if clip else {}


def root_of(theirs: Foreign, dataset: str, default: str) -> str:
    """The folder of a data set, without a slash at its end."""
    return str(theirs.get(f"{dataset}.data_root") or default).rstrip("/")


def dataset_at(theirs: Foreign, train: bool) -> str:
    """The path of a data set, of releases with and without data loaders; of one that is wrapped, the one inside."""
    loader = "train_dataloader" if train else "val_dataloader"
    path = f"{loader}.dataset" if theirs.has(loader) else f"data.{'train' if train else 'val'}"
    while theirs.has(f"{path}.dataset"):  # such as repeated
        theirs.note(f"{path}.type is {theirs.get(f'{path}.type')}; the data set inside is taken alone")
        path = f"{path}.dataset"
    return path


def batch_of(theirs: Foreign, train: bool, default: int) -> int:
    """Samples of a batch on one card."""
    loader = "train_dataloader" if train else "val_dataloader"
    of_card = theirs.number("data.samples_per_gpu", theirs.number("data.videos_per_gpu", default))
    return int(theirs.number(f"{loader}.batch_size", of_card))


def steps_of(theirs: Foreign, dataset: str) -> list[Mapping[str, Any]]:
    """The transforms of a data set, or those named for training."""
    steps = theirs.get(f"{dataset}.pipeline", theirs.get("train_pipeline"))
    return [step for step in steps or [] if isinstance(step, Mapping)]


def below(root: str, path: str) -> str:
    """A path of theirs, which may or may not begin with the root of the data, without it."""
    return path.removeprefix(root).strip("/")
