"""A small world of components, so that config tests need neither the core nor a suite."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from framework.errors import AttributeValueError
from suites.engine.config import Factory, OfRole, Supplied
from suites.engine.registry import Registry


class Backbone:
    channels = (64, 128)


class Neck:
    pass


class Head:
    pass


class Transform:
    pass


class MobileNet(Backbone):
    """A small backbone.

    Args:
        out_strides: Strides of the maps given out,
            each a power of two.
        scale (float): Width multiplier.
        norm: Kind of normalisation.
    """

    def __init__(
        self, out_strides: Sequence[int], scale: float = 1.0, norm: Literal["batch", "layer"] = "batch"
    ) -> None:
        self.out_strides, self.scale, self.norm = out_strides, scale, norm


class DarkNet(Backbone):
    def __init__(self, depth: int = 53, pretrained: Path | None = None) -> None:
        self.depth, self.pretrained = depth, pretrained


class PlainNeck(Neck):
    def __init__(self, in_channels: tuple[int, ...], width: int = 8) -> None:
        self.in_channels, self.width = in_channels, width


class NoNeck(Neck):
    """A neck that asks nothing of the backbone."""


class YoloLoss:
    """The loss.

    Args:
        ignore_iou: Boxes above this IoU are not negatives.
        label_smooth: Whether to smooth the labels.
    """

    def __init__(self, ignore_iou: float = 0.7, label_smooth: bool = False) -> None:
        if not 0 <= ignore_iou <= 1:
            raise AttributeValueError(f"YoloLoss: ignore_iou is {ignore_iou}, allowed is 0 to 1")
        self.ignore_iou, self.label_smooth = ignore_iou, label_smooth


class FocalYoloLoss(YoloLoss):
    def __init__(self, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma


class OtherLoss:
    pass


class YoloHead(Head):
    def __init__(self, num_classes: int, anchors: list[tuple[int, int]], loss: YoloLoss | None = None) -> None:
        self.num_classes, self.anchors, self.loss = num_classes, anchors, loss


class Yolo:
    def __init__(
        self,
        backbone: Backbone,
        head: Annotated[Factory[Head], Supplied("anchors")],
        neck: Factory[Neck] | None = None,
        name: str = "yolo",
    ) -> None:
        self.backbone, self.name = backbone, name
        self.neck = neck(in_channels=backbone.channels) if neck else None
        self.head = head(anchors=[(1, 2)])


class Flip(Transform):
    def __init__(self, prob: float = 0.5) -> None:
        self.prob = prob


class Resize(Transform):
    @classmethod
    def config_rules(cls, part):
        """Sides are even, and no smaller than a class a pixel."""
        if isinstance(part["size"], int) and part["size"] % 2:
            yield part.problem("size", f"{part['size']} is odd")
        if part.get("size") == part.config.get("data.num_classes"):
            yield part.config.problem("data.num_classes", f"as large as {part.path}")

    def __init__(self, size: int | tuple[int, int]) -> None:
        self.size = size


class Crop(Transform):
    pass


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


@dataclass
class Loader:
    """How samples become batches.

    Args:
        batch_size: Images a step.
        transforms: What is done to each image.
    """

    batch_size: int = 8
    transforms: list[Transform] = field(default_factory=list)
    mode: Mode = Mode.FAST


@dataclass
class Data:
    num_classes: int
    train: Loader = field(default_factory=Loader)
    class_names: dict[int, str] = field(default_factory=dict)
    extra: Any = None


def momentum(parameters: Any, momentum: float = 0.9, weight_decay: float = 0.0) -> dict[str, Any]:
    """Gradient descent with momentum."""
    return {"parameters": parameters, "momentum": momentum, "weight_decay": weight_decay}


def adam(parameters: Any, beta1: float = 0.9, weight_decay: float = 0.0) -> dict[str, Any]:
    return {"parameters": parameters, "beta1": beta1, "weight_decay": weight_decay}


@dataclass
class DetectionConfig:
    """What a toy config holds."""

    model: Annotated[Any, OfRole("model")]
    data: Data
    optimizer: Annotated[Factory[Any] | None, OfRole("optimizer")] = None
    seed: int = 0


GOOD = """\
suite: toy
model:
  type: Yolo
  backbone: {type: MobileNet, out_strides: [8, 16]}
  neck: {type: PlainNeck}
  head:
    type: YoloHead
    num_classes: ${data.num_classes}
    loss:
      ignore_iou: 0.5
data:
  num_classes: 3
  train:
    transforms:
      - {id: flip, type: Flip, prob: 0.25}
      - {id: resize, type: Resize, size: 320}
optimizer: {type: Momentum, weight_decay: 5e-4}
"""


def make_registry() -> Registry:
    """A registry of these components, with the suite `toy`."""
    registry = Registry()
    registry.register_role("backbone", Backbone, doc="Image to feature maps.")
    registry.register_role("neck", Neck, supplied=("in_channels",))
    registry.register_role("head", Head)
    registry.register_role("transform", Transform)
    registry.register_role("optimizer", supplied=("parameters",))
    for role, parts in {
        "backbone": (MobileNet, DarkNet),
        "neck": (PlainNeck, NoNeck),
        "head": (YoloHead,),
        "loss": (YoloLoss, FocalYoloLoss, OtherLoss),
        "model": (Yolo,),
        "transform": (Flip, Resize, Crop),
    }.items():
        for part in parts:
            registry.register(role)(part)
    registry.register("optimizer", "Momentum")(momentum)
    registry.register("optimizer", "Adam")(adam)
    registry.register("config", "toy")(DetectionConfig)
    return registry
