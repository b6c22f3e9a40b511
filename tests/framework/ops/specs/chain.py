"""framework/native/ops/chain.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


# By tape, what it computes.
FORMULAS = {
    "exp(x0)": lambda like, x: np.exp(x),
    "sigmoid(x0); sub(t0, x1); mul(t1, x2)": lambda like, x, t, w: (_sigmoid(x) - t) * w,
    "greater(x0, x1); where(t0, x0, x2); clip(t1, min=-0.5, max=0.5); leaky_relu(t2, slope=0.1)": lambda _, a, b, c: (
        np.maximum(v := np.clip(np.where(a > b, a, c), -0.5, 0.5), 0.1 * v)
    ),
    "mul(x0, x0); add(t0, x1); mul(t1, t0); lerp(t2, x0, x1)": lambda like, x, s: (
        (v := (x * x + s) * x * x) + s * (x - v)
    ),
    "unreduce(x0, like, average=true); sub(x1, t0); full_like(like, value=2.0); mul(t1, t2)": lambda like, x, y: (
        2 * (y - x / like.size)
    ),
    "broadcast_like(x0, like); tanh_grad(t0, x1)": lambda like, d, y: d * (1 - y * y),
    "not_equal(x0, x1); logical_not(t0); cast(t1, dtype=int32)": lambda like, a, b: (a == b).astype(np.int32),
}
EXP, BCE, SELECT, DAG, SPREAD, BROADCAST, BOOL = FORMULAS

spec(
    "chain",
    reference=lambda like, *xs, tape: FORMULAS[tape](like, *xs),
    gradient=False,
    roundings=16,
    samples=[
        Sample([None, normal(3, 5)], {"tape": EXP}),
        Sample([None, normal(5001), normal(5001, seed=1), normal()], {"tape": BCE}),
        Sample([None, normal(40, 3, 70), normal(70), normal(3, 1)], {"tape": BCE}),
        Sample([None, normal(1, 5), normal(2, 3, 5), normal(4, 1, 1, 1)], {"tape": BCE}),
        Sample([None, normal(9, 700), normal(9, 700, seed=1), normal(700)], {"tape": SELECT}),
        Sample([None, normal(6, 2500), normal(2500)], {"tape": DAG}),
        Sample([normal(30, 70), normal(), normal(30, 70)], {"tape": SPREAD}),
        Sample([normal(7, 300), normal(300), normal(7, 300)], {"tape": BROADCAST}),
        Sample([None, normal(2, 700), np.zeros(700)], {"tape": BOOL}),
        Sample([None, normal(0, 3), normal(3), normal()], {"tape": BCE}),
    ],
    errors=[
        Bad([None, normal(2)], AttributeValueError, "tape is empty", {"tape": " "}),
        Bad(
            [None, normal(2)],
            AttributeValueError,
            "'erase\\(x0\\)': there is no operator 'erase'",
            {"tape": "erase(x0)"},
        ),
        Bad([None, normal(2)], AttributeValueError, "'softmax' is not element-wise", {"tape": "softmax(x0)"}),
        Bad([None, normal(2)], AttributeValueError, "'exp' is not element-wise|not of the form", {"tape": "exp"}),
        Bad([None, normal(2)], AttributeValueError, "'x1' does not exist; there are 1 inputs", {"tape": "exp(x1)"}),
        Bad([None, normal(2)], AttributeValueError, "'t0' does not exist", {"tape": "exp(t0)"}),
        Bad([None, normal(2)], AttributeValueError, "'y' is neither x<i>, t<i> nor like", {"tape": "exp(y)"}),
        Bad([None, normal(2)], AttributeValueError, "'x9z' is not a number|'9z' is not a number", {"tape": "exp(x9z)"}),
        Bad([None, normal(2)], AttributeValueError, "add takes 2 arguments, not 1", {"tape": "add(x0)"}),
        Bad([None, normal(2)], AttributeValueError, "attribute 'max' is missing", {"tape": "clip(x0, min=0)"}),
        Bad([None, normal(2)], AttributeValueError, "exp takes no attribute 'slope'", {"tape": "exp(x0, slope=1)"}),
        Bad([None, normal(2)], AttributeValueError, "last statement must be", {"tape": "full_like(like, value=1)"}),
        Bad([None, normal(2)], AttributeValueError, "like can only be given to", {"tape": "exp(like)"}),
        Bad(
            [None, normal(2)], ShapeError, "reads like, which is absent", {"tape": "broadcast_like(x0, like); exp(t0)"}
        ),
        Bad([None, normal(2), normal(3)], ShapeError, "chain: add: a of shape", {"tape": "add(x0, x1)"}),
        Bad([None, normal(2), normal(4, 2)], ShapeError, "does not broadcast to the result's", {"tape": "exp(x0)"}),
        Bad([None, normal(2).astype("int32")], DTypeError, "chain: exp: x is int32", {"tape": "exp(x0)"}),
    ],
)
