"""LossScaler: keeps gradients inside the range of float16 by a factor on the loss, and skips updates that overflowed.

All of it is part of the traced step: the scale and its counters are states, and a skipped update costs no branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError, CheckpointError, GradientError
from framework.tensors import Tensor, tensor

_TINY = 1e-12  # keeps clipping's factor finite where the norm is 0


class LossScaler:
    """Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740).

    >>> loss = scaler.scaled(loss)            # doctest: +SKIP
    >>> loss.backward()                       # doctest: +SKIP
    >>> factor = scaler.factor(parameters)    # doctest: +SKIP
    >>> optimizer.step(lr, factor)            # doctest: +SKIP
    >>> scaler.update(factor)                 # doctest: +SKIP

    Where a gradient is infinite or NaN the optimizer leaves everything as it is, weights, moments and its step count,
    and the scale falls; after `interval` good updates in a row it grows.

    Args:
        initial: the scale at the start. Powers of two change no bit of a gradient in range.
        growth: factor on the scale after `interval` good updates.
        backoff: factor on the scale after a skipped update.
        interval: good updates in a row before the scale grows.
        floor: the scale never falls below it.
        ceiling: nor rises above it.
        dynamic: False keeps the scale at `initial`; updates that overflow are skipped all the same.

    Attributes:
        scale: float32 [], the factor on the loss.
        good: int64 [], good updates since the scale last changed.
        skipped: int64 [], updates skipped so far.
        stuck: int64 [], updates skipped in a row while the scale could not fall any more.
    """

    def __init__(
        self,
        initial: float = 65536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        floor: float = 1.0,
        ceiling: float = 2.0**24,
        dynamic: bool = True,
    ) -> None:
        _check(initial, growth, backoff, interval, floor, ceiling)
        self._growth, self._backoff, self._interval = growth, backoff, interval
        self._floor, self._ceiling, self._dynamic = floor, ceiling, dynamic
        self.scale = _state("scale", np.float32(initial))
        self.good, self.skipped, self.stuck = (_state(name, np.int64(0)) for name in ("good", "skipped", "stuck"))

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss times the scale, float32: what `backward()` starts from."""
        return ops.cast(loss, dtype="float32") * self.scale

    def factor(self, params: Iterable[Tensor], max_norm: float | None = None) -> Tensor:
        """What gradients of the scaled loss must be multiplied by; NaN where one of them is infinite or NaN.

        One pass over all gradients gives their joint norm, which tells both whether they are finite and by how much
        they are too long. Nothing is written: the factor is for `Optimizer.step`.

        Args:
            params: whose `grad` is read.
            max_norm: bound on the joint norm of the gradients without the scale; None for none.

        Returns:
            float32 [].

        Raises:
            GradientError: no parameter has a gradient.
        """
        if max_norm is not None and not max_norm > 0:
            raise AttributeValueError(f"LossScaler: max_norm is {max_norm}; it must be positive")
        with no_grad():
            grads = [p.grad for p in params if p.grad is not None]
            if not grads:
                raise GradientError("LossScaler: no parameter has a gradient; call backward() first")
            norm = ops.sqrt(ops.sum_of_squares(grads))
            factor = 1.0 / self.scale
            if max_norm is not None:
                factor = factor * ops.minimum(max_norm / (norm * factor + _TINY), 1.0)
            return ops.where(ops.isfinite(norm), factor, float("nan"))

    def update(self, factor: Tensor) -> None:
        """Moves the scale after an update with `factor`: down where it was skipped, up after a row of good ones."""
        with no_grad():
            fine = ops.isfinite(factor)
            self.skipped.set(self.skipped + ops.cast(~fine, dtype="int64"))
            stuck = ~fine & (self.scale <= self._floor) if self._dynamic else ~fine
            self.stuck.set(ops.where(stuck, self.stuck + 1, 0))
            if not self._dynamic:
                return
            good = ops.where(fine, self.good + 1, 0)
            grows = good >= self._interval
            lower = ops.maximum(self.scale * self._backoff, self._floor)
            higher = ops.minimum(self.scale * self._growth, self._ceiling)
            self.scale.set(ops.where(fine, ops.where(grows, higher, self.scale), lower))
            self.good.set(ops.where(grows, 0, good))

    def _named_state(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in ("scale", "good", "skipped", "stuck")}

    def state_dict(self) -> dict[str, Tensor]:
        """Scale and counters: the live tensors by name."""
        return self._named_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up a state, copying it.

        Raises:
            CheckpointError: it is no scaler's.
        """
        own = self._named_state()
        if own.keys() != state.keys():
            raise CheckpointError(f"LossScaler: a state has {', '.join(own)}; this one has {', '.join(state)}")
        for name, t in own.items():
            t.set(tensor(state[name]))


def _state(name: str, value: Any) -> Tensor:
    t = tensor(np.asarray(value))
    t.persistable, t.name = True, f"scaler/{name}"
    return t


def _check(initial: float, growth: float, backoff: float, interval: int, floor: float, ceiling: float) -> None:
    if not 0 < floor <= initial <= ceiling < float("inf"):
        raise AttributeValueError(
            f"LossScaler: initial is {initial} but must lie between floor, {floor}, and ceiling, {ceiling}, which are "
            "positive and finite"
        )
    if not growth >= 1:
        raise AttributeValueError(f"LossScaler: growth is {growth}; it must be 1 or more")
    if not 0 < backoff <= 1:
        raise AttributeValueError(f"LossScaler: backoff is {backoff}; it must lie in (0, 1]")
    if interval < 1:
        raise AttributeValueError(f"LossScaler: interval is {interval}; it must be 1 or more")
