"""Vision transformers: ViT (Dosovitskiy et al. 2021, arXiv:2010.11929) and DINOv2 (Oquab et al. 2023, arXiv:2304.07193;
its registers: Darcet et al. 2023, arXiv:2309.16588), with the simple pyramid of ViTDet (Li et al. 2022,
arXiv:2203.16527).

Letters: N batch, H W image size, P side of a patch, h w patches, R registers, T = 1 + R + h w tokens, D their width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import Backbone, check_strides
from suites.vision.backbones.naming import conv, joined, layer_norm, linear
from suites.vision.backbones.staged import chosen

# size -> D, blocks, heads
SIZES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
_EPS = 1e-6
_EXPANSION = 4
_PYRAMID = (4, 8, 16, 32)
_CELL = 16  # pixels of a patch that a pyramid is made of
_BY_HAND = init.TruncatedNormal(0.02)


@register("backbone")
class ViT(Backbone):
    """Patches as tokens, blocks of attention and two linear layers, norms first.

    Images of any size will do: the learnt positions are interpolated (bicubic) to the h x w patches at hand. Asked for
    the one stride P it gives the patches' tokens [N, h, w, D] behind the last norm. Asked for others it gives a simple
    pyramid of them, as ViTDet's: transposed convolutions and poolings of the last map, each with a 1x1 and a 3x3
    convolution and layer norms; where P is not 16, the image is scaled so that a patch stands for 16 pixels.

    Args:
        size: "tiny", "small", "base" or "large".
        patch: P.
        image_size: side of the images of which the positions were learnt, in pixels.
        out_strides: (P,), or strides out of 4, 8, 16, 32 for a pyramid, which is new: no published file has one.
        freeze_at: how much is not trained: 0 nothing, 1 what makes tokens, 2 to 5 also a quarter of the blocks each.
        pretrained: name or file of published weights, such as vit_b_16_imagenet; see docs/howto/pretrained.md.
        pyramid_width: channels of the pyramid's maps.
        registers: R, learnt tokens without a position.
        layer_scale: each branch has a learnt factor a channel.
        class_position: the class token has a position too; timm's networks with registers have none.
        blocks: number of blocks; the size's own when None.
        norm_eps: of the layer norms; transformers' ViT has 1e-12.
    """

    schemes: tuple[str, ...] = ("torchvision", "torchvision_old", "timm", "transformers")
    new_tensors: ClassVar[tuple[str, ...]] = ("pyramid.",)
    cls: Tensor
    positions: Tensor

    def __init__(
        self,
        size: Literal["tiny", "small", "base", "large"] = "base",
        patch: int = 16,
        image_size: int = 224,
        out_strides: tuple[int, ...] = (16,),
        freeze_at: int = 0,
        pretrained: str | None = None,
        pyramid_width: int = 256,
        registers: int = 0,
        layer_scale: bool = False,
        class_position: bool = True,
        blocks: int | None = None,
        norm_eps: float = _EPS,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if size not in SIZES or patch < 1 or image_size < patch:
            raise AttributeValueError(
                f"{who}: size is {size!r}, patch {patch}, image_size {image_size}; size must be one of {[*SIZES]}, "
                "and an image holds a patch at least"
            )
        self.dim, count, heads = SIZES[size]
        self._flat = tuple(out_strides) == (patch,)
        self.strides = (patch,) if self._flat else check_strides(who, out_strides, _PYRAMID)
        self.channels = (self.dim,) if self._flat else (pyramid_width,) * len(self.strides)
        self._scale = 1.0 if self._flat else patch / _CELL
        self._side, self._before = image_size // patch, 1 + registers
        self._classed = class_position
        self.patches = nn.Conv2d(3, self.dim, patch, patch, padding=0)
        self.add_parameter("cls", (1, 1, self.dim), _BY_HAND)
        self.add_parameter("positions", (1, self._side**2 + class_position, self.dim), _BY_HAND)
        self.registers: Tensor | None = None
        if registers:
            self.add_parameter("registers", (1, registers, self.dim), _BY_HAND)
        count = count if blocks is None else blocks
        self.blocks = nn.LayerList(_Block(self.dim, heads, layer_scale, norm_eps) for _ in range(count))
        self.norm = nn.LayerNorm(self.dim, norm_eps)
        self.pyramid: nn.LayerList | None = None
        if not self._flat:
            self.pyramid = nn.LayerList(_level(self.dim, pyramid_width, stride) for stride in self.strides)
        self.finish(freeze_at, pretrained=pretrained)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [N, H, W, 3]; maps [N, H/s, W/s, C_s]."""
        if self._scale != 1.0:
            x = ops.resize_bilinear(x, scale=(self._scale, self._scale))
        map_ = self._map(*self._tokens(x))
        return [map_] if self.pyramid is None else [level(map_) for level in self.pyramid]

    def before_top(self, x: Tensor) -> Tensor:
        """The class token [N, D], behind the last norm."""
        return self._tokens(x)[0][:, 0]

    def top(self) -> tuple[nn.Layer, int]:
        """Nothing: the class token is classified as it is."""
        return nn.Sequential(), self.dim

    def parts(self) -> Sequence[Sequence[nn.Layer]]:
        """What makes tokens, then the blocks in quarters; the norm and the pyramid with the last."""
        blocks = list(self.blocks)
        quarters = [blocks[len(blocks) * i // 4 : len(blocks) * (i + 1) // 4] for i in range(4)]
        behind = [self.norm] if self.pyramid is None else [self.norm, self.pyramid]
        return [[_Leaves(self)], *quarters[:3], [*quarters[3], *behind]]

    def _tokens(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens [N, T, D] behind the last norm, and a map [N, h, w, D] of the patches' shape."""
        cells = self.patches(x)
        first = int(self._classed)
        grid = ops.reshape(self.positions[:, first:], shape=(1, self._side, self._side, self.dim))
        patches = ops.flatten(cells + ops.resize_bicubic(grid, cells), start=1, end=2)
        cls = self.cls + self.positions[:, :1] if self._classed else self.cls
        learnt = cls if self.registers is None else ops.concat([cls, self.registers], axis=1)
        spread = learnt + ops.full_like(patches[:, :1], 0.0)  # [N, 1 + R, D]
        tokens = ops.concat([spread, patches], axis=1)
        length = ops.extent(tokens, axis=1)
        ends = (ops.positions(tokens, axis=0) + 1) * length
        offsets = ops.concat([ends[:1] - length, ends], axis=0)  # [N + 1]
        rows = ops.flatten(tokens, start=0, end=1)
        for block in self.blocks:
            rows = block(rows, offsets)
        return ops.reshape_like(self.norm(rows), tokens), cells

    def _map(self, tokens: Tensor, cells: Tensor) -> Tensor:
        return ops.reshape_like(tokens[:, self._before :], cells)

    def names_in(self, scheme: str) -> Names:
        """Names of torchvision, of its first files, of timm, transformers or, for DINOv2, its authors."""
        first, block, last = _NAMES[scheme]
        patches, cls, positions, registers = first
        names = {**conv("patches", patches, bias=True), **layer_norm("norm", last)}
        names |= {"cls": Source((cls,)), "positions": Source((positions,)), "registers": Source((registers,))}
        for i in range(len(self.blocks)):
            names |= _block_names(f"blocks.{i}", block.format(i), scheme)
        return chosen(self, names, self.top_names(scheme), (r"(^|\.)mask_token$", r"^pooler\."))

    def place_in(self, scheme: str) -> str:
        """Transformers' classifiers have it under the model's name."""
        return "vit." if scheme == "transformers" else ""

    def top_names(self, scheme: str) -> Names:
        """Of the linear layer."""
        return Names(linear("fc", _HEADS[scheme]))


@register("backbone")
class DINOv2(ViT):
    """DINOv2's vision transformers: patches of 14 pixels, a factor for each branch, with and without registers.

    Its classifiers see the class token and the mean of the patches' tokens, side by side.
    Positions of other image sizes than the learnt one are interpolated as transformers does; its authors' network
    with registers smooths them in another way, by which tokens differ in about half a percent.

    Args:
        size: "small", "base" or "large".
        registers: 0 or 4.
        out_strides: see `ViT`; (14,) gives the tokens as they are.
        freeze_at: see `ViT`.
        pretrained: name or file of published weights, such as dinov2_vits14; see docs/howto/pretrained.md.
        pyramid_width: see `ViT`.
        image_size: side of the images of which the positions were learnt, in pixels.
        class_position: see `ViT`.
        blocks: see `ViT`.
    """

    schemes: tuple[str, ...] = ("dinov2", "timm", "transformers_dinov2")

    def __init__(
        self,
        size: Literal["small", "base", "large"] = "small",
        registers: int = 0,
        out_strides: tuple[int, ...] = (14,),
        freeze_at: int = 0,
        pretrained: str | None = None,
        pyramid_width: int = 256,
        image_size: int = 518,
        class_position: bool = True,
        blocks: int | None = None,
    ) -> None:
        super().__init__(
            size,
            14,
            image_size,
            out_strides,
            freeze_at,
            pretrained,
            pyramid_width,
            registers,
            True,
            class_position,
            blocks,
        )

    def before_top(self, x: Tensor) -> Tensor:
        """The class token and the mean of the patches' [N, 2 D], behind the last norm."""
        tokens, _ = self._tokens(x)
        return ops.concat([tokens[:, 0], ops.mean(tokens[:, self._before :], axes=1)], axis=1)

    def place_in(self, scheme: str) -> str:
        """Transformers' classifiers have it under the model's name."""
        if scheme != "transformers_dinov2":
            return ""
        return "dinov2_with_registers." if self._before > 1 else "dinov2."

    def top(self) -> tuple[nn.Layer, int]:
        """Nothing: both are classified as they are."""
        return nn.Sequential(), 2 * self.dim


# What a scheme calls patches, class token, positions and registers; a block; the last norm.
_NAMES = {
    "torchvision": (
        ("conv_proj", "class_token", "encoder.pos_embedding", "registers"),
        "encoder.layers.encoder_layer_{}",
        "encoder.ln",
    ),
    "timm": (("patch_embed.proj", "cls_token", "pos_embed", "reg_token"), "blocks.{}", "norm"),
    "dinov2": (("patch_embed.proj", "cls_token", "pos_embed", "register_tokens"), "blocks.{}", "norm"),
    "transformers": (
        (
            "embeddings.patch_embeddings.projection",
            "embeddings.cls_token",
            "embeddings.position_embeddings",
            "embeddings.register_tokens",
        ),
        "encoder.layer.{}",
        "layernorm",
    ),
}
_NAMES["torchvision_old"], _NAMES["transformers_dinov2"] = _NAMES["torchvision"], _NAMES["transformers"]
_HEADS = {
    "torchvision": "heads.head", "torchvision_old": "heads.head", "timm": "head", "dinov2": "linear_head",
    "transformers": "classifier", "transformers_dinov2": "classifier",
}  # fmt: skip
# Norms, attention's output, both linear layers, factors.
_TIMM_BLOCK = ("norm1", "norm2", "attn.proj", "mlp.fc1", "mlp.fc2", "ls1.gamma", "ls2.gamma")
_BLOCKS = {
    "torchvision": ("ln_1", "ln_2", "self_attention.out_proj", "mlp.0", "mlp.3", "ls1", "ls2"),
    "torchvision_old": ("ln_1", "ln_2", "self_attention.out_proj", "mlp.linear_1", "mlp.linear_2", "ls1", "ls2"),
    "timm": _TIMM_BLOCK,
    "dinov2": _TIMM_BLOCK,
    "transformers": (
        "layernorm_before", "layernorm_after", "attention.output.dense", "intermediate.dense", "output.dense", "", "",
    ),
    "transformers_dinov2": (
        "norm1", "norm2", "attention.output.dense", "mlp.fc1", "mlp.fc2", "layer_scale1.lambda1",
        "layer_scale2.lambda1",
    ),
}  # fmt: skip


def _block_names(ours: str, theirs: str, scheme: str) -> dict[str, Source]:
    norm1, norm2, out, up, down, scale1, scale2 = (f"{theirs}.{name}" for name in _BLOCKS[scheme])
    names = {**layer_norm(f"{ours}.norm1", norm1), **layer_norm(f"{ours}.norm2", norm2)}
    names |= linear(f"{ours}.attention.out", out) | linear(f"{ours}.up", up) | linear(f"{ours}.down", down)
    names |= {f"{ours}.scale1": Source((scale1,)), f"{ours}.scale2": Source((scale2,))}
    qkv = f"{ours}.attention.qkv"
    if scheme.startswith("torchvision"):
        attention = f"{theirs}.self_attention.in_proj_"
        return names | {f"{qkv}.{leaf}": Source((attention + leaf,)) for leaf in ("weight", "bias")}
    if scheme.startswith("transformers"):
        return names | joined(qkv, [f"{theirs}.attention.attention.{part}" for part in ("query", "key", "value")])
    return names | linear(qkv, f"{theirs}.attn.qkv")


class _Leaves(nn.Layer):
    """The parameters of a layer itself and of its patches, as one part for `freeze_at`."""

    def __init__(self, owner: ViT) -> None:
        super().__init__()
        self.patches = owner.patches
        for name in ("cls", "positions", "registers"):
            setattr(self, name, getattr(owner, name))


class _Block(nn.Layer):
    """x + scale1 * attention(norm1(x)), then + scale2 * down(gelu(up(norm2(x)))).  x, y: [N * T, D]."""

    def __init__(self, dim: int, heads: int, scaled: bool, eps: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps), nn.LayerNorm(dim, eps)
        self.attention = nn.MultiHeadAttention(dim, heads, initializer=_BY_HAND)
        self.up = nn.Linear(dim, _EXPANSION * dim, initializer=_BY_HAND)
        self.down = nn.Linear(_EXPANSION * dim, dim, initializer=_BY_HAND)
        self.scale1: Tensor | None = None
        self.scale2: Tensor | None = None
        if scaled:
            self.add_parameter("scale1", (dim,), init.Constant(1.0))
            self.add_parameter("scale2", (dim,), init.Constant(1.0))

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """x, y: [N * T, D]; offsets: [N + 1]."""
        y = self.attention(self.norm1(x), offsets)
        x = x + (y if self.scale1 is None else y * self.scale1)
        y = self.down(ops.gelu(self.up(self.norm2(x))))
        return x + (y if self.scale2 is None else y * self.scale2)


class _Conv(nn.Layer):
    """Convolution without bias and a layer norm.  x: [N, H, W, C], y: [N, H, W, K]."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, bias=False)
        self.norm = nn.LayerNorm(out_channels, _EPS)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, K]."""
        return self.norm(self.conv(x))


class _Doubled(nn.Layer):
    """A transposed convolution of 2 x 2.  x: [N, H, W, C], y: [N, 2 H, 2 W, K]."""

    weight: Tensor
    bias: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.add_parameter("weight", (in_channels, 2, 2, out_channels), init.Normal((in_channels) ** -0.5))
        self.add_parameter("bias", (out_channels,), init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, 2 H, 2 W, K]."""
        return ops.conv2d_transpose(x, self.weight, self.bias, stride=2)


def _level(dim: int, width: int, stride: int) -> nn.Sequential:
    """A map of stride 16 to one of `stride`, [N, h, w, D] to [N, H/stride, W/stride, width]."""
    seen, scaled = dim, list[nn.Layer]()
    if stride < _CELL:
        seen = dim // 2
        scaled.append(_Doubled(dim, seen))
    if stride < _CELL // 2:
        scaled += [nn.LayerNorm(seen, _EPS), nn.Activation("gelu"), _Doubled(seen, seen // 2)]
        seen //= 2
    if stride > _CELL:
        scaled.append(nn.MaxPool2d(2))
    return nn.Sequential(*scaled, _Conv(seen, width, 1), _Conv(width, width, 3))
