"""DarkNet-53, the residual backbone of YOLOv3 (Redmon and Farhadi 2018, arXiv:1804.02767), and that of YOLOv3-tiny."""

from __future__ import annotations

from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import conv_norm, darknet_units


@register("backbone")
class DarkNet53(Backbone):
    """Stem and five stages, each a 3x3 convolution of stride 2 and residual pairs of 1x1 and 3x3; leaky ReLU 0.1.

    Args:
        width: channels of the stem; stage i has width * 2^(i + 1).
        blocks: residual pairs of each stage.
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("darknet", "openmmlab", "paddledetection")

    def __init__(
        self,
        width: int = 32,
        blocks: tuple[int, ...] = (1, 2, 8, 8, 4),
        out_strides: tuple[int, ...] = (8, 16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if width < 2 or not blocks or min(blocks) < 0:
            raise AttributeValueError(
                f"DarkNet53: width is {width}, blocks {list(blocks)}; width must be 2 or more, no block negative"
            )
        self.strides = check_strides("DarkNet53", out_strides, [2 << i for i in range(len(blocks))])
        self._blocks = tuple(blocks)
        self.stem = nn.ConvBNAct(3, width, 3, act="leaky_relu")
        self.stages = nn.LayerList()
        channels = []
        for count, stride in zip(blocks, [2 << i for i in range(len(blocks))], strict=True):
            if stride > self.strides[-1]:
                break
            self.stages.append(_Stage(width, count))
            width *= 2
            if stride in self.strides:
                channels.append(width)
        self.channels = tuple(channels)
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The stem with the first stage, then stage after stage."""
        stages = list(self.stages)
        return [[self.stem, *stages[:1]], *([stage] for stage in stages[1:])]

    def names_in(self, scheme: str) -> Names:
        """Numbers of the convolutions in darknet53.cfg or yolov3.cfg, which begin alike, or OpenMMLab's or
        PaddleDetection's names."""
        if scheme == "paddledetection":
            return self._paddledetection()
        if scheme == "openmmlab":
            return self._openmmlab()
        units = ["stem"]
        for i, count in enumerate(self._blocks[: len(self.stages)]):
            units.append(f"stages.{i}.down")
            units += [f"stages.{i}.pairs.{j}.{k}" for j in range(count) for k in range(2)]
        return Names(darknet_units(units), (r"^(\d+)\.",))

    def _openmmlab(self) -> Names:
        units = {"stem": "conv1"}
        for i, count in enumerate(self._blocks[: len(self.stages)]):
            block = f"conv_res_block{i + 1}"
            units[f"stages.{i}.down"] = f"{block}.conv"
            units |= {f"stages.{i}.pairs.{j}.{k}": f"{block}.res{j}.conv{k + 1}" for j in range(count) for k in (0, 1)}
        names: dict[str, Source] = {}
        for ours, theirs in units.items():
            names |= conv_norm(ours, f"{theirs}.conv", f"{theirs}.bn")
        return Names(names, tuple(rf"^conv_res_block{i + 1}\." for i in range(len(self.stages), len(self._blocks))))

    def _paddledetection(self) -> Names:
        units = {"stem": "conv0"}
        for i, count in enumerate(self._blocks[: len(self.stages)]):
            down = f"stage.{i - 1}.downsample" if i else "downsample0"
            units[f"stages.{i}.down"] = f"{down}.conv_bn_layer"
            for j in range(count):
                block = f"stage.{i}.stage.{i}.{j}" if j else f"stage.{i}.basicblock0"
                units |= {f"stages.{i}.pairs.{j}.{k}": f"{block}.conv{k + 1}" for k in range(2)}
        names: dict[str, Source] = {}
        for ours, theirs in units.items():
            names |= conv_norm(ours, f"{theirs}.conv", f"{theirs}.batch_norm", paddle=True)
        coarser = range(len(self.stages), len(self._blocks))
        return Names(names, tuple(rf"^stage\.({i}|{i - 1}\.downsample)\." for i in coarser))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/s, W/s, C_s]."""
        x = self.stem(x)
        maps = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if 2 << i in self.strides:
                maps.append(x)
        return maps


class _Stage(nn.Layer):
    """[N, H, W, C] to [N, H/2, W/2, 2C]: halves the map, then `count` residual pairs."""

    def __init__(self, in_channels: int, count: int) -> None:
        super().__init__()
        channels = 2 * in_channels
        self.down = nn.ConvBNAct(in_channels, channels, 3, stride=2, act="leaky_relu")
        self.pairs = nn.LayerList(
            nn.Sequential(
                nn.ConvBNAct(channels, channels // 2, 1, act="leaky_relu"),
                nn.ConvBNAct(channels // 2, channels, 3, act="leaky_relu"),
            )
            for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.down(x)
        for pair in self.pairs:
            x = x + pair(x)
        return x


_TINY = (16, 32, 64, 128, 256, 512, 1024)  # channels of the convolutions


@register("backbone")
class TinyDarkNet(Backbone):
    """Seven 3x3 convolutions with max pooling between them, the backbone of yolov3-tiny.cfg; leaky ReLU 0.1.

    The map of stride s is what comes before it is halved again. The last pooling has stride 1 and looks at the pixel
    and its neighbours to the right and below, so that the map keeps its size.

    Args:
        out_strides: strides of the maps given out, of 2, 4, 8, 16, 32; the network ends at the last.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = ("darknet",)

    def __init__(
        self,
        out_strides: tuple[int, ...] = (16, 32),
        freeze_at: int = 0,
        frozen_norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.strides = check_strides("TinyDarkNet", out_strides, (2, 4, 8, 16, 32))
        count = len(_TINY) if self.strides[-1] == 32 else self.strides[-1].bit_length()
        pairs = zip((3, *_TINY), _TINY[:count], strict=False)
        self.convs = nn.LayerList(nn.ConvBNAct(a, b, 3, act="leaky_relu") for a, b in pairs)
        self.channels = tuple(_TINY[-1] if s == 32 else _TINY[s.bit_length() - 1] for s in self.strides)
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The first two convolutions, then one of each further stride; the last two together."""
        convs = list(self.convs)
        return [convs[:2], *([conv] for conv in convs[2:5]), convs[5:]]

    def names_in(self, scheme: str) -> Names:
        """Numbers of the convolutions in yolov3-tiny.cfg."""
        return Names(darknet_units([f"convs.{i}" for i in range(len(self.convs))]), (r"^(\d+)\.",))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3], H and W multiples of the last stride; maps [N, H/s, W/s, C_s]."""
        maps = []
        for i, conv in enumerate(self.convs):
            if 0 < i < 6:
                x = ops.max_pool2d(x, kernel=2, stride=2)
            elif i == 6:
                x = ops.max_pool2d(x, kernel=2, stride=1, padding=(0, 1, 0, 1))
            x = conv(x)
            if i != 5 and (32 if i == 6 else 1 << i) in self.strides:
                maps.append(x)
        return maps
