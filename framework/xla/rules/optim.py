"""Steps of optimizers, of one parameter, of a group of them, and of some rows of one.

Numbers that do not depend on an element are computed in float64 and rounded once, as the native kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from framework.xla.lower import Array, Call, rule

Update = Callable[..., tuple[Array, ...]]  # (elements of each input) -> new elements of each output


def _double(x: Array | None) -> Array:
    return jnp.asarray(1.0, jnp.float64) if x is None else x.astype(jnp.float64)


def _step_number(call: Call, step: Array) -> Array:
    call.refuse_where(step < 1, step, "step is {} but counts from 1")
    return jnp.maximum(step, 1).astype(jnp.float64)


def _sgd(call: Call, dtype: Any, lr: Array, scale: Array, *, weight_decay: float) -> Update:
    rate = lr.astype(dtype)

    def update(p: Array, g: Array) -> tuple[Array, ...]:
        return (p - rate * (scale * g + weight_decay * p),)

    return update


def _momentum(
    call: Call, dtype: Any, lr: Array, scale: Array, *, momentum: float, weight_decay: float, nesterov: bool
) -> Update:
    rate = lr.astype(dtype)

    def update(p: Array, g: Array, v: Array) -> tuple[Array, ...]:
        slope = scale * g + weight_decay * p
        following = momentum * v + slope
        return p - rate * (slope + momentum * following if nesterov else following), following

    return update


def _adam(
    call: Call,
    dtype: Any,
    lr: Array,
    step: Array,
    scale: Array,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
) -> Update:
    t, lr = _step_number(call, step), _double(lr)
    rate = (lr / (1 - beta1**t)).astype(dtype)
    unbias = (1 / jnp.sqrt(1 - beta2**t)).astype(dtype)
    keep = ((1 - lr * weight_decay) if decoupled else jnp.asarray(1.0)).astype(dtype)
    l2 = 0.0 if decoupled else weight_decay

    def update(p: Array, g: Array, m: Array, v: Array) -> tuple[Array, ...]:
        slope = scale * g + l2 * p
        mean, square = beta1 * m + (1 - beta1) * slope, beta2 * v + (1 - beta2) * slope * slope
        return keep * p - rate * mean / (jnp.sqrt(square) * unbias + eps), mean, square

    return update


def _rmsprop(
    call: Call, dtype: Any, lr: Array, scale: Array, *, rho: float, momentum: float, eps: float, weight_decay: float
) -> Update:
    rate = lr.astype(dtype)

    def update(p: Array, g: Array, s: Array, v: Array) -> tuple[Array, ...]:
        slope = scale * g + weight_decay * p
        mean = rho * s + (1 - rho) * slope * slope
        following = momentum * v + slope / (jnp.sqrt(mean) + eps)
        return p - rate * following, mean, following

    return update


def _adagrad(call: Call, dtype: Any, lr: Array, scale: Array, *, eps: float, weight_decay: float) -> Update:
    rate = lr.astype(dtype)

    def update(p: Array, g: Array, s: Array) -> tuple[Array, ...]:
        slope = scale * g + weight_decay * p
        total = s + slope * slope
        return p - rate * slope / (jnp.sqrt(total) + eps), total

    return update


def _lamb(
    call: Call,
    dtype: Any,
    lr: Array,
    step: Array,
    scale: Array,
    *,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> Update:
    t, lr = _step_number(call, step), _double(lr)
    unbias1 = (1 / (1 - beta1**t)).astype(dtype)
    unbias2 = (1 / jnp.sqrt(1 - beta2**t)).astype(dtype)

    def update(p: Array, g: Array, m: Array, v: Array) -> tuple[Array, ...]:
        slope = scale * g
        mean, square = beta1 * m + (1 - beta1) * slope, beta2 * v + (1 - beta2) * slope * slope
        u = mean * unbias1 / (jnp.sqrt(square) * unbias2 + eps) + weight_decay * p
        weights, updates = (jnp.sqrt(jnp.sum(jnp.square(a.astype(jnp.float64)))) for a in (p, u))
        ratio = jnp.where((weights > 0) & (updates > 0), weights / jnp.where(updates > 0, updates, 1), 1)
        return p - (lr * ratio).astype(dtype) * u, mean, square

    return update


RULES: dict[str, tuple[Callable[..., Update], int, tuple[int, ...], bool]] = {
    # rule, tensors a parameter, which of them the results replace, whether it reads the number of the step
    "sgd": (_sgd, 2, (0,), False),
    "momentum": (_momentum, 3, (0, 2), False),
    "adam": (_adam, 4, (0, 2, 3), True),
    "rmsprop": (_rmsprop, 4, (0, 2, 3), False),
    "adagrad": (_adagrad, 3, (0, 2), False),
    "lamb": (_lamb, 4, (0, 2, 3), True),
}


def _numbers(reads_step: bool, inputs: Sequence[Array | None]) -> tuple[list[Array], Array | None, int]:
    """lr (and step), the gradient's scale, and how many of the inputs they are."""
    count = 2 if reads_step else 1
    scale = inputs[count] if len(inputs) > count else None
    return list(inputs[:count]), scale, count + 1


def _declare(name: str) -> None:
    make, tensors, replaced, reads_step = RULES[name]

    def stepper(
        call: Call, numbers: list[Array], scale: Array | None, dtype: Any, skip: bool, attrs: dict[str, Any]
    ) -> Update:
        update = make(call, dtype, *numbers, _double(scale).astype(dtype), **attrs)
        if scale is None or not skip:
            return update
        sound = jnp.isfinite(scale)

        def guarded(*xs: Array) -> tuple[Array, ...]:
            return tuple(jnp.where(sound, new, xs[k]) for new, k in zip(update(*xs), replaced, strict=True))

        return guarded

    @rule(f"{name}_step")
    def one(call: Call, *inputs: Array, skip: bool, **attrs: Any) -> tuple[Array, ...]:
        xs, rest = inputs[:tensors], inputs[tensors:]
        numbers, scale, _ = _numbers(reads_step, rest)
        return stepper(call, numbers, scale, xs[0].dtype, skip, attrs)(*xs)

    @rule(f"{name}_steps")
    def many(call: Call, *inputs: Array, skip: bool, **attrs: Any) -> list[Array]:
        numbers, scale, used = _numbers(reads_step, inputs)
        out: list[Array] = []
        for at in range(used, len(inputs), tensors):
            xs = inputs[at : at + tensors]
            out += stepper(call, numbers, scale, xs[0].dtype, skip, attrs)(*xs)
        return out

    if name == "lamb":
        return  # its norms are those of whole parameters

    @rule(f"{name}_rows_step")
    def rows(call: Call, *inputs: Array, skip: bool, **attrs: Any) -> tuple[Array, ...]:
        param, listed, values, *others = inputs
        slots, rest = others[: tensors - 2], others[tensors - 2 :]
        numbers, scale, _ = _numbers(reads_step, rest)
        lazy = attrs.pop("lazy", True)
        update = stepper(call, numbers, scale, param.dtype, skip, attrs)
        count = param.shape[0]
        _expect_rows(call, listed, count)
        if not lazy:
            dense = jnp.zeros_like(param).at[jnp.where(listed < 0, count, listed)].set(values, mode="drop")
            return update(param, dense, *slots)
        touched = (listed >= 0) & jnp.any(values != 0, -1)
        places, found = jnp.where(touched, listed, count), jnp.clip(listed, 0, max(count - 1, 0))
        new = update(param[found], values, *(s[found] for s in slots))
        return tuple(old.at[places].set(n, mode="drop") for old, n in zip((param, *slots), new, strict=True))


def _expect_rows(call: Call, rows: Array, count: int) -> None:
    call.refuse_where((rows < -1) | (rows >= count), rows, f"rows holds {{}} but param has {count} rows")
    seen = jnp.zeros(count + 1, jnp.int32).at[jnp.where(rows < 0, count, rows)].add(1, mode="drop")
    call.refuse_where(seen[:count] > 1, jnp.arange(count), "rows holds {} twice; a row may stand there once")


for _name in RULES:
    _declare(_name)


def _average(average: Array, value: Array, decay: Array) -> Array:
    return average + (1 - _double(decay)).astype(average.dtype) * (value - average)


@rule("ema_step")
def _ema_step(call: Call, average: Array, value: Array, decay: Array) -> Array:
    return _average(average, value, decay)


@rule("ema_steps")
def _ema_steps(call: Call, decay: Array, *tensors: Array) -> list[Array]:
    return [_average(a, v, decay) for a, v in zip(tensors[::2], tensors[1::2], strict=True)]


@rule("sum_of_squares")
def _sum_of_squares(call: Call, *xs: Array) -> Array:
    return sum((jnp.sum(jnp.square(x)) for x in xs), start=jnp.zeros((), xs[0].dtype))
