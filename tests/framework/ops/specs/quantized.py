"""framework/native/ops/quantized.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, NumericsError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec
from tests.framework.ops.specs.matmul import activate


def rounded_rows(x, x_scale=None, most=127):
    """Integers of the rows [M, C], and what 1 stands for in each, in float32 as the definition rounds."""
    x = x.astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if x_scale is None:
            largest = np.abs(x).max(axis=1, initial=0)
            factor, scale = np.float32(most) / largest, largest / np.float32(most)
            dead = np.isinf(factor)
            factor, scale = np.where(dead, np.float32(0), factor), np.where(dead, np.float32(0), scale)
            scale = np.where(np.isfinite(largest), scale, np.float32(np.nan))
        else:
            factor = np.full(len(x), np.float32(1) / np.float32(x_scale))
            scale = np.where(np.isnan(x).any(axis=1), np.float32(np.nan), np.float32(x_scale))
        q = np.clip(np.rint(x * factor[:, None]), -most, most)
    return np.nan_to_num(q).astype(np.int64), scale


def reference(
    x, weight, weight_scale, bias=None, residual=None, x_scale=None, activation="none", slope=0.01, x_most=127,
    algorithm="auto",
):  # fmt: skip
    q, scale = rounded_rows(x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1]), x_scale, x_most)
    sums = (q @ weight.astype(np.int64).T).astype(np.float32)
    with np.errstate(invalid="ignore"):
        y = sums * scale[:, None] * weight_scale.astype(np.float32)
    y = y.reshape(*x.shape[:-1], len(weight))
    y = y if bias is None else y + bias.astype(np.float32)
    y = y if residual is None else y + residual.astype(np.float32)
    return activate(y, activation, slope)


def weights(rows, columns):
    return np.random.default_rng([rows, columns]).integers(-128, 128, (rows, columns)).astype(np.int8)


def scales(n):
    return np.abs(normal(n)) * 0.01 + 0.001


def extremes(rows, columns):
    """Rows of +-127 whose sums are the largest there are."""
    return np.where(np.arange(rows)[:, None] % 2, 127.0, -127.0) * np.ones(columns)


spec(
    "quantized_matmul",
    reference=reference,
    gradient=False,
    dtypes=["float32"],
    roundings=16,  # sums are exact; what is left are scales, bias, residual and an activation
    samples=[
        Sample([normal(5, 40), weights(7, 40), scales(7), normal(7)], {"activation": "relu"}),
        Sample([normal(2, 3, 37), weights(65, 37), scales(65)]),
        Sample([normal(130), weights(3, 130), scales(3), normal(3)]),
        Sample([normal(13, 5), weights(129, 5), scales(129), normal(129), normal(13, 129)]),
        Sample([normal(200, 64), weights(70, 64), scales(70), None, None, np.array(0.02)]),
        Sample(
            [normal(6, 3, scale=30), weights(4, 3), scales(4), normal(4), None, np.array(0.5)], {"activation": "gelu"}
        ),
        Sample([normal(7, 18), weights(20, 18), scales(20)], {"activation": "tanh", "algorithm": "widening"}),
        Sample([normal(7, 18), weights(20, 18), scales(20)], {"activation": "leaky_relu", "slope": 0.3}),
        Sample([extremes(8, 1030), extremes(70, 1030).astype(np.int8), np.ones(70)]),
        Sample([extremes(8, 1030), np.full((9, 1030), -128, np.int8), np.ones(9)], {"algorithm": "widening"}),
        Sample([np.zeros((3, 8)), weights(5, 8), scales(5), normal(5)]),
        Sample([np.array([[1e-38, 1e-40, 0.0], [3e-36, 1e-37, 0.0]]), weights(5, 3), scales(5)]),
        Sample([np.array([[np.nan, 1.0], [np.inf, 1.0], [2.0, 1.0]]), weights(5, 2), scales(5)]),
        Sample([np.array([[np.nan, 1.0], [-np.inf, 1.0]]), weights(5, 2), scales(5), None, None, np.array(0.1)]),
        Sample([normal(9, 75), weights(33, 75), scales(33), normal(33)], {"x_most": 32767}),
        Sample([normal(7, 18), weights(70, 18), scales(70), None, None, np.array(2e-4)], {"x_most": 9999}),
        Sample([np.array([[1e-35, 0.0], [np.inf, 1.0], [3.0, 1e-3]]), weights(5, 2), scales(5)], {"x_most": 32767}),
        Sample([normal(3, 0), weights(4, 0), scales(4), normal(4)]),
        Sample([normal(0, 6), weights(4, 6), scales(4)]),
        Sample([normal(4, 6), weights(0, 6), scales(0)]),
    ],
    errors=[
        Bad(
            [normal(2, 3), weights(4, 5), scales(4)],
            ShapeError,
            r"x has 3 columns \(axis -1 of \[2, 3\]\) but weight has 5 \(axis 1 of \[4, 5\]\)",
        ),
        Bad([np.array(1.0), weights(4, 5), scales(4)], ShapeError, "x has 0 axes .* needs at least 1"),
        Bad([normal(2, 5), weights(4, 5), scales(3)], ShapeError, r"weight_scale has shape \[3\] but must have \[4\]"),
        Bad([normal(2, 5), weights(4, 5), scales(4), normal(5)], ShapeError, r"bias has shape \[5\]"),
        Bad([normal(2, 5), weights(4, 5), scales(4), None, normal(4)], ShapeError, r"residual .* must have \[2, 4\]"),
        Bad([normal(2, 5), weights(4, 5), scales(4), None, None, scales(1)], ShapeError, r"x_scale .* must have \[\]"),
        Bad([normal(2, 5), normal(4, 5), scales(4)], DTypeError, "weight is float32 but must be int8"),
        Bad([weights(2, 5), weights(4, 5), scales(4)], DTypeError, "x is int8 but must be float32"),
        Bad(
            [np.zeros((1, (1 << 17) + 1)), np.zeros((1, (1 << 17) + 1), np.int8), scales(1)],
            ShapeError,
            "exact for at most 131072; split the product",
        ),
        Bad([normal(2, 5), weights(4, 5), scales(4)], AttributeValueError, "x_most is 0 but must lie", {"x_most": 0}),
        Bad([normal(2, 5), weights(4, 5), scales(4)], AttributeValueError, "x_most is 32768", {"x_most": 1 << 15}),
        Bad(
            [normal(2, 600), np.full((4, 600), -128, np.int8), scales(4)],
            NumericsError,
            "row 0 of weight has magnitudes that add up to 76800, .* numbers up to 27962, not to x_most = 32767",
            {"x_most": 32767},
        ),
        Bad([normal(2, 5), weights(4, 5), scales(4)], AttributeValueError, "'mish'; takes", {"activation": "mish"}),
        Bad([normal(2, 5), weights(4, 5), scales(4)], AttributeValueError, "'vnni'; takes", {"algorithm": "vnni"}),
        Bad(
            [normal(2, 5), weights(4, 5), scales(4), None, None, np.array(0.0)],
            AttributeValueError,
            "x_scale is 0 but must be a positive number",
        ),
        Bad(
            [normal(2, 5), weights(4, 5), scales(4), None, None, np.array(np.inf)],
            AttributeValueError,
            "x_scale is inf",
        ),
    ],
)


def rows_of(weight, weight_scale, ids, padding_idx=-1):
    y = weight[ids].astype(np.float32) * weight_scale.astype(np.float32)[ids][..., None]
    return np.where((ids == padding_idx)[..., None], np.float32(0), y)


spec(
    "quantized_embedding",
    reference=rows_of,
    gradient=False,
    exact=True,
    dtypes=["float32"],
    samples=[
        Sample([weights(5, 3), scales(5), integers(0, 5, 2, 4)]),
        Sample([weights(5, 33), scales(5), integers(0, 5, 7).astype(np.int32)], {"padding_idx": 2}),
        Sample([weights(5, 1), scales(5), np.array(3)]),
        Sample([weights(5, 3), scales(5), integers(0, 5, 0)]),
    ],
    errors=[
        Bad([weights(5, 3), scales(5), np.array([0, 5])], AttributeValueError, r"ids\[1\] is 5 but weight has 5"),
        Bad([weights(5, 3), scales(4), np.array([0])], ShapeError, r"weight_scale has shape \[4\] but must have \[5\]"),
        Bad([normal(5, 3), scales(5), np.array([0])], DTypeError, "weight is float32 but must be int8"),
        Bad([weights(5, 3), scales(5), np.array([0.0])], DTypeError, "ids is float32"),
        Bad(
            [weights(5, 3), scales(5), np.array([0])],
            AttributeValueError,
            "padding_idx is 5 but must be -1",
            {"padding_idx": 5},
        ),
    ],
)
