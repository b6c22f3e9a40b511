"""Writing ONNX files: every operator against the ONNX package's own evaluator, whole models back through our reader."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx.reference import ReferenceEvaluator

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, NotSupportedError
from framework.graph.compiled import CompiledProgram
from framework.onnx import EXPORT_PASSES, Session, export, load, open_model
from framework.onnx.export import to_model
from framework.onnx.names import written_as
from framework.onnx.writer import EXPORTERS
from framework.ops import dispatch, internal
from tests.framework.onnx.models import weights
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS

# Where the results are not ONNX's to define, or its evaluator (not ONNX Runtime, which agrees) fails.
LEFT_OUT = {
    **dict.fromkeys(["cast-2", "cast-3", "cast-4", "cast-5"], "floats beyond the range of whole numbers"),
    **dict.fromkeys(["floor_div-11", "floor_div-12", "mod-11", "mod-12"], "whole numbers divided by 0"),
    **dict.fromkeys(["argmax-3", "argmin-3", "max-21", "min-21"], "NaN among the elements"),
    "quantized_matmul-13": "a row with a NaN, all of which is NaN",
    **dict.fromkeys(["quantize_linear-1", "quantize_linear-2"], "the evaluator's whole numbers of infinities"),
    **dict.fromkeys(
        [f"{name}-{i}" for name in ("dequantize_linear", "quantized_add", "quantized_conv2d") for i in range(17)]
        + [f"quantized_conv2d-{i}" for i in (*range(20, 26), 27, 28)],
        "the evaluator has DequantizeLinear from opset 19 on; see test_quantized_image.py",
    ),
    "conv2d_transpose-2": "the evaluator's groups",
    "max_pool2d-4": "the evaluator's uneven padding",
    "logsumexp-1": "the evaluator's reduction of a number",
    "softsign-2": "the evaluator's Softsign of a number",
    **dict.fromkeys([f"grid_sample-{i}" for i in (*range(6), 12, 13, 14)], "the evaluator's names of later modes"),
}
# What ONNX has no operator for, and what export says then.
_RESIDUAL, _FUSED = "its residual is not written", "its fused inputs are not written"
_ACTIVATION, _DROPPED = "its activation '.*' is not written", "weights are dropped at random"
_FEW_AXES = "group norm of [23] axes is not written; 4 are"
_WEIGHTS = "its weights are computed; ONNX takes constants"  # with constant ones: test_sequences.py
REFUSED = {
    **dict.fromkeys(["batch_norm_inference-5", "batch_norm_inference-6"], _RESIDUAL),
    **dict.fromkeys(["group_norm-1", "group_norm-3"], _FEW_AXES),
    **dict.fromkeys([f"{name}-{i}" for name in ("gru", "lstm") for i in range(5)], _WEIGHTS),
    **dict.fromkeys([f"matmul-{i}" for i in (10, 11, 12, 16, 20)], _FUSED),
    **dict.fromkeys([f"matmul-{i}" for i in (14, 15, 17, 18, 19)], _ACTIVATION),
    **dict.fromkeys(["quantized_matmul-5", "quantized_matmul-6"], _ACTIVATION),
    **dict.fromkeys([f"multiclass_nms-{i}" for i in range(5, 11)], "its method '.*' is not written"),
    "nonzero_sized-3": "no places in a number without axes",
    **dict.fromkeys([f"scaled_dot_product_attention-{i}" for i in (2, 4, 5)], _DROPPED),
    **dict.fromkeys([*(f"ragged_attention-{i}" for i in (3, 4, 6)), "ragged_self_attention-2"], _DROPPED),
}
# Outputs that are written; those after them are for gradients.
WRITTEN = {"group_norm": 1, "gru": 2, "lstm": 3}
BY_THE_WRITER = ("Transpose", "Identity", "Reshape", "Cast", "Shape", "Gather")  # layouts, shapes, results


def _can_be_compared(sample):
    """Not by ONNX's evaluator: tensors without elements, and operators without inputs, which are constants."""
    present = [x for x in sample.inputs if x is not None]
    return bool(present) and all(x.size for x in present)


CASES = [
    pytest.param(SPECS[name], i, id=f"{name}-{i}")
    for name in sorted(set(EXPORTERS) & set(SPECS))  # control flow stands in test_control.py
    for i in range(len(SPECS[name].samples))
    if f"{name}-{i}" not in LEFT_OUT and _can_be_compared(SPECS[name].samples[i])
]


def program_of(function, *inputs, pass_names=EXPORT_PASSES):
    with framework.no_grad():
        return framework.program(function, pass_names=pass_names).program_for(*inputs).program


def exported_sample(spec, i):
    """What runs a sample eagerly, its inputs that are there, and the ONNX model of it."""
    sample = spec.samples[i]
    given = sample.tensors("float32")
    present = [t for t in given if t is not None]

    def call(*tensors):
        found = iter(tensors)
        out = dispatch.call_by_name(spec.name, [None if t is None else next(found) for t in given], **sample.attrs)
        return (out if isinstance(out, tuple) else (out,))[: WRITTEN.get(spec.name)]

    return call, present, to_model(program_of(call, *present))


@pytest.mark.parametrize(("spec", "i"), [case for case in CASES if case.id in REFUSED])
def test_what_onnx_cannot_say_is_refused(spec, i):
    with pytest.raises(NotSupportedError, match=f"onnx: {spec.name} .*{REFUSED[f'{spec.name}-{i}']}"):
        exported_sample(spec, i)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("spec", "i"), [case for case in CASES if case.id not in REFUSED])
def test_an_exported_operator_gives_the_results_of_onnx_s_own_evaluator(spec, i):
    call, present, proto = exported_sample(spec, i)
    onnx.checker.check_model(proto, full_check=True)
    assert {node.op_type for node in proto.graph.node} <= {*written_as(spec.name), *BY_THE_WRITER}
    feeds = {p.name: t.numpy() for p, t in zip(proto.graph.input, present, strict=True)}
    expected = ReferenceEvaluator(proto).run(None, feeds)
    got = [t.numpy() for t in call(*present)]
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape and g.dtype == e.dtype
        scale = max(1.0, float(np.abs(g[np.isfinite(g)]).max(initial=0)) if g.dtype.kind == "f" else 1.0)
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5 * scale)


def test_the_names_in_the_reference_are_those_of_the_exporters():
    assert written_as("softmax") == ["Softmax"] and written_as("log_softmax") == ["LogSoftmax"]
    assert written_as("conv2d")[0] == "Conv" and written_as("gelu") == ["Mul", "Add", "Tanh", "Erf"]
    assert written_as("group_norm") == ["Reshape", "InstanceNormalization", "Shape", "Mul", "Add"]
    assert written_as("adam_step") == []
    nothing = {"arange"}  # a constant
    assert {name for name in EXPORTERS if not written_as(name)} <= nothing


class Net(nn.Layer):
    """A small network that uses images and vectors, and nothing of their extents."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.n = nn.BatchNorm(8)
        self.b = nn.Conv2d(16, 4, 1)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        y = ops.leaky_relu(self.n(self.a(x)), slope=0.1)
        small = ops.max_pool2d(y, kernel=2, stride=2)
        y = ops.concat([y, ops.resize_nearest(small, scale=2)], axis=3)
        y = ops.silu(self.b(y)) * 0.5
        return ops.softmax(self.fc(ops.mean(y, axes=(1, 2)))), y


def exported(tmp_path):
    nn.init.initialize(net := Net(), seed=0) if hasattr(nn.init, "initialize") else None
    net.eval()
    x = framework.tensor(weights(1, 16, 16, 3))
    x.name = "images"
    program = program_of(net, x)
    path = tmp_path / "net.onnx"
    export(program, path, output_names=["scores", "features"], metadata={"classes": ["a", "b"], "suite": "test"})
    return net, program, path


def test_a_network_is_written_with_two_transpositions_and_checks(tmp_path):
    _, _, path = exported(tmp_path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    # In at the border, and once more where an image is a result.
    assert [n.op_type for n in proto.graph.node].count("Transpose") <= 3
    assert [n.op_type for n in proto.graph.node].count("BatchNormalization") == 0


@pytest.mark.parametrize("shape", [(1, 16, 16, 3), (3, 16, 16, 3), (2, 24, 20, 3)])
def test_batch_and_image_size_are_open(tmp_path, shape):
    _, program, path = exported(tmp_path)
    x = weights(*shape, seed=5)
    ours = CompiledProgram(program).run([framework.tensor(x)])
    theirs = ReferenceEvaluator(str(path)).run(None, {"images": x})
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-4, atol=1e-5)


def test_what_is_written_reads_back_as_the_same_network(tmp_path):
    _, program, path = exported(tmp_path)
    x = weights(1, 16, 16, 3, seed=6)
    ours = CompiledProgram(program).run([framework.tensor(x)])
    again = CompiledProgram(load(path, {"images": (1, 16, 16, 3)})).run([framework.tensor(x)])
    for a, b in zip(ours, again, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_at_a_grid_reads_back_as_itself(padding):
    """What ONNX's evaluator leaves out above; our reader passes ONNX's own tests of it."""
    x, grid = weights(2, 5, 4, 3), 1.3 * np.tanh(weights(2, 3, 4, 2, seed=1))

    def sample(x, grid):
        return ops.grid_sample(x, grid, padding=padding)

    (again,) = Session(open_model(to_model(program_of(sample, x, grid)))).run([x, grid])
    np.testing.assert_allclose(sample(framework.tensor(x), framework.tensor(grid)).numpy(), again, rtol=1e-4, atol=1e-6)


def test_metadata_and_the_operator_set_stand_in_the_file(tmp_path):
    _, _, path = exported(tmp_path)
    proto = onnx.load(path)
    assert [(o.domain, o.version) for o in proto.opset_import] == [("", 17)]
    metadata = open_model(path).metadata
    assert json.loads(metadata["classes"]) == ["a", "b"] and metadata["suite"] == "test"


def test_detections_come_out_in_the_same_rows():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 80, (2, 60, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(5, 40, (2, 60, 2))], -1).astype(np.float32)
    scores = rng.random((2, 60, 3)).astype(np.float32)

    def detect(boxes, scores):
        return ops.multiclass_nms(boxes, scores, score_threshold=0.3, nms_top_k=20, iou_threshold=0.5, keep_top_k=25)

    program = program_of(detect, boxes, scores)
    detections, counts, index = Session(open_model(to_model(program))).run([boxes, scores])
    ours = CompiledProgram(program).run([framework.tensor(boxes), framework.tensor(scores)])
    np.testing.assert_array_equal(ours[1].numpy(), counts)
    np.testing.assert_array_equal(ours[2].numpy(), index)
    np.testing.assert_allclose(ours[0].numpy(), detections, rtol=1e-6)


def test_all_operators_that_cannot_be_written_are_listed():
    def f(x):
        return internal.relu_grad(internal.sigmoid_grad(x, x), x)

    with pytest.raises(NotSupportedError, match=r"2 operators cannot be written: sigmoid_grad \(from .*, relu_grad"):
        to_model(program_of(f, weights(3)))


def test_the_number_of_output_names_is_checked():
    with pytest.raises(AttributeValueError, match="2 output names for 1 results"):
        to_model(program_of(ops.relu, weights(3)), ["a", "b"])
