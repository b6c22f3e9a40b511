"""What a network learns from another beside its own loss: the section `distil.losses` of a config.

Each lesson compares what layers of the student give with what layers of the teacher give, whatever the task. Letters:
N samples, H W height and width, K classes, C channels of the student, D of the teacher.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from framework import Tensor, nn, ops
from framework.errors import AttributeValueError, ConfigError

Shape = tuple[int, ...]


@dataclass(kw_only=True)
class Lesson(ABC):
    """Base of what is learnt from a teacher.

    Args:
        layers: Paths of the teacher's layers by those of the student's; "" is the network itself. A layer that is
            called several times, such as a head that all levels share, is compared call by call.
        weight: Of the term.
    """

    layers: dict[str, str]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.layers:
            raise AttributeValueError(f"{type(self).__name__}: layers is empty; name layers, {{student's: teacher's}}")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise AttributeValueError(f"{type(self).__name__}: weight is {self.weight}; it must be above 0")

    @abstractmethod
    def helpers(self, pairs: Sequence[tuple[Shape, Shape]]) -> nn.Layer:
        """Layers that only the lesson needs, for pairs of what the student and the teacher give.

        Raises ConfigError where the shapes cannot be compared.
        """

    @abstractmethod
    def term(self, pairs: Sequence[tuple[Tensor, Tensor]], helpers: nn.Layer) -> Tensor:
        """The term without its weight, a scalar: a mean over pairs, samples and places."""


def _expect(ok: bool, name: str, number: int, pair: tuple[Shape, Shape], rule: str) -> None:
    if not ok:
        raise ConfigError(
            f"{name}: pair {number}: the student's layer gives {list(pair[0])} and the teacher's {list(pair[1])}; "
            f"{rule}"
        )


def _mean(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total / float(len(terms))


@dataclass(kw_only=True)
class Logits(Lesson):
    """Probabilities of the same classes (Hinton et al. 2015), place by place where there are several.

    The divergence KL(teacher || student) of both sides' classes at `temperature`, times its square.

    Args:
        temperature: That logits are divided by.
        activation: "softmax" of classes that exclude each other, "sigmoid" of those that do not, "none" for the squared
            difference of the numbers themselves (Ba and Caruana 2014).
        classes: K, of a dense head that has several times K channels, such as one for each anchor; null for all.
    """

    temperature: float = 1.0
    activation: Literal["softmax", "sigmoid", "none"] = "softmax"
    classes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise AttributeValueError(f"Logits: temperature is {self.temperature}; it must be above 0")
        if self.classes is not None and self.classes < 1:
            raise AttributeValueError(f"Logits: classes is {self.classes}; it must be 1 or more, or null")

    def helpers(self, pairs: Sequence[tuple[Shape, Shape]]) -> nn.Layer:
        """None are needed."""
        for number, pair in enumerate(pairs):
            _expect(
                pair[0] == pair[1], "Logits", number, pair, "both must be alike: the same classes at as many places"
            )
            count = pair[0][-1]
            _expect(
                not count % (self.classes or count), "Logits", number, pair, f"classes {self.classes} divides neither"
            )
        return nn.LayerList()

    def term(self, pairs: Sequence[tuple[Tensor, Tensor]], helpers: nn.Layer) -> Tensor:
        """x: [..., K] or [..., A K] each."""
        return _mean([self._apart(ours, theirs) for ours, theirs in pairs]) * self.temperature**2

    def _apart(self, ours: Tensor, theirs: Tensor) -> Tensor:
        ours, theirs = ours / self.temperature, theirs / self.temperature
        if self.activation == "none":
            return ops.mean(ops.square(ours - theirs))
        if self.activation == "sigmoid":
            yes = ops.sigmoid(theirs) * (ops.log_sigmoid(theirs) - ops.log_sigmoid(ours))
            no = ops.sigmoid(-theirs) * (ops.log_sigmoid(-theirs) - ops.log_sigmoid(-ours))
            return ops.mean(yes + no)
        if self.classes is not None:
            ours, theirs = (ops.reshape(x, shape=(-1, self.classes)) for x in (ours, theirs))
        log = ops.log_softmax(theirs)
        return ops.mean(ops.sum(ops.exp(log) * (log - ops.log_softmax(ours)), axes=(-1,)))


def _same_places(pairs: Sequence[tuple[Shape, Shape]], name: str) -> None:
    for number, pair in enumerate(pairs):
        rule = "all but the channels must agree: name layers of one stride"
        _expect(len(pair[0]) >= 2 and pair[0][:-1] == pair[1][:-1], name, number, pair, rule)


def _adapters(pairs: Sequence[tuple[Shape, Shape]], *, always: bool) -> nn.LayerList:
    """For each pair a 1x1 convolution from the student's channels to the teacher's; nothing where they agree."""
    needed = [always or ours[-1] != theirs[-1] for ours, theirs in pairs]
    widths = [(ours[-1], theirs[-1]) for ours, theirs in pairs]
    return nn.LayerList(nn.Linear(*w) if n else nn.Sequential() for w, n in zip(widths, needed, strict=True))


@dataclass(kw_only=True)
class Features(Lesson):
    """What layers give, the mean squared difference (FitNets, Romero et al. 2015).

    Where widths differ a 1x1 convolution stands between, which is trained but no part of the student.

    Args:
        adapt: Have such a convolution where the widths agree too.
    """

    adapt: bool = False

    def helpers(self, pairs: Sequence[tuple[Shape, Shape]]) -> nn.Layer:
        """The convolutions."""
        _same_places(pairs, "Features")
        return _adapters(pairs, always=self.adapt)

    def term(self, pairs: Sequence[tuple[Tensor, Tensor]], helpers: nn.Layer) -> Tensor:
        """x: [..., C] and [..., D]."""
        return _mean([ops.mean(ops.square(f(x) - y)) for f, (x, y) in zip(helpers.children, pairs, strict=True)])


@dataclass(kw_only=True)
class FSP(Lesson):
    """How what one layer gives becomes what the next one gives (Yim et al. 2017): the mean squared difference of Gram
    matrices G = x1^T x2 / (H W) between each two layers in the order of `layers`.

    The two must have one height and width. Where the student's channels are others, 1x1 convolutions stand between.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.layers) < 2:
            raise AttributeValueError("FSP: layers names one; it compares how one layer leads to the next, so name two")

    def helpers(self, pairs: Sequence[tuple[Shape, Shape]]) -> nn.Layer:
        """The convolutions."""
        _same_places(pairs, "FSP")
        for number, (before, after) in enumerate(itertools.pairwise(pairs), start=1):
            rule = f"the layer before it has {list(before[0])}: all must have one height and width; name a block's ends"
            _expect(len(after[0]) == 4 and before[0][:-1] == after[0][:-1], "FSP", number, after, rule)
        return _adapters(pairs, always=False)

    def term(self, pairs: Sequence[tuple[Tensor, Tensor]], helpers: nn.Layer) -> Tensor:
        """x: [N, H, W, C] and [N, H, W, D]."""
        flat = [
            (ops.flatten(f(x), start=1, end=2), ops.flatten(y, start=1, end=2))
            for f, (x, y) in zip(helpers.children, pairs, strict=True)
        ]
        grams = [(_gram(a[0], b[0]), _gram(a[1], b[1])) for a, b in itertools.pairwise(flat)]
        return _mean([ops.mean(ops.square(ours - theirs)) for ours, theirs in grams])


def _gram(a: Tensor, b: Tensor) -> Tensor:
    """[N, C1, C2] of two layers, [N, H W, C1] and [N, H W, C2]."""
    return ops.matmul(a, b, transpose_a=True) / ops.cast(ops.extent(a, axis=1), "float32")


class _Generator(nn.Layer):
    """Makes the teacher's features of the student's, of which places are hidden."""

    def __init__(self, channels: int, wanted: int, hidden: float) -> None:
        super().__init__()
        self.adapter = nn.Linear(channels, wanted)
        self.mask = nn.Dropout(hidden)
        self.first, self.second = nn.Conv2d(wanted, wanted, 3), nn.Conv2d(wanted, wanted, 3)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, H, W, D]."""
        x = self.adapter(x)
        places = ops.full_like(ops.sum(x.detach(), axes=(-1,), keepdims=True), value=1.0 - self.mask.p)
        return self.second(ops.relu(self.first(x * self.mask(places))))  # ones and zeros


@dataclass(kw_only=True)
class MaskedFeatures(Lesson):
    """Making the teacher's features from the student's, of which places are hidden at random (MGD, Yang et al. 2022).

    A 1x1 convolution and two 3x3 ones with relu between, which are trained but no part of the student.

    Args:
        hidden: Share of the places; the paper has 0.5 for classification and 0.65 and 0.75 for dense heads.
    """

    hidden: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.hidden < 1:
            raise AttributeValueError(f"MaskedFeatures: hidden is {self.hidden}; it is a share, below 1")

    def helpers(self, pairs: Sequence[tuple[Shape, Shape]]) -> nn.Layer:
        """The convolutions."""
        _same_places(pairs, "MaskedFeatures")
        for number, pair in enumerate(pairs):
            _expect(len(pair[0]) == 4, "MaskedFeatures", number, pair, "both must be maps [N, H, W, C]")
        return nn.LayerList(_Generator(ours[-1], theirs[-1], self.hidden) for ours, theirs in pairs)

    def term(self, pairs: Sequence[tuple[Tensor, Tensor]], helpers: nn.Layer) -> Tensor:
        """x: [N, H, W, C] and [N, H, W, D]."""
        return _mean([ops.mean(ops.square(f(x) - y)) for f, (x, y) in zip(helpers.children, pairs, strict=True)])
