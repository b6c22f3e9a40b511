"""framework/native/ops/optim.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _sgd(param, grad, lr, weight_decay=0.0):
    return param - lr * (grad + weight_decay * param)


def _momentum(param, grad, velocity, lr, momentum=0.9, weight_decay=0.0, nesterov=False):
    g = grad + weight_decay * param
    v = momentum * velocity + g
    return param - lr * (g + momentum * v if nesterov else v), v


def _adam(param, grad, m, v, lr, step, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, decoupled=False):
    g = grad if decoupled else grad + weight_decay * param
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    mean, square = m / (1 - beta1 ** int(step)), v / (1 - beta2 ** int(step))
    decayed = param - lr * weight_decay * param if decoupled else param
    return decayed - lr * mean / (np.sqrt(square) + eps), m, v


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
    ],
    errors=[
        Bad(_adam_inputs(0, 2), AttributeValueError, "step is 0 but counts from 1"),
        Bad([*_adam_inputs(1, 2)[:5], np.array(1, np.int32)], DTypeError, "step is int32 but must be int64"),
        Bad(_adam_inputs(1, 2), AttributeValueError, "beta2 is 1 but must lie", {"beta2": 1.0}),
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
