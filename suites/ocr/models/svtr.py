"""SVTR-LCNet, PP-OCRv4's recogniser: a convolutional backbone, two blocks of attention along the line, CTC.

Du et al. 2022, arXiv:2205.00159, in the form of PaddleOCR (EncoderWithSVTR). Letters: N lines, T columns, D width,
K characters with the blank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from framework import nn, ops, tensor
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import ClassRows, Names, Source, drawn, start_from
from suites.ocr.alphabet import Alphabet
from suites.ocr.models.base import TextRecogniser, conv_source, linear_source, norm_source
from suites.ocr.models.lcnet import PPLCNetV3
from suites.vision.backbones import Backbone

_BACKBONE_SCALE = 0.95
_EPS = 1e-6  # of the norm behind the blocks
# Paddle's numbers in PP-OCRv4's exported recogniser: convolutions, their batch norms.
_CONVS = {"narrow": (142, 148), "widen": (143, 149), "back": (144, 150), "merge": (145, 151), "last": (146, 152)}
_LINEARS, _NORMS = 77, 43


class LineBlock(nn.Layer):
    """Attention of each column to all of its line, then two linear layers; norms before each.  x, y: [N, T, D].

    Args:
        dim: D.
        heads: of the attention; it divides D.
        hidden: width between the linear layers.
        dropout: of what both parts give, in training.
    """

    def __init__(self, dim: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        self._dim, self._heads = dim, heads

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, T, D]."""
        q, k, v = ops.split(self.qkv(self.norm1(x)), axis=-1, sizes=[self._dim] * 3)
        scale = (self._dim // self._heads) ** -0.5
        seen, _ = ops.scaled_dot_product_attention(q, k, v, heads=self._heads, scale=scale)
        x = x + self.dropout(self.out(seen))
        return x + self.dropout(self.down(ops.silu(self.up(self.norm2(x)))))


@register("text_model")
class SvtrLcnet(TextRecogniser):
    """Backbone of lines, a mean over their height, attention along them beside a shortcut, and a linear layer.

    Args:
        alphabet: the characters, see `Alphabet.of`; "ppocr" are the 6,624 of PP-OCR: Chinese, Latin, digits.
        backbone: lines [N, 48, W, 3] to one map of 3 rows; PPLCNetV3(form="lines", scale=0.95) by default.
        dim: D.
        depth: blocks of attention.
        heads: of each.
        dropout: in the blocks, in training.
        pretrained: name or file of published weights; of another alphabet the rows of shared characters are taken.
    """

    schemes: tuple[str, ...] = ("ppocr",)
    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.",)
    published: ClassVar[Mapping[str, str]] = {"ppocr": "ppocr"}
    height = 48
    step = 8

    def __init__(
        self,
        alphabet: str = "ppocr",
        backbone: Backbone | None = None,
        dim: int = 120,
        depth: int = 2,
        heads: int = 8,
        dropout: float = 0.1,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        self.alphabet = Alphabet.of(alphabet)
        self.backbone = backbone if backbone is not None else PPLCNetV3("lines", _BACKBONE_SCALE)
        channels = self.backbone.channels[-1]
        self.narrow = nn.ConvBNAct(channels, channels // 8, (1, 3), act="silu")
        self.widen = nn.ConvBNAct(channels // 8, dim, 1, act="silu")
        self.blocks = nn.LayerList([LineBlock(dim, heads, 2 * dim, dropout) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, _EPS)
        self.back = nn.ConvBNAct(dim, channels, 1, act="silu")
        self.merge = nn.ConvBNAct(2 * channels, channels // 8, (1, 3), act="silu")
        self.last = nn.ConvBNAct(channels // 8, dim, 1, act="silu")
        self.fc = nn.Linear(dim, self.alphabet.classes)
        start_from(self, pretrained)

    def forward(self, lines: Tensor) -> Tensor:
        """Logits [N, W/8, K] of lines [N, 48, W, 3], W a multiple of 8."""
        return self.fc(self.features(lines))

    def features(self, lines: Tensor) -> Tensor:
        """[N, W/8, dim] of lines [N, 48, W, 3]."""
        x = ops.avg_pool2d(self.backbone(lines)[-1], kernel=(3, 2), stride=(3, 2))
        y = ops.squeeze(self.widen(self.narrow(x)), axis=1)
        for block in self.blocks:
            y = block(y)
        y = self.back(ops.expand_dims(self.norm(y), axis=1))
        y = self.last(self.merge(ops.concat([x, y], axis=-1)))
        return ops.squeeze(y, axis=1)

    def class_rows(self) -> dict[str, ClassRows]:
        """The blank's row, then one a character."""
        return {r"^fc\.": ClassRows(before=1)}

    def names_in(self, scheme: str) -> Names:
        """Names in PP-OCRv4's exported recogniser."""
        sources = self.backbone.names_in(scheme).below("backbone.").sources if scheme in self.backbone.schemes else {}
        names: dict[str, Source] = dict(sources)
        for part, (number, norm) in _CONVS.items():
            names |= conv_source(f"{part}.conv", f"conv2d_{number}", bias=False)
            names |= norm_source(f"{part}.norm", f"batch_norm2d_{norm}")
        linear, norm = _LINEARS, _NORMS
        for k in range(len(self.blocks)):
            for part in ("qkv", "out", "up", "down"):
                names |= linear_source(f"blocks.{k}.{part}", f"linear_{linear}")
                linear += 1
            names |= _layer_norm(f"blocks.{k}.norm1", norm) | _layer_norm(f"blocks.{k}.norm2", norm + 1)
            norm += 2
        names |= _layer_norm("norm", norm) | linear_source("fc", f"linear_{linear}")
        return Names(names, (r"^p2o\.", r"^fill_constant"))

    def answers(self) -> dict[str, np.ndarray]:
        """The probability of the blank in each column of a drawn line; see `suites.engine.weights.answers`."""
        return {"characters": ops.softmax(self(drawn_line(self.height)), axis=-1).numpy()[0, :, 0]}


def _layer_norm(ours: str, number: int) -> dict[str, Source]:
    theirs = f"layer_norm_{number}"
    return {f"{ours}.scale": Source((f"{theirs}.w_0",)), f"{ours}.bias": Source((f"{theirs}.b_0",))}


def drawn_line(height: int, width: int = 64) -> Tensor:
    """float32 [1, height, width, 3] from -1 to 1, the same numbers everywhere."""
    steps = drawn(height * width * 3, below=256).astype(np.float32) / 128 - 1
    return tensor(steps.reshape(1, height, width, 3))
