"""framework/native/ops/quantized_conv.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, NumericsError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec

F32 = np.float32


def octets(*shape, seed=0, signed=False):
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(-128, 128, shape).astype(np.int8) if signed else rng.integers(0, 256, shape).astype(np.uint8)


def scales(n, size=0.01):
    return (np.abs(normal(n)) + 0.1) * size


def pairs(value):
    return (value, value) if np.isscalar(value) else tuple(value)


def borders(padding):
    p = [padding] if np.isscalar(padding) else list(padding)
    return (p[0], p[0], p[-1], p[-1]) if len(p) < 3 else p


def sums_of(x, weight, zero, stride, padding, dilation, groups):
    """Exact sums [N, P, Q, K] of (x - zero) * weight."""
    top, bottom, left, right = borders(padding)
    x = np.pad(x.astype(np.int64) - zero, [(0, 0), (top, bottom), (left, right), (0, 0)])
    (sh, sw), (dh, dw), (filters, height, width, part) = pairs(stride), pairs(dilation), weight.shape
    p = (x.shape[1] - dh * (height - 1) - 1) // sh + 1
    q = (x.shape[2] - dw * (width - 1) - 1) // sw + 1
    y = np.zeros((len(x), p, q, filters), np.int64)
    for k in range(filters):
        first = k // (filters // groups) * part
        for r in range(height):
            for s in range(width):
                seen = x[:, r * dh :, s * dw :, first : first + part]
                seen = seen[:, : (p - 1) * sh + 1 : sh, : (q - 1) * sw + 1 : sw]
                y[..., k] += seen @ weight[k, r, s].astype(np.int64)
    return y


def ended(v, activation, slope, six):
    if activation == "leaky_relu":
        return np.where(v < 0, v * F32(slope), v)
    v = np.where(v < 0, F32(0), v) if activation != "none" else v
    return np.minimum(v, six) if activation == "relu6" else v


def in_bytes(v, zero, dtype):
    info = np.iinfo(dtype)
    return (np.clip(np.rint(v), info.min - zero, info.max - zero) + zero).astype(dtype)


def in_words(x, x_scale, x_most):
    return np.clip(np.rint(x.astype(F32) / F32(x_scale)), -x_most, x_most).astype(np.int16)


def convolution(
    x, weight, weight_scale, bias=None, residual=None, stride=1, padding=0, dilation=1, groups=1, activation="none",
    slope=0.01, x_scale=1.0, x_zero=0, residual_scale=1.0, residual_zero=0, y_scale=1.0, y_zero=0, residual_last=False,
    x_most=32767, dtype="uint8", algorithm="auto",
):  # fmt: skip
    if x.dtype.kind == "f":
        x = in_words(x, x_scale, x_most)
    step = 1.0 if dtype == "float32" else y_scale
    factor = (x_scale * weight_scale.astype(F32).astype(np.float64) / step).astype(F32)
    if dtype == "int32":
        return sums_of(x, weight, x_zero, stride, padding, dilation, groups).astype(np.int32)
    v = sums_of(x, weight, x_zero, stride, padding, dilation, groups).astype(F32) * factor
    v = v + (F32(0) if bias is None else (bias.astype(F32).astype(np.float64) / step).astype(F32))
    if residual is not None:
        if residual.dtype.kind != "f":
            residual = (residual.astype(F32) - F32(residual_zero)) * F32(residual_scale / step)
        residual = residual.astype(F32)
    if residual is not None and not residual_last:
        v = v + residual
    v = ended(v, activation, slope, F32(6 / step))
    if residual is not None and residual_last:
        v = v + residual
    return v if dtype == "float32" else in_bytes(v, y_zero, dtype)


def conv(shape, filters, *rest, taps=(1, 1), signed=False, **attrs):
    groups = attrs.get("groups", 1)
    inputs = [octets(*shape, signed=signed), octets(filters, *taps, shape[3] // groups, signed=True), scales(filters)]
    attrs = {"x_scale": 0.02, "x_zero": 5 if signed else 131, "y_scale": 0.3, "y_zero": 3} | attrs
    return Sample([*inputs, *rest], attrs)


def words(shape, filters, *rest, taps=(1, 1), **attrs):
    """Of a float32 image, which is rounded to 16 bits; some of it is cut."""
    groups = attrs.get("groups", 1)
    inputs = [normal(*shape), octets(filters, *taps, shape[3] // groups, signed=True), scales(filters)]
    return Sample([*inputs, *rest], {"x_scale": 1e-4, "x_most": 20000, "y_scale": 0.02, "y_zero": 131} | attrs)


def refused(error, match, *replaced, **attrs):
    """A call whose inputs are replaced by number."""
    inputs = [octets(1, 4, 4, 4), octets(8, 1, 1, 4, signed=True), scales(8)]
    for number, array in replaced:
        inputs += [None] * (number + 1 - len(inputs))
        inputs[number] = array
    return Bad(inputs, error, match, attrs)


DEEP = np.zeros((1, 1, 1, (1 << 16) + 1))

spec(
    "quantized_conv2d",
    reference=convolution,
    gradient=False,
    exact=True,
    dtypes=["float32"],
    samples=[
        conv((2, 5, 6, 8), 16, normal(16), activation="relu"),
        conv((1, 7, 5, 64), 70, normal(70), taps=(3, 3), padding=1, activation="relu6", y_zero=0, y_scale=0.05),
        conv((1, 9, 8, 3), 20, normal(20), taps=(5, 3), stride=2, padding=(2, 1), dtype="int8", y_zero=-7),
        conv((1, 9, 9, 6), 65, taps=(3, 3), dilation=2, padding=2, activation="leaky_relu", slope=0.1, y_zero=100),
        conv((1, 6, 6, 16), 12, normal(12), taps=(3, 3), groups=4, padding=1, signed=True),
        conv((2, 4, 5, 6), 9, normal(9), taps=(2, 2), groups=3, padding=(1, 0, 0, 1)),
        conv((2, 6, 7, 40), 40, normal(40), taps=(3, 3), groups=40, padding=1, activation="relu6", y_scale=0.05),
        conv((1, 9, 11, 130), 130, normal(130), taps=(5, 5), groups=130, padding=2, stride=2, y_zero=128),
        conv((1, 9, 8, 64), 64, taps=(3, 3), groups=64, padding=2, dilation=2, stride=(1, 2), signed=True, y_zero=9),
        conv((1, 5, 5, 20), 20, normal(20), taps=(3, 3), groups=20, dtype="float32"),
        conv((1, 5, 5, 20), 33, normal(33), normal(1, 5, 5, 33), dtype="float32", activation="relu"),
        conv((1, 5, 5, 20), 33, None, octets(1, 5, 5, 33), activation="relu", residual_scale=0.7, residual_zero=90),
        conv((1, 5, 5, 20), 33, None, octets(1, 5, 5, 33, signed=True), activation="relu6", residual_scale=0.7,
             residual_zero=-9, residual_last=True, y_scale=0.9, y_zero=40),
        conv((1, 3, 3, 70), 70, None, octets(1, 3, 3, 70), taps=(3, 3), groups=70, padding=1, activation="leaky_relu",
             residual_scale=0.4, residual_zero=30, y_zero=128),
        conv((3, 17, 13, 12), 129, normal(129), taps=(3, 3), stride=2, padding=1, algorithm="widening", y_zero=77),
        conv((1, 17, 13, 80), 80, normal(80), taps=(3, 3), groups=80, padding=1, algorithm="widening", y_zero=77),
        conv((0, 4, 4, 4), 8),
        conv((1, 5, 5, 20), 33, taps=(3, 3), dtype="int32"),
        conv((1, 9, 11, 130), 130, taps=(3, 3), groups=130, padding=1, dtype="int32", signed=True),
        conv((1, 6, 6, 3), 5, taps=(3, 3), dtype="int32", algorithm="widening"),
        words((2, 5, 6, 8), 16, normal(16), activation="relu", dtype="float32"),
        words((1, 9, 8, 3), 70, normal(70), taps=(5, 3), stride=2, padding=(2, 1)),
        words((1, 9, 9, 6), 65, None, octets(1, 9, 9, 65), taps=(3, 3), dilation=2, padding=2, activation="leaky_relu",
              slope=0.1, residual_scale=0.4, residual_zero=30),
        words((1, 6, 7, 40), 40, normal(40), normal(1, 6, 7, 40), taps=(3, 3), groups=40, padding=1, dtype="float32"),
        words((1, 6, 6, 16), 12, normal(12), taps=(3, 3), groups=4, padding=1, dtype="int8", y_zero=-5, x_most=32767),
        words((1, 17, 13, 12), 129, taps=(3, 3), stride=2, padding=1, algorithm="widening", activation="relu6"),
        words((0, 4, 4, 4), 8),
        conv((2, 7, 9, 33), 20, normal(20), taps=(3, 3), padding=1, algorithm="winograd", activation="relu", y_zero=9),
        conv((1, 10, 6, 5), 17, None, octets(1, 10, 6, 17), taps=(3, 3), padding=1, algorithm="winograd",
             activation="relu6", residual_scale=0.7, residual_zero=90, y_scale=0.9),
    ],
    errors=[
        refused(DTypeError, "x is int32 but must be uint8 or int8", (0, np.zeros((1, 4, 4, 4), np.int32))),
        refused(AttributeValueError, "x_zero is 7 and x float32", (0, normal(1, 4, 4, 4)), x_zero=7),
        refused(AttributeValueError, "x_most is 32768 but must lie in", (0, normal(1, 4, 4, 4)), x_most=1 << 15),
        refused(AttributeValueError, "x_scale is 0 .* a step of 16 bits", (0, normal(1, 4, 4, 4)), x_scale=0.0),
        refused(NumericsError, "x holds a NaN, which 16 bits have no number for", (0, np.full((1, 4, 4, 4), np.nan))),
        refused(NumericsError, "row 0 of weight has magnitudes that add up to 76800, .* up to 27962, not to",
                (0, normal(1, 1, 1, 600)), (1, np.full((8, 1, 1, 600), -128, np.int8)), x_scale=1e-3),
        refused(DTypeError, "weight is uint8 but must be int8", (1, octets(8, 1, 1, 4))),
        refused(ShapeError, r"x has 4 channels .* expects 5", (1, octets(8, 1, 1, 5, signed=True))),
        refused(ShapeError, r"weight_scale has shape \[3\] but must have \[8\]", (2, scales(3))),
        refused(ShapeError, r"bias has shape \[3\] but must have \[8\]", (3, scales(3))),
        refused(ShapeError, r"residual has shape \[1, 4, 4, 3\]", (4, octets(1, 4, 4, 3))),
        refused(DTypeError, "residual is float32 and y is uint8; round it", (4, normal(1, 4, 4, 8))),
        refused(ShapeError, "exact for at most 65536", (0, DEEP.astype(np.uint8)), (1, DEEP.astype(np.int8)),
                (2, scales(1))),
        refused(AttributeValueError, "x_scale is 0 but must lie in", x_scale=0.0),
        refused(AttributeValueError, "y_zero is -1 but must lie in .0, 255., as its type uint8 does", y_zero=-1),
        refused(AttributeValueError, "y_zero is 200 but must lie in .-128, 127.", y_zero=200, dtype="int8"),
        refused(AttributeValueError, "'tanh'; takes", activation="tanh"),
        refused(AttributeValueError, "'float64'; takes", dtype="float64"),
        refused(AttributeValueError, "'vnni'; takes", algorithm="vnni"),
        refused(AttributeValueError, "the plain sums; take activation 'none'", dtype="int32", activation="relu"),
        refused(AttributeValueError, "the plain sums; add the bias", (3, scales(8)), dtype="int32"),
        refused(NumericsError, "channel 0 has the factor inf", (2, np.full(8, np.inf))),
        refused(NumericsError, "residual_scale 1e.20 is too large beside y_scale 1e-20", (4, octets(1, 4, 4, 8)),
                x_scale=1e-20, residual_scale=1e20, y_scale=1e-20),
    ],
)  # fmt: skip


def rounded(x, y_scale=1.0, y_zero=0, dtype="uint8"):
    return in_bytes(x.astype(F32) / F32(y_scale), y_zero, dtype)


BORDERLINE = np.array([0.25, 0.75, -0.25, 1e30, -1e30, np.inf, -np.inf, 0.0, -0.0])

spec(
    "quantize_linear",
    reference=rounded,
    gradient=False,
    exact=True,
    dtypes=["float32"],
    samples=[
        Sample([normal(3, 37)], {"y_scale": 0.02, "y_zero": 128}),
        Sample([BORDERLINE], {"y_scale": 0.5, "y_zero": 7}),
        Sample([BORDERLINE], {"y_scale": 0.5, "y_zero": -3, "dtype": "int8"}),
        Sample([normal(0, 4)], {"y_scale": 0.5}),
    ],
    errors=[
        Bad([octets(3)], DTypeError, "x is uint8 but must be float32"),
        Bad([normal(3)], AttributeValueError, "y_scale is nan but", {"y_scale": float("nan")}),
        Bad([normal(3)], AttributeValueError, "y_zero is 256", {"y_zero": 256}),
        Bad([np.array([1.0, np.nan])], NumericsError, "x holds a NaN"),
    ],
)

spec(
    "dequantize_linear",
    reference=lambda x, x_scale=1.0, x_zero=0: (x.astype(F32) - F32(x_zero)) * F32(x_scale),
    gradient=False,
    exact=True,
    dtypes=["float32"],
    samples=[
        Sample([octets(5, 33)], {"x_scale": 0.02, "x_zero": 128}),
        Sample([octets(70, signed=True)], {"x_scale": 3.0, "x_zero": -5}),
        Sample([octets(0, 2)], {"x_scale": 0.5}),
    ],
    errors=[
        Bad([normal(3)], DTypeError, "x is float32 but must be uint8 or int8"),
        Bad([octets(3)], AttributeValueError, "x_scale is -1", {"x_scale": -1.0}),
    ],
)


def added(
    a, b, activation="none", slope=0.01, a_scale=1.0, a_zero=0, b_scale=1.0, b_zero=0, y_scale=1.0, y_zero=0,
    dtype="uint8",
):  # fmt: skip
    v = (a.astype(F32) - F32(a_zero)) * F32(a_scale / y_scale) + (b.astype(F32) - F32(b_zero)) * F32(b_scale / y_scale)
    return in_bytes(ended(v, activation, slope, F32(6 / y_scale)), y_zero, dtype)


STEPS = {"a_scale": 0.02, "a_zero": 100, "b_scale": 0.05, "b_zero": 20, "y_scale": 0.04, "y_zero": 60}

spec(
    "quantized_add",
    reference=added,
    gradient=False,
    exact=True,
    dtypes=["float32"],
    samples=[
        Sample([octets(3, 37), octets(3, 37, seed=1)], STEPS),
        Sample([octets(90, signed=True), octets(90)], STEPS | {"activation": "relu6", "dtype": "int8"}),
        Sample([octets(90), octets(90, signed=True)], STEPS | {"activation": "leaky_relu", "slope": 0.2}),
        Sample([octets(0), octets(0)], STEPS),
    ],
    errors=[
        Bad([octets(3), octets(4)], ShapeError, r"b has shape \[4\] but must have \[3\]"),
        Bad([octets(3), normal(3)], DTypeError, "b is float32 but must be uint8 or int8"),
        Bad([octets(3), octets(3)], AttributeValueError, "b_scale is 0", {"b_scale": 0.0}),
        Bad(
            [octets(3), octets(3)],
            NumericsError,
            "b_scale 1e.20 is too large beside y_scale 1e-20",
            {"b_scale": 1e20, "y_scale": 1e-20},
        ),
        Bad([octets(3), octets(3)], AttributeValueError, "'gelu'; takes", {"activation": "gelu"}),
    ],
)


def fixed(scale):
    """A factor as a whole number of 31 bits and a power of two (Jacob et al. 2018, section 2.2)."""
    part, exponent = np.frexp(scale)
    multiplier = int(np.floor(part * 2.0**31 + 0.5))
    multiplier, exponent = (multiplier // 2, exponent + 1) if multiplier == 1 << 31 else (multiplier, exponent)
    return (0, 0) if exponent < -31 else (multiplier, int(exponent))


def within(v):
    return max(-(2**31), min(2**31 - 1, v))


def shifted(v, scale):
    """v * scale in whole numbers of Python, rounded twice: halves up, then away from 0."""
    multiplier, exponent = fixed(scale)
    once = (within(within(v) << max(exponent, 0)) * multiplier + (1 << 30)) // (1 << 31)
    unit = 1 << max(-exponent, 0)
    return (abs(once) + unit // 2) // unit * (1 if once >= 0 else -1)


def requantized(x, scale, bias=None, y_zero=0, low=-128, high=127, dtype="int8"):
    y = np.zeros(x.shape, np.int64)
    for place in np.ndindex(x.shape):
        k = place[-1]
        total = int(x[place]) + (0 if bias is None else int(bias[k]))
        y[place] = shifted(total, float(scale[k if len(scale) > 1 else 0])) + y_zero
    return np.clip(y, low, high).astype(dtype)


def sums(*shape, size=1 << 20):
    return np.random.default_rng(shape).integers(-size, size, shape).astype(np.int32)


HALVES = np.array([[-3, -2, -1, 0, 1, 2, 3, 2**31 - 1, -(2**31)]], np.int32)
WIDE = {"low": -(2**31), "high": 2**31 - 1, "dtype": "int32"}
FACTORS = np.array([1e-3, 3e-4, 0.25, 1e-12, 0.9999999999], np.float64)

spec(
    "requantize",
    reference=requantized,
    gradient=False,
    exact=True,
    dtypes=["float64"],
    samples=[
        Sample([sums(2, 3, 5), FACTORS, sums(5)], {"y_zero": -7, "low": -100}),
        Sample([sums(7, 33), np.array([1.7e-4])], {"y_zero": 131, "low": 0, "high": 255, "dtype": "uint8"}),
        Sample([HALVES, np.array([0.5])], WIDE),
        Sample([HALVES, np.array([0.25])], WIDE | {"y_zero": 3}),
        Sample([HALVES, np.array([3.0])], WIDE),
        Sample([sums(0, 4), np.array([0.5])], {}),
    ],
    errors=[
        Bad([normal(3), np.array([0.5])], DTypeError, "x is float64 but must be int32"),
        Bad([sums(3), np.array([0.5, 0.5])], ShapeError, r"scale has shape \[2\] but must have \[3\]"),
        Bad([sums(3), np.array([0.5]), sums(2)], ShapeError, r"bias has shape \[2\] but must have \[3\]"),
        Bad([sums(3), np.array([0.0])], NumericsError, r"scale\[0\] is 0 but must lie in"),
        Bad([sums(3), np.array([0.5])], AttributeValueError, "low is -128 and high 127, .* uint8", {"dtype": "uint8"}),
        Bad([sums(3), np.array([0.5])], AttributeValueError, "low is 5 and high 4", {"low": 5, "high": 4}),
    ],
)
