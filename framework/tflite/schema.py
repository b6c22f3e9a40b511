"""The part of TensorFlow Lite's schema (version 3) that is read: numbers of operators and types, fields of options.

Source: tensorflow/compiler/mlir/lite/schema/schema.fbs of TensorFlow; numbers and fields never change there.
"""

from __future__ import annotations

IDENTIFIER = b"TFL3"
VERSION = 3

TENSOR_TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    9: "int8",
    10: "float64",
}
# For messages about what is not read.
OTHER_TYPES = {
    5: "string",
    7: "int16",
    8: "complex64",
    11: "complex128",
    12: "uint64",
    13: "resource",
    14: "variant",
    15: "uint32",
    16: "uint16",
    17: "int4",
    18: "bfloat16",
}

# By number; CUSTOM operators go by their own names.
OPERATORS = (
    *("ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE"),
    *("EMBEDDING_LOOKUP", "FLOOR", "FULLY_CONNECTED", "HASHTABLE_LOOKUP", "L2_NORMALIZATION", "L2_POOL_2D"),
    *("LOCAL_RESPONSE_NORMALIZATION", "LOGISTIC", "LSH_PROJECTION", "LSTM", "MAX_POOL_2D", "MUL", "RELU"),
    *("RELU_N1_TO_1", "RELU6", "RESHAPE", "RESIZE_BILINEAR", "RNN", "SOFTMAX", "SPACE_TO_DEPTH", "SVDF", "TANH"),
    *("CONCAT_EMBEDDINGS", "SKIP_GRAM", "CALL", "CUSTOM", "EMBEDDING_LOOKUP_SPARSE", "PAD"),
    *("UNIDIRECTIONAL_SEQUENCE_RNN", "GATHER", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB"),
    *("DIV", "SQUEEZE", "UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE", "BIDIRECTIONAL_SEQUENCE_RNN", "EXP"),
    *("TOPK_V2", "SPLIT", "LOG_SOFTMAX", "DELEGATE", "BIDIRECTIONAL_SEQUENCE_LSTM", "CAST", "PRELU", "MAXIMUM"),
    *("ARG_MAX", "MINIMUM", "LESS", "NEG", "PADV2", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "SELECT", "SLICE"),
    *("SIN", "TRANSPOSE_CONV", "SPARSE_TO_DENSE", "TILE", "EXPAND_DIMS", "EQUAL", "NOT_EQUAL", "LOG", "SUM", "SQRT"),
    *("RSQRT", "SHAPE", "POW", "ARG_MIN", "FAKE_QUANT", "REDUCE_PROD", "REDUCE_MAX", "PACK", "LOGICAL_OR", "ONE_HOT"),
    *("LOGICAL_AND", "LOGICAL_NOT", "UNPACK", "REDUCE_MIN", "FLOOR_DIV", "REDUCE_ANY", "SQUARE", "ZEROS_LIKE", "FILL"),
    *("FLOOR_MOD", "RANGE", "RESIZE_NEAREST_NEIGHBOR", "LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS"),
    *("SPLIT_V", "UNIQUE", "CEIL", "REVERSE_V2", "ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "ELU"),
    *("REVERSE_SEQUENCE", "MATRIX_DIAG", "QUANTIZE", "MATRIX_SET_DIAG", "ROUND", "HARD_SWISH", "IF", "WHILE"),
    *("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SELECT_V2", "DENSIFY", "SEGMENT_SUM"),
    *("BATCH_MATMUL", "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM", "CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D"),
    *("IMAG", "REAL", "COMPLEX_ABS", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"),
    *("REDUCE_ALL", "CONV_3D_TRANSPOSE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "BROADCAST_ARGS"),
    *("RANDOM_STANDARD_NORMAL", "BUCKETIZE", "RANDOM_UNIFORM", "MULTINOMIAL", "GELU", "DYNAMIC_UPDATE_SLICE"),
    *("RELU_0_TO_1", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "ATAN2"),
    *("UNSORTED_SEGMENT_MIN", "SIGN"),
)

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
PADDINGS = ("SAME", "VALID")

_WINDOW = (("padding", 0, "b", 0), ("stride_w", 1, "i", 0), ("stride_h", 2, "i", 0))
_FUSED = (("activation", 0, "b", 0),)
_AXIS_FIRST = (("axis", 0, "i", 0),)
_BLOCK = (("block_size", 0, "i", 0),)
_POOL = (*_WINDOW, ("filter_w", 3, "i", 0), ("filter_h", 4, "i", 0), ("activation", 5, "b", 0))
_KEEP = (("keep_dims", 0, "?", 0),)

# Options of an operator: (name, field, kind of number, default).
OPTIONS: dict[str, tuple[tuple[str, int, str, float], ...]] = {
    "CONV_2D": (*_WINDOW, ("activation", 3, "b", 0), ("dilation_w", 4, "i", 1), ("dilation_h", 5, "i", 1)),
    "DEPTHWISE_CONV_2D": (
        *_WINDOW,
        *(("multiplier", 3, "i", 0), ("activation", 4, "b", 0), ("dilation_w", 5, "i", 1), ("dilation_h", 6, "i", 1)),
    ),
    "TRANSPOSE_CONV": (*_WINDOW, ("activation", 3, "b", 0)),
    "AVERAGE_POOL_2D": _POOL,
    "MAX_POOL_2D": _POOL,
    "L2_POOL_2D": _POOL,
    "ADD": _FUSED,
    "SUB": _FUSED,
    "MUL": _FUSED,
    "DIV": _FUSED,
    "L2_NORMALIZATION": _FUSED,
    "FULLY_CONNECTED": (*_FUSED, ("weights_format", 1, "b", 0), ("keep_num_dims", 2, "?", 0)),
    "BATCH_MATMUL": (("adj_x", 0, "?", 0), ("adj_y", 1, "?", 0)),
    "SOFTMAX": (("beta", 0, "f", 0.0),),
    "CONCATENATION": (*_AXIS_FIRST, ("activation", 1, "b", 0)),
    "PACK": (("count", 0, "i", 0), ("axis", 1, "i", 0)),
    "UNPACK": (("count", 0, "i", 0), ("axis", 1, "i", 0)),
    "GATHER": (*_AXIS_FIRST, ("batch_dims", 1, "i", 0)),
    "SPLIT": (("count", 0, "i", 0),),
    "SPLIT_V": (("count", 0, "i", 0),),
    "ONE_HOT": _AXIS_FIRST,
    "RESIZE_BILINEAR": (("align_corners", 2, "?", 0), ("half_pixel", 3, "?", 0)),
    "RESIZE_NEAREST_NEIGHBOR": (("align_corners", 0, "?", 0), ("half_pixel", 1, "?", 0)),
    "ARG_MAX": (("output_type", 0, "b", 0),),
    "LEAKY_RELU": (("alpha", 0, "f", 0.0),),
    "GELU": (("approximate", 0, "?", 0),),
    "DEPTH_TO_SPACE": _BLOCK,
    "SPACE_TO_DEPTH": _BLOCK,
    "MIRROR_PAD": (("mode", 0, "b", 0),),
    "CUMSUM": (("exclusive", 0, "?", 0), ("reverse", 1, "?", 0)),
    "STRIDED_SLICE": tuple(
        (name, i, "i", 0) for i, name in enumerate(("begin", "end", "ellipsis", "new_axis", "shrink_axis"))
    ),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), _KEEP),
}
# Options that are vectors of int32: (name, field).
LISTS = {"RESHAPE": ("new_shape", 0), "SQUEEZE": ("squeeze_dims", 0)}
# Which kind of options stands beside an operator (the union BuiltinOptions), by number; 0 is none.
OPTION_KINDS = {
    **{"CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "TRANSPOSE_CONV": 49, "AVERAGE_POOL_2D": 5, "MAX_POOL_2D": 5},
    **{"L2_POOL_2D": 5, "ADD": 11, "SUB": 28, "MUL": 21, "DIV": 29, "L2_NORMALIZATION": 12, "FULLY_CONNECTED": 8},
    **{"BATCH_MATMUL": 101, "SOFTMAX": 9, "CONCATENATION": 10, "PACK": 59, "UNPACK": 64, "GATHER": 23, "SPLIT": 35},
    **{"SPLIT_V": 79, "ONE_HOT": 61, "RESIZE_BILINEAR": 15, "RESIZE_NEAREST_NEIGHBOR": 74, "LEAKY_RELU": 75},
    **{"GELU": 116, "DEPTH_TO_SPACE": 94, "SPACE_TO_DEPTH": 19, "MIRROR_PAD": 77, "CUMSUM": 102},
    **{"STRIDED_SLICE": 32, "MEAN": 27, "SUM": 27, "REDUCE_MAX": 27, "REDUCE_MIN": 27, "REDUCE_PROD": 27},
    **{"REDUCE_ANY": 27, "REDUCE_ALL": 27, "RESHAPE": 17, "SQUEEZE": 30, "ARG_MAX": 40},
}
