"""Files of one operator each, with what NumPy makes of the same input: also compared with TensorFlow Lite's runtime."""

import numpy as np

from tests.framework.tflite.models import single

RNG = np.random.default_rng(7)
F32 = ("float32", [2, 3, 4])


def ints(*values):
    return np.array(values, np.int32)


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


SLOPE, PADS = floats(1, 1, 4), ints(0, 1, 2, 0, 1, 1).reshape(3, 2)
KERNEL, BIAS = floats(5, 3, 2, 3), floats(5)
IMAGE = ("float32", [1, 5, 7, 3])


def unary(op, shape, function, **options):
    return single(op, [F32], shape, **options), function


# name -> (file, function of the inputs as arrays)
CASES = {
    "abs": unary("ABS", [2, 3, 4], np.abs),
    "exp": unary("EXP", [2, 3, 4], np.exp),
    "square": unary("SQUARE", [2, 3, 4], np.square),
    "neg": unary("NEG", [2, 3, 4], np.negative),
    "floor": unary("FLOOR", [2, 3, 4], np.floor),
    "ceil": unary("CEIL", [2, 3, 4], np.ceil),
    "round": unary("ROUND", [2, 3, 4], np.round),
    "sin": unary("SIN", [2, 3, 4], np.sin),
    "cos": unary("COS", [2, 3, 4], np.cos),
    "elu": unary("ELU", [2, 3, 4], lambda x: np.where(x > 0, x, np.expm1(x))),
    "tanh": unary("TANH", [2, 3, 4], np.tanh),
    "logistic": unary("LOGISTIC", [2, 3, 4], lambda x: 1 / (1 + np.exp(-x))),
    "relu": unary("RELU", [2, 3, 4], lambda x: np.maximum(x, 0)),
    "relu6": unary("RELU6", [2, 3, 4], lambda x: np.clip(x, 0, 6)),
    "relu between -1 and 1": unary("RELU_N1_TO_1", [2, 3, 4], lambda x: np.clip(x, -1, 1)),
    "hard swish": unary("HARD_SWISH", [2, 3, 4], lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "leaky relu": unary("LEAKY_RELU", [2, 3, 4], lambda x: np.where(x > 0, x, 0.3 * x), alpha=0.3),
    "softmax": unary("SOFTMAX", [2, 3, 4], lambda x: np.exp(2 * x) / np.exp(2 * x).sum(-1, keepdims=True), beta=2.0),
    "log softmax": unary("LOG_SOFTMAX", [2, 3, 4], lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "lengths": unary("L2_NORMALIZATION", [2, 3, 4], lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)),
    "prelu": (single("PRELU", [F32, SLOPE], [2, 3, 4]), lambda x: np.where(x > 0, x, SLOPE * x)),
    "add and relu": (single("ADD", [F32, F32], [2, 3, 4], activation="RELU"), lambda a, b: np.maximum(a + b, 0)),
    "sub of a vector": (single("SUB", [F32, SLOPE], [2, 3, 4]), lambda a: a - SLOPE),
    "mul": (single("MUL", [F32, F32], [2, 3, 4]), np.multiply),
    "div": (single("DIV", [F32, F32], [2, 3, 4]), np.divide),
    "squared difference": (single("SQUARED_DIFFERENCE", [F32, F32], [2, 3, 4]), lambda a, b: (a - b) ** 2),
    "maximum": (single("MAXIMUM", [F32, F32], [2, 3, 4]), np.maximum),
    "greater": (single("GREATER", [F32, F32], [2, 3, 4], "bool"), np.greater),
    "mean": (single("MEAN", [F32, ints(0, 2)], [1, 3, 1], keep_dims=True), lambda x: x.mean((0, 2), keepdims=True)),
    "sum": (single("SUM", [F32, ints(-1)], [2, 3]), lambda x: x.sum(-1)),
    "largest": (single("REDUCE_MAX", [F32, ints(1)], [2, 4]), lambda x: x.max(1)),
    "arg max": (single("ARG_MAX", [F32, ints(2)], [2, 3], "int64", output_type=4), lambda x: x.argmax(2)),
    "cumsum": (single("CUMSUM", [F32, np.array(1, np.int32)], [2, 3, 4]), lambda x: x.cumsum(1)),
    "reshape": (single("RESHAPE", [F32, ints(4, -1)], [4, 6]), lambda x: x.reshape(4, 6)),
    "squeeze": (single("SQUEEZE", [("float32", [1, 3, 1])], [3], squeeze_dims=[0, 2]), lambda x: x[0, :, 0]),
    "expand": (single("EXPAND_DIMS", [F32, ints(1)], [2, 1, 3, 4]), lambda x: x[:, None]),
    "transpose": (single("TRANSPOSE", [F32, ints(2, 0, 1)], [4, 2, 3]), lambda x: x.transpose(2, 0, 1)),
    "concat": (single("CONCATENATION", [F32, F32], [2, 6, 4], axis=1), lambda a, b: np.concatenate([a, b], 1)),
    "pack": (single("PACK", [F32, F32], [2, 3, 2, 4], count=2, axis=2), lambda a, b: np.stack([a, b], 2)),
    "slice": (single("SLICE", [F32, ints(0, 1, 1), ints(2, 2, -1)], [2, 2, 3]), lambda x: x[:, 1:3, 1:]),
    "strided slice": (
        single("STRIDED_SLICE", [F32, ints(0, 2, 0), ints(0, 0, 4), ints(1, -1, 2)], [3, 2],
               end=2, shrink_axis=1),
        lambda x: x[0, ::-1, ::2],
    ),
    "pad": (single("PAD", [F32, PADS], [3, 5, 6]), lambda x: np.pad(x, PADS)),
    "mirror": (single("MIRROR_PAD", [F32, ints(0, 0, 1, 1, 2, 1).reshape(3, 2)], [2, 5, 7]),
               lambda x: np.pad(x, [(0, 0), (1, 1), (2, 1)], mode="reflect")),
    "tile": (single("TILE", [F32, ints(1, 2, 1)], [2, 6, 4]), lambda x: np.tile(x, (1, 2, 1))),
    "gather": (single("GATHER", [F32, ints(2, 0)], [2, 2, 4], axis=1), lambda x: x[:, [2, 0]]),
    "gather of places": (single("GATHER_ND", [F32, ints(1, 2, 0, 1).reshape(2, 2)], [2, 4]),
                         lambda x: x[[1, 0], [2, 1]]),
    "reverse": (single("REVERSE_V2", [F32, ints(1)], [2, 3, 4]), lambda x: x[:, ::-1]),
    "depth to space": (
        single("DEPTH_TO_SPACE", [("float32", [1, 2, 3, 8])], [1, 4, 6, 2], block_size=2),
        lambda x: x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2),
    ),
    "space to depth": (
        single("SPACE_TO_DEPTH", [("float32", [1, 4, 6, 2])], [1, 2, 3, 8], block_size=2),
        lambda x: x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 8),
    ),
    "space to batch": (
        single("SPACE_TO_BATCH_ND", [("float32", [1, 4, 6, 2]), ints(2, 3), ints(0, 0, 0, 0).reshape(2, 2)],
               [6, 2, 2, 2]),
        lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(2, 4, 0, 1, 3, 5).reshape(6, 2, 2, 2),
    ),
    "batch to space": (
        single("BATCH_TO_SPACE_ND", [("float32", [4, 2, 3, 2]), ints(2, 2), ints(0, 0, 1, 0).reshape(2, 2)],
               [1, 4, 5, 2]),
        lambda x: x.reshape(2, 2, 1, 2, 3, 2).transpose(2, 3, 0, 4, 1, 5).reshape(1, 4, 6, 2)[:, :, 1:],
    ),
    "matrices": (single("BATCH_MATMUL", [F32, ("float32", [2, 5, 4])], [2, 3, 5], adj_y=True),
                 lambda a, b: a @ b.transpose(0, 2, 1)),
    "strided convolution": (
        single("CONV_2D", [IMAGE, KERNEL, BIAS], [1, 2, 6, 5], padding="VALID", stride_h=2, stride_w=1),
        lambda x: np.stack([[[np.tensordot(KERNEL, x[0, 2 * p : 2 * p + 3, q : q + 2], 3) + BIAS for q in range(6)]
                             for p in range(2)]]),
    ),
    "nearest": (single("RESIZE_NEAREST_NEIGHBOR", [IMAGE, ints(10, 7)], [1, 10, 7, 3]), lambda x: x.repeat(2, 1)),
    "bilinear from the corner": (
        single("RESIZE_BILINEAR", [IMAGE, ints(10, 7)], [1, 10, 7, 3]),
        lambda x: np.stack([x[:, min(p // 2 + i, 4)] for p in range(10) for i in range(2)], 1)
        .reshape(1, 10, 2, 7, 3)[:, :, 0] * 0.5 + 0.5 * np.stack(
            [x[:, min(p // 2 + p % 2, 4)] for p in range(10)], 1),
    ),
}  # fmt: skip


def inputs_of(model, seed=3):
    """Random arrays for a model's inputs."""
    rng = np.random.default_rng(seed)
    found = []
    for t in model.inputs:
        shape = [d or 1 for d in t.shape]
        whole = t.dtype in ("uint8", "int8")
        x = rng.integers(-128 if t.dtype == "int8" else 0, 128, shape) if whole else rng.normal(size=shape)
        found.append(x.astype(t.dtype))
    return found
