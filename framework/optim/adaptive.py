"""RMSProp, Adagrad and LAMB over fused update operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework import ops
from framework.optim.optimizer import Optimizer, Params, expect_amounts, expect_shares
from framework.optim.optimizers import Adam


class RMSProp(Optimizer):
    """Divides the gradient by the root of its running mean square (Tieleman and Hinton 2012, lecture 6.5).

    s = rho * s + (1 - rho) * g^2; v = momentum * v + g / (sqrt(s) + eps); p -= lr * v.

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        rho: share of the mean square that is kept.
        momentum: share of the velocity that is kept.
        eps: added to the root.
        weight_decay: L2 penalty.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`.
    """

    rule, slot_names = "rmsprop", ("square", "velocity")
    lr_scaling = "sqrt"  # as Adam's: an update's size does not follow the gradient's

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        rho: float = 0.99,
        momentum: float = 0.0,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        super().__init__(params, lr, weight_decay, decay_vectors, lr_multipliers, lazy_rows)
        expect_shares("RMSProp", rho=rho, momentum=momentum)
        expect_amounts("RMSProp", eps=eps)
        self.rho, self.momentum, self.eps = rho, momentum, eps

    def _attributes(self) -> dict[str, Any]:
        return {"rho": self.rho, "momentum": self.momentum, "eps": self.eps}


class Adagrad(Optimizer):
    """Divides the gradient by the root of the sum of its squares so far (Duchi et al. 2011).

    s += g^2; p -= lr * g / (sqrt(s) + eps).

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        initial: what the sums of squares start from.
        eps: added to the root.
        weight_decay: L2 penalty.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
        lazy_rows: name patterns of tables whose rows stand still without a gradient; see `Optimizer`. Without weight
            decay they do so anyway.
    """

    rule, slot_names = "adagrad", ("sum",)
    lr_scaling = "sqrt"

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        initial: float = 0.0,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
        lazy_rows: Sequence[str] = (),
    ) -> None:
        super().__init__(params, lr, weight_decay, decay_vectors, lr_multipliers, lazy_rows)
        expect_amounts("Adagrad", initial=initial, eps=eps)
        self.initial, self.eps = initial, eps
        for slot in self._slots["sum"].values() if initial else ():
            slot.set(ops.full_like(slot, value=initial))

    def _attributes(self) -> dict[str, Any]:
        return {"eps": self.eps}


class LAMB(Adam):
    """Adam whose update of each parameter has that parameter's norm, for very large batches (You et al. 2020).

    u = Adam's update + weight_decay * p; p -= lr * |p| / |u| * u, with 1 for the ratio where a norm is 0. The norms are
    of whole parameters, so no rows of a table can stand still.

    Args:
        params: (name, parameter) pairs.
        lr: learning rate where no schedule gives one.
        beta1: share of the gradient's average that is kept.
        beta2: share of the squared gradient's average that is kept.
        eps: added to the root of the squared gradient's average.
        weight_decay: multiple of the weights in the update.
        decay_vectors: also decay biases and norms' scales.
        lr_multipliers: factor on the learning rate by name pattern; the first that fits counts.
    """

    rule = "lamb"

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        decay_vectors: bool = False,
        lr_multipliers: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(params, lr, beta1, beta2, eps, weight_decay, decay_vectors, lr_multipliers)

    def _attributes(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps}
