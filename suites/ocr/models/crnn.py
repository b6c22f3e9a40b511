"""CRNN: convolutions that leave one row, recurrent layers along it, a linear layer (Shi et al. 2015, arXiv:1507.05717).

Letters: N lines, T columns, C channels, D hidden units, K characters with the blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from framework import nn, ops, tensor
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import ClassRows, Names, Source, start_from
from suites.ocr.alphabet import Alphabet
from suites.ocr.models.base import TextRecogniser
from suites.ocr.models.svtr import drawn_line
from suites.vision.backbones.naming import conv, linear, norm

_PAPER = (64, 128, 256, 256, 512, 512, 512)
_BLUE, _GREEN, _RED = 0.114, 0.587, 0.299  # of grey
# Of each convolution: whether it has a batch norm, and the step of the largest values behind it.
_PLAN = ((False, (2, 2)), (False, (2, 2)), (False, None), (False, (2, 1)), (True, None), (True, (2, 1)), (False, None))
_EASYOCR = (0, 3, 6, 8, 11, 14, 18)  # numbers of the convolutions in EasyOCR's network
_HEIGHTS = (32, 64)


class Along(nn.Layer):
    """An LSTM in both directions and a linear layer.  x: [N, T, C], y: [N, T, D].

    Args:
        in_features: C.
        hidden: D.
    """

    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(in_features, hidden, bidirectional=True)
        self.linear = nn.Linear(2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, C]; y: [N, T, D]."""
        rows = ops.flatten(x, start=0, end=1)
        ends = (ops.positions(x, axis=0) + 1) * ops.extent(x, axis=1)
        y, _ = self.lstm(rows, ops.pad(ends, pads=(1, 0)))
        return self.linear(ops.unflatten_like(y, x, axis=0, start=0, end=1))


@register("text_model")
class Crnn(TextRecogniser):
    """Seven convolutions, two layers of LSTM in both directions, a linear layer; lines are grey.

    Args:
        alphabet: the characters, see `Alphabet.of`.
        height: 32, as in the paper, or 64, of which the mean of the last rows is taken.
        channels: of the seven convolutions; the paper's by default.
        hidden: D.
        all_norms: a batch norm behind each convolution, not behind the two of the paper alone; it learns faster so.
        pretrained: name or file of published weights; EasyOCR's english_g2 has height 64, the alphabet english_g2 and
            channels [32, 64, 128, 128, 256, 256, 256]. With another alphabet the rows of shared characters are taken.
    """

    schemes: tuple[str, ...] = ("easyocr",)
    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.",)
    published: ClassVar[Mapping[str, str]] = {"easyocr": "english_g2"}
    step = 4
    lost = 1

    def __init__(
        self,
        alphabet: str = "english",
        height: int = 32,
        channels: Sequence[int] = _PAPER,
        hidden: int = 256,
        all_norms: bool = False,
        pretrained: str | None = None,
    ) -> None:
        super().__init__()
        if height not in _HEIGHTS or len(channels) != len(_PLAN) or min(channels) < 1:
            raise AttributeValueError(
                f"Crnn: height is {height} and channels {list(channels)}; needed are 32 or 64, and {len(_PLAN)} numbers"
            )
        self.alphabet, self.height = Alphabet.of(alphabet), height
        convs: list[nn.Layer] = []
        norms: list[nn.Layer] = []
        width = 1
        for (own, _), out in zip(_PLAN, channels, strict=True):
            normed = own or all_norms
            last = len(convs) == len(_PLAN) - 1
            kernel, padding = (2, 0) if last else (3, 1)
            convs.append(nn.Conv2d(width, out, kernel, padding=padding, bias=not normed))
            norms.append(nn.BatchNorm(out) if normed else nn.Activation("none"))
            width = out
        self.convs, self.norms = nn.LayerList(convs), nn.LayerList(norms)
        self.along = nn.LayerList([Along(width, hidden), Along(hidden, hidden)])
        self.fc = nn.Linear(hidden, self.alphabet.classes)
        start_from(self, pretrained)

    def forward(self, lines: Tensor) -> Tensor:
        """Logits [N, W/4 - 1, K] of lines [N, height, W, 3], blue, green and red."""
        return self.fc(self.features(lines))

    def features(self, lines: Tensor) -> Tensor:
        """[N, W/4 - 1, hidden] of lines [N, height, W, 3]."""
        x = ops.matmul(lines, tensor(np.array([[_BLUE], [_GREEN], [_RED]], np.float32)))
        for (_, step), conv_, norm_ in zip(_PLAN, self.convs, self.norms, strict=True):
            x = ops.relu(norm_(conv_(x)))
            x = x if step is None else ops.max_pool2d(x, kernel=step, stride=step)
        y = ops.mean(x, axes=(1,))
        for layer in self.along:
            y = layer(y)
        return y

    def class_rows(self) -> dict[str, ClassRows]:
        """The blank's row, then one a character."""
        return {r"^fc\.": ClassRows(before=1)}

    def names_in(self, scheme: str) -> Names:
        """EasyOCR's names of its second generation."""
        names: dict[str, Source] = {}
        for k, ((normed, _), number) in enumerate(zip(_PLAN, _EASYOCR, strict=True)):
            place = f"FeatureExtraction.ConvNet.{number}"
            names |= conv(f"convs.{k}", place, bias=not normed)
            names |= norm(f"norms.{k}", f"FeatureExtraction.ConvNet.{number + 1}") if normed else {}
        for k in range(len(self.along)):
            names |= _lstm(f"along.{k}.lstm.layers.0", f"SequenceModeling.{k}.rnn")
            names |= linear(f"along.{k}.linear", f"SequenceModeling.{k}.linear")
        return Names({**names, **linear("fc", "Prediction")})

    def answers(self) -> dict[str, np.ndarray]:
        """The probability of the blank in each column of a drawn line; see `suites.engine.weights.answers`."""
        return {"characters": ops.softmax(self(drawn_line(self.height)), axis=-1).numpy()[0, :, 0]}


def _lstm(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a layer of PyTorch's LSTM in both directions, which has two biases where ours has their sum."""
    each = ("", "_reverse")
    biases = tuple(f"{theirs}.bias_{kind}_l0{end}" for end in each for kind in ("ih", "hh"))
    return {
        f"{ours}.weight_x": Source(tuple(f"{theirs}.weight_ih_l0{end}" for end in each)),
        f"{ours}.weight_h": Source(tuple(f"{theirs}.weight_hh_l0{end}" for end in each), stacked=True),
        f"{ours}.bias": Source(biases, summed=2),
    }
