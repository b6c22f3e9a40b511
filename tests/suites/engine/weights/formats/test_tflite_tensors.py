"""Weights of .tflite files: by operator and order, in our layout, as the numbers that 8 bits stand for."""

import numpy as np
import pytest

from framework.errors import CheckpointError
from framework.tflite import open_model
from suites.engine.weights.formats.reading import read_weights
from tests.framework.tflite.models import File, single, small_eight, small_network


def saved(path, data):
    path.write_bytes(data)
    return path


def test_half_precision_comes_as_float32_by_the_order_of_operators(tmp_path):
    arrays = read_weights(saved(tmp_path / "m.tflite", small_network()))
    assert {name: a.shape for name, a in arrays.items()} == {
        "conv_2d.0.weight": (4, 3, 3, 3), "conv_2d.0.bias": (4,), "fully_connected.0.weight": (5, 16)
    }  # fmt: skip
    assert all(a.dtype == np.float32 for a in arrays.values())


def test_integers_come_as_what_they_stand_for(tmp_path):
    weight = np.random.default_rng(0).integers(-127, 128, (1, 3, 3, 4)).astype(np.int8)
    scale = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    f = File()
    x = f.given("x", "int8", [1, 5, 5, 4], scale=0.5)
    w = f.constant("w", weight, scale=scale, zero=[0, 1, 2, 3], axis=3)
    b = f.constant("b", np.array([1, -2, 3, 4], np.int32), scale=scale * 0.5)
    y = f.tensor("y", "int8", [1, 5, 5, 4], scale=1.0)
    f.node("DEPTHWISE_CONV_2D", [x, w, b], y, padding="SAME", stride_h=1, stride_w=1, multiplier=1)
    arrays = read_weights(saved(tmp_path / "m.tflite", f.bytes(y)))
    wanted = (weight.astype(float) - [0, 1, 2, 3]) * scale.astype(float)
    np.testing.assert_allclose(arrays["depthwise_conv_2d.0.weight"], wanted.transpose(3, 1, 2, 0), rtol=1e-6)
    np.testing.assert_allclose(arrays["depthwise_conv_2d.0.bias"], [0.05, -0.2, 0.45, 0.8], rtol=1e-6)


def test_a_bias_without_a_scale_counts_steps_of_the_sums(tmp_path):
    file = open_model(small_eight())
    _, w, b = (t for t in file._text.tensors[:3])
    bias = read_weights(saved(tmp_path / "n.tflite", small_eight()))["conv_2d.0.bias"]
    np.testing.assert_allclose(bias, b.array * 0.02 * w.steps.scale, rtol=1e-6)


def test_a_file_without_weights_and_one_that_is_none_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"m\.tflite: a \.tflite file without weights in it"):
        read_weights(saved(tmp_path / "m.tflite", single("ABS", [("float32", [2])], [2])))
    with pytest.raises(CheckpointError, match="is no TensorFlow Lite file"):
        read_weights(saved(tmp_path / "m.tflite", b"nothing"))
