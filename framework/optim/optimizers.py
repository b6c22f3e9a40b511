"""SGD, Momentum, Adam and AdamW over fused update operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.ops import internal
from framework.optim.optimizer import Optimizer, Params, expect_shares
from framework.tensor import Tensor


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

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        rows, decay = self._all_rows.get(name), self._decay[name]
        if rows is None:
            p.set(internal.sgd_step(p, grad, lr, grad_scale, weight_decay=decay))
        else:
            p.set(internal.sgd_rows_step(p, rows, grad, lr, grad_scale, weight_decay=decay))


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

    slot_names = ("velocity",)

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

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        velocity, rows = self._slots["velocity"][name], self._all_rows.get(name)
        attrs: dict[str, Any] = {
            "momentum": self.momentum,
            "weight_decay": self._decay[name],
            "nesterov": self.nesterov,
        }
        if rows is None:
            new, new_velocity = internal.momentum_step(p, grad, velocity, lr, grad_scale, **attrs)
        else:
            new, new_velocity = internal.momentum_rows_step(p, rows, grad, velocity, lr, grad_scale, **attrs)
        p.set(new)
        velocity.set(new_velocity)


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

    slot_names = ("m", "v")
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
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def _update(self, name: str, p: Tensor, grad: Tensor, lr: Tensor, count: Tensor, grad_scale: Tensor | None) -> None:
        m, v, rows = self._slots["m"][name], self._slots["v"][name], self._all_rows.get(name)
        attrs: dict[str, Any] = {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "eps": self.eps,
            "weight_decay": self._decay[name],
            "decoupled": self.decoupled,
        }
        if rows is None:
            new, new_m, new_v = internal.adam_step(p, grad, m, v, lr, count, grad_scale, **attrs)
        else:
            new, new_m, new_v = internal.adam_rows_step(p, rows, grad, m, v, lr, count, grad_scale, lazy=True, **attrs)
        p.set(new)
        m.set(new_m)
        v.set(new_v)


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
