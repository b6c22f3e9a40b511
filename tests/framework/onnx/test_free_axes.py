"""An exported file leaves open what the Program takes, and nothing that it does not."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from framework import from_numpy, nn, no_grad, ops, program
from framework.onnx import EXPORT_PASSES
from framework.onnx.export import free_axes, to_model

CONV = nn.Conv2d(3, 4, 3, padding=1)
LINEAR = nn.Linear(8, 4)
POSITIONS = from_numpy(np.ones((1, 6, 1), np.float32))
CASES = {
    "images": (lambda x: CONV(x), (2, 8, 8, 3), ["x_N", "x_H", "x_W", 3]),
    "images of one height": (lambda x: ops.transpose(LINEAR(ops.transpose(x, perm=(0, 2, 3, 1))), perm=(0, 3, 1, 2)),
                             (2, 8, 6, 3), ["x_N", 8, "x_W", 3]),
    "clips of six frames": (lambda x: x + ops.reshape(POSITIONS, shape=(1, 6, 1, 1, 1)), (2, 6, 8, 8, 3),
                            ["x_N", 6, "x_H", "x_W", 3]),
    "views": (lambda x: ops.relu(x), (1, 2, 3, 8, 8, 3), ["x_N", "x_V", "x_T", "x_H", "x_W", 3]),
    "rows": (lambda x: LINEAR(x), (5, 8), ["x_N", 8]),
    "numbers": (lambda x: ops.relu(x), (5,), ["x_N"]),
    "sequences": (lambda x: LINEAR(x), (2, 5, 8), ["x_N", "x_1", 8]),
    "sequences of six": (lambda x: x + POSITIONS, (2, 6, 8), ["x_N", 6, 8]),
    "a shape that is read": (lambda x: ops.reshape(x, shape=(x.shape[0], -1)), (2, 8, 8, 3), [2, 8, 8, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_open_axes_are_those_that_the_program_takes(name):
    compute, shape, wanted = CASES[name]
    x = from_numpy(np.zeros(shape, np.float32))
    x.name = "x"
    with no_grad():
        compiled = program(compute, pass_names=EXPORT_PASSES)
        traced = compiled.program_for(x).program
        dims = to_model(traced).graph.input[0].type.tensor_type.shape.dim
        assert [d.dim_param or d.dim_value for d in dims] == wanted
        assert free_axes(traced) == {"x": [i for i, name in enumerate(wanted) if isinstance(name, str)]}
        for axis in free_axes(traced)["x"]:
            compiled(from_numpy(np.zeros([n + 2 * (i == axis) for i, n in enumerate(shape)], np.float32)))
