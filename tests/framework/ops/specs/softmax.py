"""framework/native/ops/softmax.cc"""

import numpy as np

from framework.errors import DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _sigmoid_cross_entropy(logits, targets):
    """From the probabilities' logarithms, each in its exact form."""
    return targets * np.logaddexp(0, -logits) + (1 - targets) * np.logaddexp(0, logits)


def _unit(*shape, seed=1):
    return np.random.default_rng(seed).uniform(size=shape)


spec(
    "sigmoid_cross_entropy",
    reference=_sigmoid_cross_entropy,
    samples=[
        Sample([normal(3, 5), _unit(3, 5)]),
        Sample([normal(5001, scale=4.0), _unit(5001)]),
        Sample([np.array([-1000.0, -30.0, 0.0, 30.0, 1000.0]), np.array([0.0, 1.0, 0.5, 1.0, 0.0])]),
        Sample([np.zeros((0, 3)), np.zeros((0, 3))]),
    ],
    errors=[
        Bad([normal(3), normal(4)], ShapeError, r"targets has shape \[4\] but must have \[3\]"),
        Bad([normal(3), normal(3).astype("int32")], DTypeError, "targets is int32 but logits is float32"),
    ],
)
