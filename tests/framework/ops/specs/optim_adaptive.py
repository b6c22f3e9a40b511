"""framework/native/ops/optim_adaptive.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec
from tests.framework.ops.specs.optim import LISTED_ERRORS, LR, SHAPES, _group, _listed, _on_rows, _scaled


def _rmsprop(param, grad, square, velocity, lr, scale=None, rho=0.99, momentum=0.0, eps=1e-8, weight_decay=0.0):
    g = _scaled(grad, scale) + weight_decay * param
    s = rho * square + (1 - rho) * g**2
    v = momentum * velocity + g / (np.sqrt(s) + eps)
    return param - lr * v, s, v


def _adagrad(param, grad, total, lr, scale=None, eps=1e-10, weight_decay=0.0):
    g = _scaled(grad, scale) + weight_decay * param
    total = total + g**2
    return param - lr * g / (np.sqrt(total) + eps), total


def _lamb(param, grad, m, v, lr, step, scale=None, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
    grad = _scaled(grad, scale)
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1 ** int(step)), v / (1 - beta2 ** int(step))
    update = mean / (np.sqrt(square) + eps) + weight_decay * param
    weight, size = np.sqrt((param**2).sum()), np.sqrt((update**2).sum())
    ratio = weight / size if weight > 0 and size > 0 else 1.0
    return param - lr * ratio * update, m, v


def _tensors(count, squares, *shape):
    """Tensors of a parameter; those numbered in `squares` are not negative."""
    return [normal(*shape, seed=s) ** (2 if s in squares else 1) for s in range(count)]


def _in_turn(count, squares, *shapes):
    return [t for shape in shapes for t in _tensors(count, squares, *shape)]


FOUR, THREE = (4, (2,)), (3, (2,))
spec(
    "rmsprop_step",
    reference=_rmsprop,
    roundings=16,
    gradient=False,
    samples=[
        Sample([*_tensors(*FOUR, 3, 5), LR]),
        Sample([*_tensors(*FOUR, 40001), LR], {"weight_decay": 0.1, "momentum": 0.9}),
        Sample([*_tensors(*FOUR, 0), LR]),
        Sample([*_tensors(*FOUR, 9), LR, np.array(0.25)], {"rho": 0.9, "eps": 1e-3}),
    ],
    errors=[
        Bad([*_tensors(*FOUR, 2), LR], AttributeValueError, r"rho is 1 but must lie in \[0, 1\)", {"rho": 1.0}),
        Bad([*_tensors(*FOUR, 2), LR], AttributeValueError, "eps is -1 but must be 0 or more", {"eps": -1.0}),
        Bad([normal(2), normal(3), normal(2), normal(2), LR], ShapeError, r"grad has shape \[3\] but must have \[2\]"),
    ],
)
spec(
    "adagrad_step",
    reference=_adagrad,
    roundings=16,
    gradient=False,
    samples=[
        Sample([*_tensors(*THREE, 3, 5), LR]),
        Sample([*_tensors(*THREE, 40001), LR], {"weight_decay": 0.1}),
        Sample([*_tensors(*THREE, 0), LR]),
        Sample([*_tensors(*THREE, 9), LR, np.array(0.25)], {"eps": 1e-3}),
    ],
    errors=[
        Bad([*_tensors(*THREE, 2), LR], AttributeValueError, "weight_decay is -1", {"weight_decay": -1.0}),
        Bad([normal(2), normal(2), normal(2).astype("int32"), LR], DTypeError, "sum is int32 but must be float32"),
    ],
)


def _lamb_inputs(step, *shape):
    return [*_tensors(4, (3,), *shape), LR, np.array(step)]


# As adam_step, and sums of squares in 64 lanes for the two norms.
LAMB = 96
spec(
    "lamb_step",
    reference=_lamb,
    roundings=LAMB,
    gradient=False,
    samples=[
        Sample(_lamb_inputs(1, 3, 5)),
        Sample(_lamb_inputs(10, 40001), {"weight_decay": 0.1}),
        Sample([np.zeros(7), *_lamb_inputs(5, 7)[1:]], {"beta1": 0.8}),  # a norm of 0
        Sample(_lamb_inputs(3, 0)),
        Sample([*_lamb_inputs(3, 9), np.array(0.25)], {"weight_decay": 0.1}),
    ],
    errors=[
        Bad(_lamb_inputs(0, 2), AttributeValueError, "step is 0 but counts from 1"),
        Bad([*_lamb_inputs(1, 2)[:5], np.array(1, np.int32)], DTypeError, "step is int32 but must be int64"),
        Bad(_lamb_inputs(1, 2), AttributeValueError, "beta2 is 1 but must lie", {"beta2": 1.0}),
    ],
)


def _rms_rows(param, rows, values, *others, **attrs):
    return _on_rows(_rmsprop, 2, param, rows, values, others, **attrs)


def _ada_rows(param, rows, values, *others, **attrs):
    return _on_rows(_adagrad, 1, param, rows, values, others, **attrs)


def _rows(rows, count, width, states):
    """As `_listed`, with a first state that is not negative."""
    inputs = _listed(rows, count, width, states)
    inputs[3] = inputs[3] ** 2
    return inputs


for _name, _reference, _states in (("rmsprop_rows_step", _rms_rows, 2), ("adagrad_rows_step", _ada_rows, 1)):
    spec(
        _name,
        reference=_reference,
        roundings=16,
        gradient=False,
        samples=[
            Sample(_rows([2, 3, -1, 0], 7, 5, _states)),
            Sample(_rows([299, 4, 3, -1, -1], 300, 70, _states), {"weight_decay": 0.1}),
            Sample([*_rows([1, 0], 4, 9, _states), np.array(0.25)]),
        ],
        errors=[Bad(_rows(rows, 4, 2, _states), AttributeValueError, message) for rows, message in LISTED_ERRORS],
    )
spec(
    "rmsprop_steps",
    reference=lambda lr, scale, *tensors, **attrs: _group(_rmsprop, 4)((lr, scale), tensors, **attrs),
    roundings=16,
    gradient=False,
    samples=[
        Sample([LR, None, *_in_turn(*FOUR, *SHAPES)], {"weight_decay": 0.1, "momentum": 0.5}),
        Sample([LR, np.array(0.5), *_in_turn(*FOUR, (3,), (4,))]),
        Sample([LR, None, *_in_turn(*FOUR, (40001,))]),
    ],
    errors=[Bad([LR, None, normal(2)], ShapeError, "got 1 tensors but takes 4 for each parameter")],
)
spec(
    "adagrad_steps",
    reference=lambda lr, scale, *tensors, **attrs: _group(_adagrad, 3)((lr, scale), tensors, **attrs),
    roundings=16,
    gradient=False,
    samples=[
        Sample([LR, None, *_in_turn(*THREE, *SHAPES)], {"weight_decay": 0.1}),
        Sample([LR, np.array(0.5), *_in_turn(*THREE, (3,), (4,))]),
        Sample([LR, None, *_in_turn(*THREE, (40001,))]),
    ],
    errors=[Bad([LR, None, normal(2)], ShapeError, "got 1 tensors but takes 3 for each parameter")],
)
spec(
    "lamb_steps",
    reference=lambda lr, step, scale, *tensors, **attrs: _group(_lamb, 4)((lr, step, scale), tensors, **attrs),
    roundings=LAMB,
    gradient=False,
    samples=[
        Sample([LR, np.array(3), None, *_in_turn(4, (3,), *SHAPES)], {"weight_decay": 0.1}),
        Sample([LR, np.array(1), np.array(0.5), *_in_turn(4, (3,), (3,), (4,))]),
        Sample([LR, np.array(9), None, *_in_turn(4, (3,), (40001,))]),
    ],
    errors=[Bad([LR, np.array(0), None, *_in_turn(4, (3,), (2,))], AttributeValueError, "step is 0 but counts from 1")],
)
