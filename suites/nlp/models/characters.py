"""Vectors of words from their characters: convolutions, the largest value over the word, highway layers.

Letters: T tokens, L characters of a token, C width of a character's vector, K filters, W width of a word's vector.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from framework import nn, ops
from framework.errors import AttributeValueError, ShapeError
from framework.tensors import Tensor
from suites.nlp.tokenizers.characters import RESERVED


@dataclass(kw_only=True)
class CharacterLayers:
    """How a word's vector is made of its characters; without them BiDAF's (Seo et al. 2017).

    Args:
        rows: characters that have a vector, `${data.characters.max_size}`.
        width: C, of a character's vector.
        filters: width and number of each kind of filter, such as `[[1, 32], [2, 32], [3, 64]]`; K is the sum of the
            numbers.
        activation: of the largest values.
        highway: highway layers on them; 2 in ELMo (Peters et al. 2018), none in BiDAF, which has its own behind.
        dropout: share of the characters' vectors' values that is 0 in training.
    """

    rows: int
    width: int = 16
    filters: list[tuple[int, int]] = field(default_factory=lambda: [(5, 100)])
    activation: Literal["relu", "tanh"] = "relu"
    highway: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        sizes = [size for pair in self.filters for size in pair]
        if self.rows <= len(RESERVED) or self.highway < 0 or not sizes or min(self.width, *sizes) < 1:
            raise AttributeValueError(
                f"characters: rows is {self.rows}, width {self.width}, filters {[list(f) for f in self.filters]} and "
                f"highway {self.highway}; rows must be above {len(RESERVED)}, highway 0 or more, width and the two "
                "numbers of each filter 1 or more, and there must be a filter"
            )

    @property
    def widest(self) -> int:
        """Characters that the widest filter sees."""
        return max(width for width, _ in self.filters)


class Highway(nn.Layer):
    """y = g * relu(x A) + (1 - g) * x with g = sigmoid(x B) (Srivastava et al. 2015).  x, y: [T, W].

    Args:
        width: W.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [T, W]."""
        gate = ops.sigmoid(self.gate(x))
        return gate * ops.relu(self.change(x)) + (1.0 - gate) * x


class CharacterConvolutions(nn.Layer):
    """A vector for each word from its characters (Kim et al. 2016).

    Each filter slides over the L characters, padding too, and its largest value counts, through the activation.

    Args:
        layers: sizes.
    """

    def __init__(self, layers: CharacterLayers) -> None:
        super().__init__()
        self.layers, self.out_features = layers, sum(count for _, count in layers.filters)
        c = layers.width
        self.table = nn.Embedding(layers.rows, c, initializer=nn.init.Normal(c**-0.5))
        self.filters = nn.LayerList(nn.Conv2d(c, count, (1, width), padding=0) for width, count in layers.filters)
        self.highway = nn.LayerList(Highway(self.out_features) for _ in range(layers.highway))
        self.dropout = nn.Dropout(layers.dropout)
        self._activation = {"relu": ops.relu, "tanh": ops.tanh}[layers.activation]

    def forward(self, spelling: Tensor) -> Tensor:
        """spelling: integer [T, L]; result [T, K].

        Raises AttributeValueError where L is below the widest filter.
        """
        x = ops.expand_dims(self.dropout(self.table(spelling)), axis=1)  # [T, 1, L, C]
        try:
            seen = [filters(x) for filters in self.filters]
        except ShapeError:  # looking at the shape before would tie a Program to it
            raise AttributeValueError(
                f"characters: a word has {spelling.shape[1]} characters (axis 1 of {list(spelling.shape)}), but "
                f"the widest filter sees {self.layers.widest}; pad them to so many"
            ) from None
        y = self._activation(ops.concat([ops.max(each, axes=(1, 2)) for each in seen], axis=1))
        for layer in self.highway:
            y = layer(y)
        return y


def read_characters(model: str, layer: CharacterConvolutions | None, spelling: Tensor | None) -> Tensor | None:
    """The words' vectors [T, K]; None where a model reads no characters.

    Raises AttributeValueError where a model reads characters and is given none, or the other way round.
    """
    if layer is None and spelling is None:
        return None
    if layer is None or spelling is None:
        said = "reads characters but was given none" if layer else "was given characters but reads none"
        raise AttributeValueError(f"{model}: {said}; set model.characters and data.characters both, or neither")
    return layer(spelling)
