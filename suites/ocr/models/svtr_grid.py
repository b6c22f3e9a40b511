"""SVTR: a line as a grid of patches, mixed near and far by attention, and made lower in three stages.

Du et al. 2022, arXiv:2205.00159. The form is PaddleOCR's (ppocr/modeling/backbones/rec_svtrnet.py with norms first),
without the network that straightens lines and without stochastic depth. Letters: N lines, H W their size, h w patches
of a grid, D width, T columns, K characters with the blank.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.ocr.alphabet import Alphabet
from suites.ocr.models.base import TextRecogniser

_STAGES = 3
_NEAR = (3, 5)  # rows and columns that a patch sees on either side in a block of local mixing
_PATCH = 4  # pixels of the side of a patch
_MULTIPLE = 16  # of heights: patches, made lower twice
_MLP = 4
_EPS = 1e-6


class Patches(nn.Layer):
    """Two convolutions of step 2.  x: [N, H, W, 3], y: [N, H/4, W/4, D].

    Args:
        dim: D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.ConvBNAct(3, dim // 2, 3, 2, act="gelu")
        self.second = nn.ConvBNAct(dim // 2, dim, 3, 2, act="gelu")

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, 3]; y: [N, H/4, W/4, D]."""
        return self.second(self.first(x))


class MixingBlock(nn.Layer):
    """Attention of each patch to all others or to those around it, then two linear layers; norms before each.

    x, y: [N, h w, D].

    Args:
        dim: D.
        heads: of the attention; it divides D.
        dropout: of what both parts give, in training.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, _EPS)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim, _EPS)
        self.up = nn.Linear(dim, _MLP * dim)
        self.down = nn.Linear(_MLP * dim, dim)
        self.dropout = nn.Dropout(dropout)
        self._dim, self._heads = dim, heads

    def forward(self, x: Tensor, sight: Tensor | None) -> Tensor:
        """x, y: [N, h w, D]; sight: bool [1, 1, h w, h w], which patches see which, or None for all."""
        q, k, v = ops.split(self.qkv(self.norm1(x)), axis=-1, sizes=[self._dim] * 3)
        seen, _ = ops.scaled_dot_product_attention(q, k, v, sight, heads=self._heads)
        x = x + self.dropout(self.out(seen))
        return x + self.dropout(self.down(ops.gelu(self.up(self.norm2(x)))))


@register("text_model")
class Svtr(TextRecogniser):
    """Patches with learnt places, three stages of mixing, the mean over the height, a linear layer.

    By default it is SVTR-tiny: the first six blocks mix near patches, the others all. A line that is wider than
    `widest` is squeezed.

    Args:
        alphabet: the characters, see `Alphabet.of`.
        height: of lines in pixels, a multiple of 16.
        widest: columns of pixels of a line at most, a multiple of 8: so many have learnt places.
        dims: D of the three stages, multiples of the heads.
        depths: blocks of the three stages.
        heads: of each stage.
        local: blocks from the first on that mix near patches only.
        out: width before the last layer.
        dropout: in the blocks and before the last layer, in training.
    """

    step = _PATCH

    def __init__(
        self,
        alphabet: str = "english",
        height: int = 32,
        widest: int = 320,
        dims: Sequence[int] = (64, 128, 256),
        depths: Sequence[int] = (3, 6, 3),
        heads: Sequence[int] = (2, 4, 8),
        local: int = 6,
        out: int = 192,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if height < _MULTIPLE or height % _MULTIPLE or widest < 8 or widest % 8:
            raise AttributeValueError(f"Svtr: height is {height} and widest {widest}; needed are multiples of 16 and 8")
        wrong = not len(dims) == len(depths) == len(heads) == _STAGES
        if wrong or any(dim % head or dim % 2 for dim, head in zip(dims, heads, strict=True)):
            raise AttributeValueError(
                f"Svtr: dims are {list(dims)}, depths {list(depths)} and heads {list(heads)}; needed are three numbers "
                "each, and even dims that are multiples of the heads"
            )
        self.alphabet, self.height, self.widest = Alphabet.of(alphabet), height, widest
        self.patches = Patches(dims[0])
        places = (1, height // _PATCH, widest // _PATCH, dims[0])
        self.add_parameter("places", places, init.Normal(0.02))
        stages = [
            nn.LayerList([MixingBlock(dim, head, dropout) for _ in range(depth)])
            for dim, depth, head in zip(dims, depths, heads, strict=True)
        ]
        self.stages = nn.LayerList(stages)
        pairs = list(itertools.pairwise(dims))
        self.lower = nn.LayerList([nn.Conv2d(one, two, 3, (2, 1)) for one, two in pairs])
        self.norms = nn.LayerList([nn.LayerNorm(two) for _, two in pairs])
        self.norm = nn.LayerNorm(dims[-1], _EPS)
        self.last = nn.Linear(dims[-1], out, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(out, self.alphabet.classes)
        self._local = local

    places: Tensor

    def features(self, lines: Tensor) -> Tensor:
        """[N, W/4, out] of lines [N, height, W, 3], W a multiple of 8 and at most `widest`."""
        x = self.patches(lines)
        x = x + ops.gather(self.places, ops.positions(x, axis=2), axis=2)
        number = 0
        for k, stage in enumerate(self.stages):
            if k:
                x = self.norms[k - 1](self.lower[k - 1](x))
            rows = ops.flatten(x, start=1, end=2)
            sight = _near(x) if number < self._local else None
            for block in stage:  # type: ignore[attr-defined]
                rows = block(rows, sight if number < self._local else None)
                number += 1
            x = ops.unflatten_like(rows, x, axis=1, start=1, end=2)
        y = ops.mean(self.norm(x), axes=(1,))
        return self.dropout(ops.hardswish(self.last(y)))

    def forward(self, lines: Tensor) -> Tensor:
        """Logits [N, W/4, K] of lines [N, height, W, 3]."""
        return self.fc(self.features(lines))


def _near(x: Tensor) -> Tensor:
    """bool [1, 1, h w, h w], which patches of x [N, h, w, D] are near which."""
    near = []
    for axis, most in zip((1, 2), _NEAR, strict=True):
        at = ops.positions(x, axis=axis)
        near.append(ops.abs(ops.expand_dims(at, axis=1) - at) <= most)
    rows = ops.expand_dims(ops.expand_dims(near[0], axis=1), axis=3)  # [h, 1, h, 1]
    columns = ops.expand_dims(ops.expand_dims(near[1], axis=0), axis=2)  # [1, w, 1, w]
    both = ops.flatten(ops.flatten(ops.logical_and(rows, columns), start=2, end=3), start=0, end=1)
    return ops.expand_dims(ops.expand_dims(both, axis=0), axis=0)
