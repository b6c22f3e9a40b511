"""framework/native/ops/optim.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _sgd(param, grad, lr, scale=None, weight_decay=0.0):
    return param - lr * (_scaled(grad, scale) + weight_decay * param)


def _scaled(grad, scale):
    return grad if scale is None else grad * scale


def _momentum(param, grad, velocity, lr, scale=None, momentum=0.9, weight_decay=0.0, nesterov=False):
    g = _scaled(grad, scale) + weight_decay * param
    v = momentum * velocity + g
    return param - lr * (g + momentum * v if nesterov else v), v


def _adam(param, grad, m, v, lr, step, scale=None, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, decoupled=False):
    grad = _scaled(grad, scale)
    g = grad if decoupled else grad + weight_decay * param
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    mean, square = m / (1 - beta1 ** int(step)), v / (1 - beta2 ** int(step))
    decayed = param - lr * weight_decay * param if decoupled else param
    return decayed - lr * mean / (np.sqrt(square) + eps), m, v


def _group(one, tensors_each):
    """The reference of a group: `one`'s results for each parameter, one after another."""

    def all_of_them(scalars, tensors, **attrs):
        results = []
        for i in range(0, len(tensors), tensors_each):
            out = one(*tensors[i : i + tensors_each], *scalars, **attrs)
            results += out if isinstance(out, tuple) else (out,)
        return tuple(results)

    return all_of_them


def _in_turn(count, *shapes):
    """`count` tensors for a parameter of each shape; the last, a mean square where there is one, is not negative."""
    tensors = [_tensors(count, *shape) for shape in shapes]
    return [t if i < 3 else t**2 for group in tensors for i, t in enumerate(group)]


LR = np.array(0.05)


def _tensors(count, *shape):
    return [normal(*shape, seed=s) for s in range(count)]


def _adam_inputs(step, *shape):
    param, grad, m, v = _tensors(4, *shape)
    return [param, grad, m, v**2, LR, np.array(step)]


spec(
    "sgd_step",
    reference=_sgd,
    gradient=False,
    samples=[
        Sample([*_tensors(2, 3, 5), LR]),
        Sample([*_tensors(2, 40001), LR], {"weight_decay": 0.1}),
        Sample([*_tensors(2, 0), LR]),
        Sample([*_tensors(2), LR]),
        Sample([*_tensors(2, 9), LR, np.array(0.25)], {"weight_decay": 0.1}),
    ],
    errors=[
        Bad([normal(2), normal(3), LR], ShapeError, r"grad has shape \[3\] but must have \[2\]"),
        Bad([normal(2), normal(2), normal(1)], ShapeError, r"lr has 1 axes"),
        Bad([normal(2), normal(2), LR], AttributeValueError, "weight_decay is -1", {"weight_decay": -1.0}),
    ],
)
spec(
    "momentum_step",
    reference=_momentum,
    gradient=False,
    samples=[
        Sample([*_tensors(3, 3, 5), LR]),
        Sample([*_tensors(3, 40001), LR], {"weight_decay": 0.1, "momentum": 0.5}),
        Sample([*_tensors(3, 7), LR], {"weight_decay": 0.1, "nesterov": True}),
        Sample([*_tensors(3, 0), LR]),
        Sample([*_tensors(3, 9), LR, np.array(0.25)], {"weight_decay": 0.1}),
    ],
    errors=[
        Bad([*_tensors(3, 2), LR], AttributeValueError, r"momentum is 1 but must lie in \[0, 1\)", {"momentum": 1.0}),
        Bad([normal(2), normal(2), normal(2).astype("int32"), LR], DTypeError, "velocity is int32 but must be float32"),
    ],
)
spec(
    "adam_step",
    reference=_adam,
    # beta1^step and the square root's argument are rounded before a division that can enlarge them tenfold.
    roundings=32,
    gradient=False,
    samples=[
        Sample(_adam_inputs(1, 3, 5)),
        Sample(_adam_inputs(10, 40001), {"weight_decay": 0.1}),
        Sample(_adam_inputs(1000, 7), {"weight_decay": 0.1, "decoupled": True, "beta1": 0.8, "eps": 1e-3}),
        Sample(_adam_inputs(3, 0)),
        Sample([*_adam_inputs(3, 9), np.array(0.25)], {"weight_decay": 0.1}),
    ],
    errors=[
        Bad(_adam_inputs(0, 2), AttributeValueError, "step is 0 but counts from 1"),
        Bad([*_adam_inputs(1, 2)[:5], np.array(1, np.int32)], DTypeError, "step is int32 but must be int64"),
        Bad(_adam_inputs(1, 2), AttributeValueError, "beta2 is 1 but must lie", {"beta2": 1.0}),
    ],
)


def _on_rows(rule, replaced, param, rows, values, others, **attrs):
    """The rows that are listed and have a gradient, as `rule` makes them; the rest as it was."""
    kept = [param.copy(), *(x.copy() for x in others[:replaced])]
    for row, grad in zip(rows, values, strict=True):
        if row < 0 or not grad.any():
            continue
        new = rule(param[row], grad, *(x[row] for x in others[:replaced]), *others[replaced:], **attrs)
        for whole, part in zip(kept, new if isinstance(new, tuple) else (new,), strict=True):
            whole[row] = part
    return tuple(kept) if replaced else kept[0]


def _sgd_rows(param, rows, values, *others, **attrs):
    return _on_rows(_sgd, 0, param, rows, values, others, **attrs)


def _momentum_rows(param, rows, values, *others, **attrs):
    return _on_rows(_momentum, 1, param, rows, values, others, **attrs)


def _listed(rows, count, width, states=0):
    """param, rows, values (one of them zeros, where there are two) and states of a table."""
    values = normal(len(rows), width, seed=9)
    values[1:2] = 0
    return [normal(count, width), np.array(rows, np.int64), values, *_tensors(states, count, width), LR]


LISTED_ERRORS = [
    ([4], r"rows\[0\] is 4 but param has 4 rows; .* in \[0, 3\]"),
    ([-2], r"rows\[0\] is -2 but param has 4 rows"),
    ([1, 1], r"rows\[1\] is 1, as rows\[0\] was"),
]
spec(
    "sgd_rows_step",
    reference=_sgd_rows,
    gradient=False,
    samples=[
        Sample(_listed([2, 3, -1, 0], 7, 5)),
        Sample(_listed([299, 4, 3, -1, -1], 300, 70), {"weight_decay": 0.1}),
        Sample(_listed([], 4, 9)),
        Sample([*_listed([1, 0], 4, 9), np.array(0.25)]),
    ],
    errors=[
        *(Bad(_listed(rows, 4, 2), AttributeValueError, message) for rows, message in LISTED_ERRORS),
        Bad(
            [normal(4, 2), np.array([1]), normal(2, 2), LR],
            ShapeError,
            r"values has shape \[2, 2\] but must have \[1, 2\]",
        ),
        Bad([normal(4), np.array([1]), normal(1, 2), LR], ShapeError, "param has 1 axes"),
    ],
)
spec(
    "momentum_rows_step",
    reference=_momentum_rows,
    gradient=False,
    samples=[
        Sample(_listed([2, 3, -1, 0], 7, 5, 1)),
        Sample(_listed([299, 4, 3, -1, -1], 300, 70, 1), {"weight_decay": 0.1, "momentum": 0.5, "nesterov": True}),
        Sample([*_listed([1, 0], 4, 9, 1), np.array(0.25)]),
    ],
    errors=[Bad(_listed(rows, 4, 2, 1), AttributeValueError, message) for rows, message in LISTED_ERRORS],
)


def _adam_rows(param, rows, values, m, v, lr, step, scale=None, lazy=False, **attrs):
    if lazy:
        return _on_rows(_adam, 2, param, rows, values, (m, v, lr, step, scale), **attrs)
    grad = np.zeros(param.shape)
    grad[rows[rows >= 0]] = values[rows >= 0]
    return _adam(param, grad, m, v, lr, step, scale, **attrs)


def _rows_inputs(step, count, width, rows):
    """Of m and v every third row is zero, as in a table where not every row has had a gradient."""
    param, m, v = _tensors(3, count, width)
    m[::3], v[::3] = 0, 0
    return [param, np.array(rows, np.int64), normal(len(rows), width, seed=9), m, v**2, LR, np.array(step)]


spec(
    "adam_rows_step",
    reference=_adam_rows,
    roundings=32,
    gradient=False,
    samples=[
        Sample(_rows_inputs(1, 7, 5, [2, -1, 0])),
        Sample(_rows_inputs(10, 300, 70, [299, 0, 3, -1, 4]), {"weight_decay": 0.1}),
        Sample(_rows_inputs(1000, 300, 70, [6, -1]), {"weight_decay": 0.1, "decoupled": True, "beta1": 0.8}),
        Sample([*_rows_inputs(3, 4, 9, []), np.array(0.25)], {"decoupled": True}),
        Sample([*_rows_inputs(3, 4, 9, [1]), np.array(0.25)]),
        Sample(_rows_inputs(10, 300, 70, [299, 0, 3, -1, 4]), {"weight_decay": 0.1, "lazy": True}),
        Sample([*_rows_inputs(3, 4, 9, [1, 2]), np.array(0.25)], {"lazy": True, "decoupled": True}),
    ],
    errors=[
        Bad(_rows_inputs(1, 4, 2, [4]), AttributeValueError, r"rows\[0\] is 4 but param has 4 rows; .* in \[0, 3\]"),
        Bad(_rows_inputs(1, 4, 2, [1, 1]), AttributeValueError, r"rows\[1\] is 1, as rows\[0\] was"),
        Bad(_rows_inputs(0, 4, 2, [1]), AttributeValueError, "step is 0 but counts from 1"),
        *(Bad(_rows_inputs(1, 4, 2, rows), AttributeValueError, m, {"lazy": True}) for rows, m in LISTED_ERRORS),
        Bad(
            [*_rows_inputs(1, 4, 2, [1])[:2], normal(2, 2), *_rows_inputs(1, 4, 2, [1])[3:]],
            ShapeError,
            r"values has shape \[2, 2\] but must have \[1, 2\]",
        ),
    ],
)
spec(
    "ema_step",
    reference=lambda average, value, decay: decay * average + (1 - decay) * value,
    gradient=False,
    samples=[
        Sample([*_tensors(2, 3, 5), np.array(0.9)]),
        Sample([*_tensors(2, 40001), np.array(0.999)]),
        Sample([*_tensors(2, 0), np.array(0.0)]),
    ],
    errors=[Bad([normal(2), normal(3), np.array(0.5)], ShapeError, r"value has shape \[3\] but must have \[2\]")],
)

SHAPES = [(3,), (40001,), (0,), (7, 5), ()]
spec(
    "sgd_steps",
    reference=lambda lr, scale, *tensors, **attrs: _group(_sgd, 2)((lr, scale), tensors, **attrs),
    gradient=False,
    samples=[
        Sample([LR, None, *_in_turn(2, *SHAPES)], {"weight_decay": 0.1}),
        Sample([LR, np.array(0.5), *_in_turn(2, (3,), (4,))]),
        Sample([LR, None, *_in_turn(2, (40001,))]),
    ],
    errors=[
        Bad([LR, None, normal(2)], ShapeError, "got 1 tensors but takes 2 for each parameter"),
        Bad([LR, None, normal(2), normal(3)], ShapeError, r"tensor 1 is float32 \[3\] but its parameter"),
        Bad([normal(1), None, normal(2), normal(2)], ShapeError, "lr has 1 axes"),
    ],
)
spec(
    "momentum_steps",
    reference=lambda lr, scale, *tensors, **attrs: _group(_momentum, 3)((lr, scale), tensors, **attrs),
    roundings=32,
    gradient=False,
    samples=[
        Sample([LR, None, *_in_turn(3, *SHAPES)], {"weight_decay": 0.1}),
        Sample([LR, np.array(0.5), *_in_turn(3, (3,), (4,))], {"nesterov": True}),
        Sample([LR, None, *_in_turn(3, *[(i,) for i in range(140)])]),
    ],
    errors=[Bad([LR, None, *_tensors(3, 2)], AttributeValueError, "momentum is 1 but must lie", {"momentum": 1.0})],
)
spec(
    "adam_steps",
    reference=lambda lr, step, scale, *tensors, **attrs: _group(_adam, 4)((lr, step, scale), tensors, **attrs),
    roundings=32,
    gradient=False,
    samples=[
        Sample([LR, np.array(3), None, *_in_turn(4, *SHAPES)], {"weight_decay": 0.1}),
        Sample([LR, np.array(1), np.array(0.5), *_in_turn(4, (3,), (4,))], {"decoupled": True}),
        Sample([LR, np.array(9), None, *_in_turn(4, (40001,))]),
    ],
    errors=[Bad([LR, np.array(0), None, *_in_turn(4, (2,))], AttributeValueError, "step is 0 but counts from 1")],
)
spec(
    "ema_steps",
    reference=lambda decay, *tensors: _group(lambda a, v, d: d * a + (1 - d) * v, 2)((decay,), tensors),
    gradient=False,
    samples=[
        Sample([np.array(0.9), *_in_turn(2, *SHAPES)]),
        Sample([np.array(0.9), *_in_turn(2, (3,))]),
        Sample([np.array(0.999), *_in_turn(2, (40001,), (5,))]),
    ],
    errors=[Bad([normal(1), normal(2), normal(2)], ShapeError, "decay has 1 axes")],
)
spec(
    "sum_of_squares",
    reference=lambda *xs: sum((x**2).sum() for x in xs),
    gradient=False,
    # Within a chunk of 16,384 numbers the sum runs in 64 lanes; chunks are added in float64.
    roundings=64,
    samples=[
        Sample([normal(40001), normal(3, 5), normal(0), normal()]),
        Sample([normal(5)]),
        Sample([normal(17), normal(16384)]),
    ],
    errors=[
        Bad([], ShapeError, "there is nothing to sum"),
        Bad([normal(2), normal(2).astype("int32")], DTypeError, "xs is int32 but xs is float32"),
    ],
)
