"""Networks that a darknet cfg describes: YOLOv3 and its kin, YOLOv4, Yolo-Fastest and anybody's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from framework import nn, ops
from framework.errors import CheckpointError, ConfigError
from framework.outside import expanded
from framework.tensors import Tensor
from suites.engine.names import did_you_mean
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.engine.weights.formats.darknet_cfg import ACTIVATIONS, Layer, numbers_of, read_cfg
from suites.engine.weights.published import expect_size
from suites.engine.weights.records import records_folder
from suites.vision.backbones.base import Backbone
from suites.vision.backbones.naming import CONV_AXES, darknet_units

_MOST_STRIDE = 128


def find_cfg(name: str) -> Path:
    """The file of a cfg: a path, or the name of one of ours in `zoo/cfg`.

    Raises ConfigError where it is neither.
    """
    if (path := expanded(name)).is_file():
        return path
    ours = {file.stem: file for file in (records_folder() / "cfg").glob("*.cfg")}
    if name not in ours:
        hint = did_you_mean(name, ours)
        raise ConfigError(f"cfg: '{name}' is no file and none of ours{hint or ';'} there is {', '.join(sorted(ours))}")
    return ours[name]


def output_strides(cfg: str) -> list[int]:
    """Pixels that a cell of each [yolo] of a cfg is wide, finest first; raises ConfigError as `DarknetCfg` does."""
    return [stride for stride, _ in _outputs(_described(find_cfg(cfg)))]


@register("backbone")
class DarknetCfg(Backbone):
    """All layers of a darknet cfg but the convolution before each [yolo], which is the head's.

    The maps are what those convolutions see. `freeze_at` counts the layers in the cfg's order, up to the first one of
    a larger stride: those of a neck follow the coarsest stride and belong to it. Parameters: `layers.I`, I the
    section's number, without [net].

    Args:
        cfg: the file, or the name of one of ours: yolo_fastest_coco, yolo_fastest_body, yolov3_spp_coco,
            yolov4_coco.
        freeze_at: all layers up to stride 2^freeze_at are not trained; 0 trains all.
        frozen_norm: batch norms use their running statistics in training too, and are not trained.
        pretrained: name or file of published weights; see docs/howto/pretrained.md.

    Raises:
        ConfigError: there is no such cfg, it is too large, or it says something that is not computed here.
    """

    schemes: tuple[str, ...] = ("darknet",)

    def __init__(self, cfg: str, freeze_at: int = 0, frozen_norm: bool = False, pretrained: str | None = None) -> None:
        super().__init__()
        self.cfg_file = find_cfg(cfg)
        described = _described(self.cfg_file)
        outputs = _outputs(described)
        self.strides = tuple(stride for stride, _ in outputs)
        self.channels = tuple(described[at].in_channels for _, at in outputs)
        taken = {at for _, at in outputs}
        self._taps = tuple(described[at].sources[0] for _, at in outputs)
        self._sources = tuple(layer.sources for layer in described)
        self._strides = _strides(described)
        self.layers = nn.LayerList(nn.Sequential() if at in taken else _made(each) for at, each in enumerate(described))
        self._used = tuple(at for at, each in enumerate(described) if at not in taken and each.section.kind != "yolo")
        self._convolutions = [at for at, each in enumerate(described) if each.weights is not None]
        self._without_norm = {at for at in self._convolutions if not getattr(described[at].weights, "norm", True)}
        self.out_numbers = tuple(self._convolutions.index(at) for _, at in outputs)
        self.finish(freeze_at, frozen_norm, pretrained)

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """The layers in the cfg's order, a part for each stride."""
        found: list[list[nn.Layer]] = [[]]
        for at, layer in enumerate(self.layers):
            while self._strides[at] > 1 << len(found):
                found.append([])
            found[-1].append(layer)
        return found

    def names_in(self, scheme: str) -> Names:
        """Numbers of the convolutions in the cfg."""
        names: dict[str, Source] = {}
        for number, at in enumerate(self._convolutions):
            if number in self.out_numbers:
                continue
            if at in self._without_norm:
                names[f"layers.{at}.0.weight"] = Source((f"{number}.weight",), CONV_AXES)
                names[f"layers.{at}.0.bias"] = Source((f"{number}.bias",))
            else:
                names |= darknet_units([f"layers.{at}"], number)
        return Names(names, tuple(rf"^{number}\." for number in self.out_numbers))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3], H and W multiples of the largest stride; maps [N, H/s, W/s, C_s]."""
        given = {-1: x}
        for at in self._used:
            given[at] = self.layers[at](*(given[source] for source in self._sources[at]))
        return [given[at] for at in self._taps]


class _Route(nn.Layer):
    """Layers side by side, or one of `groups` groups of channels of each.  [N, H, W, C_i] to [N, H, W, K]."""

    def __init__(self, groups: int, group: int) -> None:
        super().__init__()
        self.groups, self.group = groups, group

    def forward(self, *xs: Tensor) -> Tensor:
        """xs: [N, H, W, C_i]; y: [N, H, W, sum of C_i / groups]."""
        if self.groups > 1:
            each = [x.shape[3] // self.groups for x in xs]
            xs = tuple(x[:, :, :, self.group * c : (self.group + 1) * c] for x, c in zip(xs, each, strict=True))
        return ops.concat(list(xs), axis=3) if len(xs) > 1 else xs[0]


class _Sum(nn.Layer):
    """Adds layers of one shape, then activates.  [N, H, W, C] each."""

    def __init__(self, act: str) -> None:
        super().__init__()
        self.act = nn.Activation(act, slope=0.1)

    def forward(self, *xs: Tensor) -> Tensor:
        """xs: [N, H, W, C]; y: [N, H, W, C]."""
        y = xs[0]
        for x in xs[1:]:
            y = y + x
        return self.act(y)


def _described(path: Path) -> list[Layer]:
    layers = read_cfg(path, ConfigError)
    try:
        expect_size(numbers_of(layers), len(layers), path.name)
    except CheckpointError as error:
        raise ConfigError(str(error)) from None
    return layers


def _strides(layers: Sequence[Layer]) -> list[int]:
    """Pixels of the image that a cell of each layer is wide."""
    found = [1]  # the image
    for layer in layers:
        section = layer.section
        taken = {found[source + 1] for source in layer.sources}
        if len(taken) > 1:
            raise section.wrong(f"it takes layers of strides {sorted(taken)}, which do not fit onto each other")
        stride = taken.pop()
        if section.kind in ("convolutional", "maxpool"):
            stride *= section.number("stride", 1)
        elif section.kind == "upsample":
            factor = section.number("stride", 2)
            if stride % factor:
                raise section.wrong(f"stride is {factor}, and what it enlarges has stride {stride}")
            stride //= factor
        if stride > _MOST_STRIDE:
            raise section.wrong(f"its cells are {stride} pixels wide; at most {_MOST_STRIDE} are computed")
        found.append(stride)
    return found[1:]


def _outputs(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Stride and number of the convolution before each [yolo], finest first."""
    strides, found = _strides(layers), []
    for at, layer in enumerate(layers):
        if layer.section.kind != "yolo":
            continue
        before = layers[at - 1].weights if at else None
        if before is None or before.norm or before.size != 1 or _activation(layers[at - 1], "logistic") != "none":
            raise layer.section.wrong("before it must come a linear convolution of size 1 without batch norm")
        found.append((strides[at], at - 1))
    ends = {number for _, at in found for number in (at, at + 1)}
    for layer in layers:
        if ends & set(layer.sources) and layer.section.kind != "yolo":
            raise layer.section.wrong("it takes what a [yolo] predicts, which nothing here computes")
    if len({stride for stride, _ in found}) < max(len(found), 1):
        raise ConfigError(
            f"{layers[0].section.where.partition(':')[0]}: it has [yolo] sections of strides "
            f"{[stride for stride, _ in found]}; there must be one or more, each of another stride"
        )
    return sorted(found)


def _activation(layer: Layer, default: str) -> str:
    return ACTIVATIONS[layer.section.one_of("activation", default, tuple(ACTIVATIONS))]


def _made(layer: Layer) -> nn.Layer:
    """What computes a layer."""
    section, kind = layer.section, layer.section.kind
    if kind == "convolutional":
        return _convolution(layer)
    if kind == "route":
        groups, group = section.number("groups", 1), section.number("group_id", 0, 0)
        if group >= groups:
            raise section.wrong(f"group_id is {group} of {groups} groups")
        return _Route(groups, group)
    if kind == "shortcut":
        return _Sum(_activation(layer, "linear"))
    if kind == "upsample":
        return nn.Upsample(section.number("stride", 2))
    if kind == "dropout":
        return nn.Dropout(section.fraction("probability", 0.5))
    if kind == "maxpool":
        stride = section.number("stride", 1)
        size = section.number("size", stride)
        more = section.number("padding", size - 1, 0)
        if more != size - 1:
            raise section.wrong(f"padding is {more}; {size - 1}, which keeps H / stride, is computed")
        return nn.MaxPool2d(size, stride, (more // 2, more - more // 2) * 2)
    if kind == "yolo":
        return nn.Sequential()
    raise section.wrong("this kind of layer is not computed here")


def _convolution(layer: Layer) -> nn.Layer:
    section, weights = layer.section, layer.weights
    assert weights is not None  # of every [convolutional]
    act, stride, groups = _activation(layer, "logistic"), section.number("stride", 1), section.number("groups", 1)
    half = weights.size // 2
    padding = half if section.number("pad", 0, 0) else section.number("padding", 0, 0)
    if weights.size % 2 == 0 or padding != half:
        raise section.wrong(f"size is {weights.size}, padded by {padding}; odd sizes padded by half are computed")
    if section.number("dilation", 1) > 1:
        raise section.wrong("dilation is not computed here")
    if weights.norm:
        return nn.ConvBNAct(layer.in_channels, layer.channels, weights.size, stride, groups, act=act)
    conv = nn.Conv2d(layer.in_channels, layer.channels, weights.size, stride, groups=groups)
    return nn.Sequential(conv, nn.Activation(act, slope=0.1))
