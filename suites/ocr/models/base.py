"""What networks of text share: what each kind gives, and PaddleOCR's squeeze and excitation.

Letters: N batch, H W size of an image, T columns that a recogniser sees of a line, K characters with the blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register_role
from suites.engine.weights import Source
from suites.ocr.alphabet import Alphabet
from suites.ocr.losses import ctc
from suites.ocr.pixels import MOST_COLUMNS
from suites.vision.backbones.naming import CONV_AXES
from suites.vision.backbones.squeeze import SqueezeExcite


class TextModel(nn.Layer):
    """A network of text: one that finds lines, one that tells which way up they are, one that reads them, or all."""


class TextDetector(TextModel):
    """Images [N, H, W, 3], H and W multiples of `multiple`, to the probability of text, [N, H, W], in evaluation mode.

    Or to maps of characters and links, [N, H', W', 2]; see `Finding`.

    Attributes:
        multiple: what the sides of images have to be multiples of.
    """

    multiple: int = 32


class DirectionClassifier(TextModel):
    """Lines [N, H, W, 3] to the logits [N, 2] of being upright and of being upside down."""


class TextRecogniser(TextModel):
    """Lines [N, H, W, 3] to logits [N, T, K] of each column, for CTC; class 0 is the blank.

    Attributes:
        alphabet: its characters; K is one more.
        height: H that it takes.
        step: pixels of a column.
        lost: columns that are lost at the ends: T is W / step - lost, W a multiple of 8.
        widest: W that it takes at most; a line that is wider is squeezed.
        fc: the last layer, of `features`.
        published: the alphabet of published weights, by the scheme of their names.
    """

    published: ClassVar[Mapping[str, str]] = {}
    alphabet: Alphabet
    height: int
    step: int
    lost: int = 0
    widest: int = MOST_COLUMNS
    fc: nn.Linear

    def features(self, lines: Tensor) -> Tensor:
        """What the last layer is given of lines [N, H, W, 3]: [N, T, C]."""
        raise NotImplementedError(f"{type(self).__name__} defines no features()")

    def class_names_in(self, scheme: str) -> tuple[Sequence[str], Sequence[str]]:
        """The characters of its classes, and those of published weights, so that shared ones keep their rows."""
        theirs = self.published.get(scheme)
        return self.alphabet.characters, () if theirs is None else Alphabet.of(theirs).characters

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """What is minimised, by name: CTC; see `suites.ocr.losses.ctc`."""
        return {"ctc": ctc(self(inputs["lines"]), inputs)}

    def read(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable class of each column, int64 [N, T], and its probability [N, T]."""
        found = ops.softmax(self(lines), axis=-1)
        return ops.argmax(found, axis=-1), ops.max(found, axes=(-1,))


register_role("text_model", TextModel, doc="A network of text.")


class GentleSqueeze(SqueezeExcite):
    """Squeeze and excitation whose factors are clip(0.2 x + 0.5, 0, 1): Paddle's hard sigmoid.  x, y: [N, H, W, C].

    Args:
        channels: C.
        hidden: channels between the two 1x1 convolutions.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__(channels, hidden)
        self._gate = _gentle


def _gentle(x: Tensor) -> Tensor:
    return ops.clip(x * 0.2 + 0.5, min=0.0, max=1.0)


def conv_source(ours: str, theirs: str, *, bias: bool = True) -> dict[str, Source]:
    """Names of a `Conv2d` in an exported Paddle model."""
    found = {f"{ours}.weight": Source((f"{theirs}.w_0",), CONV_AXES)}
    return {**found, f"{ours}.bias": Source((f"{theirs}.b_0",))} if bias else found


def norm_source(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a `BatchNorm` in an exported Paddle model."""
    leaves = (("scale", "w_0"), ("bias", "b_0"), ("running_mean", "w_1"), ("running_var", "w_2"))
    return {f"{ours}.{leaf}": Source((f"{theirs}.{name}",)) for leaf, name in leaves}


def linear_source(ours: str, theirs: str) -> dict[str, Source]:
    """Names of a `Linear` in an exported Paddle model, whose weights are [in, out]."""
    return {f"{ours}.weight": Source((f"{theirs}.w_0",), (1, 0)), f"{ours}.bias": Source((f"{theirs}.b_0",))}


def squeeze_source(ours: str, theirs: int) -> dict[str, Source]:
    """Names of a `SqueezeExcite` whose convolutions have the numbers `theirs` and the next."""
    return {**conv_source(f"{ours}.down", f"conv2d_{theirs}"), **conv_source(f"{ours}.up", f"conv2d_{theirs + 1}")}
