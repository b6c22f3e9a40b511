"""RMSProp, Adagrad and LAMB over fused update operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework import ops
from framework.errors import AttributeValueError
from framework.ops import internal
from framework.optim.optimizer import Optimizer, Params, expect_shares
from framework.tensor import Tensor


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

    slot_names = ("square", "velocity")
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
        self.rho, self.momentum, self.eps = rho, momentum, eps

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        square, velocity, rows = self._slots["square"][name], self._slots["velocity"][name], self._all_rows.get(name)
        attrs: dict[str, Any] = {
            "rho": self.rho,
            "momentum": self.momentum,
            "eps": self.eps,
            "weight_decay": self._decay[name],
        }
        if rows is None:
            new = internal.rmsprop_step(p, grad, square, velocity, lr, grad_scale, **attrs)
        else:
            new = internal.rmsprop_rows_step(p, rows, grad, square, velocity, lr, grad_scale, **attrs)
        for old, value in zip((p, square, velocity), new, strict=True):
            old.set(value)


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

    slot_names = ("sum",)
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
        if initial < 0:
            raise AttributeValueError(f"Adagrad: initial is {initial}; a sum of squares is 0 or more")
        self.initial, self.eps = initial, eps
        for slot in self._slots["sum"].values() if initial else ():
            slot.set(ops.full_like(slot, value=initial))

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        total, rows = self._slots["sum"][name], self._all_rows.get(name)
        attrs: dict[str, Any] = {"eps": self.eps, "weight_decay": self._decay[name]}
        if rows is None:
            new, new_total = internal.adagrad_step(p, grad, total, lr, grad_scale, **attrs)
        else:
            new, new_total = internal.adagrad_rows_step(p, rows, grad, total, lr, grad_scale, **attrs)
        p.set(new)
        total.set(new_total)


class LAMB(Optimizer):
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

    slot_names = ("m", "v")
    lr_scaling = "sqrt"  # the paper's section 4

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
        super().__init__(params, lr, weight_decay, decay_vectors, lr_multipliers)
        expect_shares("LAMB", beta1=beta1, beta2=beta2)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        m, v = self._slots["m"][name], self._slots["v"][name]
        new = internal.lamb_step(
            p,
            grad,
            m,
            v,
            lr,
            count,
            grad_scale,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            weight_decay=self._decay[name],
        )
        for old, value in zip((p, m, v), new, strict=True):
            old.set(value)
