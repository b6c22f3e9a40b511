"""How a table's rows learn: one rule a table, with its state beside each row's value.

g is the sum of a row's gradients in a step, times `grad_scale`; where `weight_decay` is not 0, plus weight_decay *
value. A step touches the rows that were looked up and no others, so weight decay works on those only, except with
`DenseAdam`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from framework.errors import AttributeValueError


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Base of the rules. `lr` is the learning rate where a step is given none."""

    number: ClassVar[int]
    lr: float = 0.01
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name in ("beta1", "beta2"):
                _expect(0 <= value < 1, self, name, value, "lie in [0, 1)")
            elif not isinstance(value, (bool, str)):
                _expect(0 <= value < float("inf"), self, name, value, "be a finite number of at least 0")

    def plain(self) -> dict[str, Any]:
        """Its name and numbers, as a table's files keep them."""
        return {"type": type(self).__name__, **asdict(self)}

    def native(self) -> dict[str, Any]:
        """What the core takes."""
        return _DEFAULTS | {"rule": self.number, "l2": self.weight_decay}


_DEFAULTS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "l1": 0.0, "beta": 1.0, "initial": 0.0}


@dataclass(frozen=True, kw_only=True)
class SGD(Rule):
    """value -= lr * g."""

    number: ClassVar[int] = 0


@dataclass(frozen=True, kw_only=True)
class Adagrad(Rule):
    """sum += g^2; value -= lr * g / (sqrt(sum) + eps), element by element (Duchi et al. 2011).

    Args:
        lr: learning rate.
        weight_decay: L2 penalty on the rows of a step.
        shared: one sum for a row, as Paddle's parameter server has it: value -= lr * g * sqrt(initial / (initial +
            sum)), then sum += mean(g^2). A quarter of Adam's memory at 16 columns; `eps` is not used.
        initial: of the sum; it must be above 0 where it is shared.
        eps: added to the root.
    """

    lr: float = 0.05
    shared: bool = False
    initial: float = 0.1
    eps: float = 1e-10

    number: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect(
            not self.shared or self.initial > 0, self, "initial", self.initial, "be above 0 where the sum is shared"
        )

    def native(self) -> dict[str, Any]:
        """What the core takes."""
        return super().native() | {"rule": 2 if self.shared else 1, "initial": self.initial, "eps": self.eps}


@dataclass(frozen=True, kw_only=True)
class Adam(Rule):
    """Lazy Adam (Kingma and Ba 2015): a row's averages and its bias correction count the row's own updates.

    A row that a step leaves out stands still: see `DenseAdam` for the one that goes on.
    """

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    number: ClassVar[int] = 3

    def native(self) -> dict[str, Any]:
        """What the core takes."""
        return super().native() | {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps}


@dataclass(frozen=True, kw_only=True)
class DenseAdam(Adam):
    """Adam as `framework.optim.Adam` on a table of all keys: also rows without a gradient move by their averages.

    A row makes up for the steps it missed when it is next read, updated or published. They are replayed one by one,
    with the bits of dense Adam, up to the number after which a gradient's share of the average is below 2^-40 (264
    steps with beta1 = 0.9); the rest is one power of each beta. With `weight_decay`, the L2 penalty of published
    figures, all of them are replayed, also of a row that is born late: it costs what dense Adam does. See
    docs/explanation/tables.md.
    """

    number: ClassVar[int] = 4


@dataclass(frozen=True, kw_only=True)
class FTRL(Rule):
    """FTRL-Proximal (McMahan et al. 2013, algorithm 1) with alpha = lr, from any initial value.

    Args:
        lr: alpha.
        weight_decay: lambda 2.
        l1: lambda 1; values with less evidence are 0.
        beta: added to the root of the sum of squares, above 0.
    """

    lr: float = 0.05
    l1: float = 0.0
    beta: float = 1.0

    number: ClassVar[int] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        _expect(self.beta > 0, self, "beta", self.beta, "be above 0")
        _expect(self.lr > 0, self, "lr", self.lr, "be above 0")

    def native(self) -> dict[str, Any]:
        """What the core takes."""
        return super().native() | {"l1": self.l1, "beta": self.beta}


RULES = {rule.__name__: rule for rule in (SGD, Adagrad, Adam, DenseAdam, FTRL)}


def _expect(good: bool, rule: Rule, name: str, value: Any, must: str) -> None:
    if not good:
        raise AttributeValueError(f"{type(rule).__name__}: {name} is {value}; it must {must}")
