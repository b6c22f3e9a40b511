"""RetinaFace: faces with five points, from a pyramid with context modules (Deng et al. 2020, arXiv:1905.00641).

Letters: N batch, H_s W_s grid of stride s, C_s channels of the backbone's map, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models.base import Neck
from suites.detection.models.ssd import SSD, SSDHead
from suites.detection.models.torchvision_names import convs
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones import MobileNetV1
from suites.vision.backbones.naming import conv_norm
from suites.vision.pose import FACE_POINTS

SCHEME = "retinaface"
# Left and right are the picture's.
_BLOCKS = tuple((1, k) for k in range(1, 6)) + tuple((2, k) for k in range(6)) + tuple((3, k) for k in range(2))


@register("neck")
class ContextPyramid(Neck):
    """A pyramid whose maps see more of the picture: 3x3, 5x5 and 7x7 pixels around each, made of 3x3 convolutions.

    The pyramid is a 1x1 convolution on each map, and from the coarsest down a sum with the next coarser one (nearest
    neighbour) and a 3x3 convolution. The context module is SSH's (Najibi et al. 2017, arXiv:1708.03979): half of the
    channels see 3x3 pixels, a quarter each 5x5 and 7x7; all then pass ReLU.

    Parameters: `laterals.I`, `merges.I`, `contexts.I`, finest first.

    Args:
        in_channels: C_s of each backbone map, finest first.
        in_strides: of each backbone map.
        width: D, channels of every map given out; a multiple of 4.
        slope: of the leaky ReLU within; the originals have 0.1 at width 64 and 0 above.
    """

    def __init__(
        self, in_channels: Sequence[int], in_strides: Sequence[int], width: int = 64, slope: float = 0.1
    ) -> None:
        super().__init__()
        if width < 4 or width % 4:
            raise AttributeValueError(f"ContextPyramid: width is {width}; it must be a multiple of 4")
        self.channels, self.strides = (width,) * len(in_channels), tuple(in_strides)
        self.laterals = nn.LayerList(_layer(c, width, 1, slope) for c in in_channels)
        self.merges = nn.LayerList(_layer(width, width, 3, slope) for _ in in_channels[1:])
        self.contexts = nn.LayerList(_Context(width, slope) for _ in in_channels)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """maps: [N, H_s, W_s, C_s], finest first; as many maps [N, H_s, W_s, D]."""
        levels = [lateral(x) for lateral, x in zip(self.laterals, maps, strict=True)]
        for i in reversed(range(len(levels) - 1)):
            levels[i] = self.merges[i](levels[i] + ops.resize_nearest(levels[i + 1], like=levels[i]))
        return [context(x) for context, x in zip(self.contexts, levels, strict=True)]


class _Context(nn.Layer):
    """x, y: [N, H, W, D]."""

    def __init__(self, width: int, slope: float) -> None:
        super().__init__()
        half, quarter = width // 2, width // 4
        self.near = _layer(width, half, 3, None)
        self.reduce = _layer(width, quarter, 3, slope)
        self.middle = _layer(quarter, quarter, 3, None)
        self.widen = _layer(quarter, quarter, 3, slope)
        self.far = _layer(quarter, quarter, 3, None)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, D]."""
        reduced = self.reduce(x)
        return ops.relu(ops.concat([self.near(x), self.middle(reduced), self.far(self.widen(reduced))], axis=3))


@register("detector")
class RetinaFace(SSD):
    """SSD whose maps come from a `ContextPyramid`, with five points of each face.

    The published network on MobileNetV1 at a quarter of its width has 0.43 million parameters. Its 3D mesh branch was
    left out by the repositories that published weights, and is here.

    Args:
        backbone: image to feature maps.
        head: predictions and losses; `SSDHead` with `convolution: 1x1` and `landmarks: 5`.
        neck: what lies between.
        pretrained: name or file of published weights of the whole detector; see docs/howto/pretrained.md.
    """

    default_neck = ContextPyramid
    points = FACE_POINTS

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names its tensors have: those of the PyTorch repositories, on MobileNetV1."""
        known = isinstance(self.backbone, MobileNetV1) and self.backbone.strides == (8, 16, 32)
        ours = isinstance(self.neck, ContextPyramid) and isinstance(self.head, SSDHead)
        return (SCHEME,) if known and ours else ()

    def names_in(self, scheme: str) -> Names:
        """Names in the repositories that publish `mobilenet0.25_Final.pth`."""
        assert isinstance(self.head, SSDHead)
        found = conv_norm("backbone.stem", "body.stage1.0.0", "body.stage1.0.1")
        # Their pictures are BGR.
        found["backbone.stem.conv.weight"] = replace(found["backbone.stem.conv.weight"], flipped=(3,))
        for i, (stage, k) in enumerate(_BLOCKS):
            for part, at in ((0, 0), (1, 3)):
                theirs = f"body.stage{stage}.{k}"
                found |= conv_norm(f"backbone.blocks.{i}.{part}", f"{theirs}.{at}", f"{theirs}.{at + 1}")
        inner = {"near": "conv3X3", "reduce": "conv5X5_1", "middle": "conv5X5_2", "widen": "conv7X7_2"}
        pairs = {f"neck.laterals.{i}": f"fpn.output{i + 1}" for i in range(3)}
        pairs |= {f"neck.merges.{i}": f"fpn.merge{i + 1}" for i in range(2)}
        for i in range(3):
            parts = {**inner, "far": "conv7x7_3"}
            pairs |= {f"neck.contexts.{i}.{ours}": f"ssh{i + 1}.{theirs}" for ours, theirs in parts.items()}
        for ours, theirs in pairs.items():
            found |= conv_norm(ours, f"{theirs}.0", f"{theirs}.1")
        heads = {"cls_outs": "ClassHead", "box_outs": "BboxHead", "mark_outs": "LandmarkHead"}
        if not self.head.landmarks:
            del heads["mark_outs"]
        outs = {f"head.{ours}.{i}": f"{theirs}.{i}.conv1x1" for ours, theirs in heads.items() for i in range(3)}
        sources: dict[str, Source] = {**found, **convs(outs)}
        return Names(sources, (r"^body\.fc\.", r"^LandmarkHead\."))


def _layer(in_channels: int, out: int, kernel: int, slope: float | None) -> nn.ConvBNAct:
    return nn.ConvBNAct(in_channels, out, kernel, act="none" if slope is None else "leaky_relu", slope=slope or 0.0)
