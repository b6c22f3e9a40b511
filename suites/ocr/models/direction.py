"""PP-OCR's direction classifier: a MobileNetV3 of lines that says whether they are upside down (Howard et al. 2019)."""

from __future__ import annotations

import numpy as np

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.ocr.models.base import DirectionClassifier, GentleSqueeze
from suites.ocr.models.svtr import drawn_line
from suites.vision.backbones.inverted import InvertedResidual
from suites.vision.backbones.naming import CONV_AXES
from suites.vision.backbones.squeeze import rounded

# (kernel, channels within, channels out, squeeze and excitation, activation, step in height) of each block.
_PLAN = (
    (3, 16, 16, True, "relu", 2), (3, 72, 24, False, "relu", 2), (3, 88, 24, False, "relu", 1),
    (5, 96, 40, True, "hardswish", 2), (5, 240, 40, True, "hardswish", 1), (5, 240, 40, True, "hardswish", 1),
    (5, 120, 48, True, "hardswish", 1), (5, 144, 48, True, "hardswish", 1), (5, 288, 96, True, "hardswish", 2),
    (5, 576, 96, True, "hardswish", 1), (5, 576, 96, True, "hardswish", 1),
)  # fmt: skip
_STEM, _LAST = 16, 576
_FIRST_NAME = 2  # Paddle calls the first block conv2
_NORM = (("scale", "scale"), ("bias", "offset"), ("running_mean", "mean"), ("running_var", "variance"))


@register("text_model")
class LineDirection(DirectionClassifier):
    """MobileNetV3-small whose steps are in height alone, largest values of 2x2 cells, the mean, a linear layer.

    Args:
        scale: factor on all channel numbers, rounded to multiples of 8.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("ppocr",)

    def __init__(self, scale: float = 0.35, pretrained: str | None = None) -> None:
        super().__init__()
        width = rounded(_STEM * scale)
        self.stem = nn.ConvBNAct(3, width, 3, 2, act="hardswish")
        blocks: list[nn.Layer] = []
        for kernel, inner, out, squeeze, act, step in _PLAN:
            inner, out = rounded(inner * scale), rounded(out * scale)
            layers: list[nn.Layer] = [nn.ConvBNAct(width, inner, 1, act=act)]
            layers.append(nn.ConvBNAct(inner, inner, kernel, (step, 1), inner, act=act))
            if squeeze:
                layers.append(GentleSqueeze(inner, inner // 4))
            layers.append(nn.ConvBNAct(inner, out, 1, act="none"))
            blocks.append(InvertedResidual(layers, width, out, step))
            width = out
        self.blocks = nn.LayerList(blocks)
        self.last = nn.ConvBNAct(width, rounded(_LAST * scale), 1, act="hardswish")
        self.fc = nn.Linear(rounded(_LAST * scale), 2)
        start_from(self, pretrained)

    def forward(self, lines: Tensor) -> Tensor:
        """Logits [N, 2] of being upright and upside down, of lines [N, 48, 192, 3]."""
        x = self.stem(lines)
        for block in self.blocks:
            x = block(x)
        x = ops.max_pool2d(self.last(x), kernel=2, stride=2)
        return self.fc(ops.mean(x, axes=(1, 2)))

    def names_in(self, scheme: str) -> Names:
        """Names in PP-OCR's exported classifier."""
        names = _conv_norm("stem", "conv1") | _conv_norm("last", "conv_last")
        for k, block in enumerate(self.blocks):
            parts = ["expand", "depthwise", "se", "linear"] if _PLAN[k][3] else ["expand", "depthwise", "linear"]
            assert isinstance(block, InvertedResidual)
            for j, part in enumerate(parts):
                ours, theirs = f"blocks.{k}.body.{j}", f"conv{k + _FIRST_NAME}_{part}"
                names |= _squeeze(ours, theirs) if part == "se" else _conv_norm(ours, theirs)
        names |= {"fc.weight": Source(("fc_0.w_0",), (1, 0)), "fc.bias": Source(("fc_0.b_0",))}
        return Names(names, (r"^Constant@", r"^fill_constant"))

    def answers(self) -> dict[str, np.ndarray]:
        """The logits of a drawn line; see `suites.engine.weights.answers`."""
        return {"direction": self(drawn_line(48, 192)).numpy()}


def _conv_norm(ours: str, theirs: str) -> dict[str, Source]:
    names = {f"{ours}.conv.weight": Source((f"{theirs}_weights",), CONV_AXES)}
    return names | {f"{ours}.norm.{leaf}": Source((f"{theirs}_bn_{name}",)) for leaf, name in _NORM}


def _squeeze(ours: str, theirs: str) -> dict[str, Source]:
    names: dict[str, Source] = {}
    for part, number in (("down", 1), ("up", 2)):
        names[f"{ours}.{part}.weight"] = Source((f"{theirs}_{number}_weights",), CONV_AXES)
        names[f"{ours}.{part}.bias"] = Source((f"{theirs}_{number}_offset",))
    return names
