"""Exported video networks take the clips, frames and sizes that the network takes, and say so in the file."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the extra onnx is not installed")

from framework import from_numpy, no_grad, program
from framework.nn import init
from framework.onnx import EXPORT_PASSES, export
from framework.onnx.export import free_axes
from tests.suites.video.models.test_temporal import MODELS

_ALL = ["clips_N", "clips_T", "clips_H", "clips_W", 3]


@pytest.mark.parametrize("name", ["tsn", *MODELS])
def test_clips_of_other_numbers_lengths_and_sizes_run_in_onnx_runtime(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    from suites.video.models.tsn import TSN
    from suites.vision.backbones import MobileNetV2

    net = (TSN(MobileNetV2(0.25, out_strides=(32,)), 5) if name == "tsn" else MODELS[name]()).eval()
    init.initialize(net, 0)
    clips = from_numpy(np.random.default_rng(0).standard_normal((2, 4, 32, 64, 3)).astype(np.float32))
    clips.name = "clips"
    with no_grad():
        traced = program(lambda x: net(x), pass_names=EXPORT_PASSES).program_for(clips).program
        export(traced, tmp_path / "m.onnx", output_names=["logits"])
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        assert session.get_inputs()[0].shape == _ALL and free_axes(traced) == {"clips": [0, 1, 2, 3]}
        for shape in ((2, 4, 32, 64, 3), (1, 6, 48, 33, 3), (3, 2, 65, 40, 3)):
            clips = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            wanted = net(from_numpy(clips)).numpy()
            (found,) = session.run(None, {"clips": clips})
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
