"""SGD, Momentum, Adam and AdamW over fused update operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from framework.optim.optimizer import Optimizer, Params, expect_amounts, expect_shares


class SGD(Optimizer):
    """Gradient descent: p -= lr * (g + weight_decay * p).

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        weight_decay: L2 penalty.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`.
    """

    rule = "sgd"


class Momentum(Optimizer):
    """Gradient descent with momentum: v = momentum * v + g + weight_decay * p; p -= lr * v (Polyak 1964).

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        momentum: share of the velocity that is kept.
        nesterov: look ahead: p -= lr * (g + weight_decay * p + momentum * v) (Sutskever et al. 2013).
        weight_decay: L2 penalty.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`.
    """

    rule, slot_names = "momentum", ("velocity",)

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        momentum: float = 0.9,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        super().__init__(params, lr, weight_decay, decay_vectors, lr_multipliers, lazy_rows)
        expect_shares("Momentum", momentum=momentum)
        self.momentum, self.nesterov = momentum, nesterov

    def _attributes(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "nesterov": self.nesterov}


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), with bias correction.

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        beta1: share of the gradient's average that is kept.
        beta2: share of the squared gradient's average that is kept.
        eps: added to the root of the squared gradient's average.
        weight_decay: L2 penalty.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`.
    """

    rule, slot_names, counted = "adam", ("m", "v"), True
    of_rows: ClassVar[dict[str, Any]] = {"lazy": True}
    lr_scaling = "sqrt"  # an update's size follows not the gradient but its sign: Malladi et al. 2022
    decoupled = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        super().__init__(params, lr, weight_decay, decay_vectors, lr_multipliers, lazy_rows)
        expect_shares(type(self).__name__, beta1=beta1, beta2=beta2)
        expect_amounts(type(self).__name__, eps=eps)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def _attributes(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps, "decoupled": self.decoupled}


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: p -= lr * weight_decay * p (Loshchilov and Hutter 2019).

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        beta1: share of the gradient's average that is kept.
        beta2: share of the squared gradient's average that is kept.
        eps: added to the root of the squared gradient's average.
        weight_decay: share of the weights taken away at a learning rate of 1.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`.
    """

    decoupled = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        super().__init__(params, lr, beta1, beta2, eps, weight_decay, decay_vectors, lr_multipliers, lazy_rows)
