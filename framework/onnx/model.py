"""An ONNX model as a Layer: its weights are parameters, its graph is the forward pass, eager or traced."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from framework import no_grad, program
from framework.errors import AttributeValueError
from framework.graph.compiled import CompiledProgram
from framework.graph.examples import example
from framework.graph.files import check_plan
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.nn.layer import Layer, buffer, parameter
from framework.onnx import operators as _operators  # fills the table of converters
from framework.onnx.interpreter import DataDependent, Interpreter, to_value
from framework.onnx.reading import ModelText, Port, read_model
from framework.tensors import Tensor

del _operators
_log = logging.getLogger("paddock")

# Inputs of operators that hold weights: an initializer that only stands there is a parameter ...
_WEIGHT_INPUTS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "BatchNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "LayerNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "RMSNormalization": (1,),
    "PRelu": (1,),
    "Gather": (0,),
    "LSTM": (1, 2, 3),
    "GRU": (1, 2, 3),
    "RNN": (1, 2, 3),
    "Add": (0, 1),
    "Mul": (0, 1),
}
# ... or a buffer; all other initializers are constants. Weights in 8 bits stay what they are until passes have run.
_BUFFER_INPUTS = {"BatchNormalization": (3, 4), "DequantizeLinear": (0,), "QuantizeLinear": (0,)}
# For an imported model: convolutions come with transpositions around them, which meet and vanish; then those between
# 8-bit numbers work on these.
IMPORT_PASSES = (
    *INFERENCE_PASSES[: INFERENCE_PASSES.index("freeze_states") + 1],
    "sink_transposes",
    "fuse_qdq",
    *INFERENCE_PASSES[INFERENCE_PASSES.index("freeze_states") + 1 :],
)
FLOATS = ("float32", "float64")
_WHOLE = ("int8", "uint8", "int32")  # of weights and biases that DequantizeLinear makes fractions of


class Model(Layer):
    """A model read from an ONNX file; `open_model` makes one.

    Call it with Tensors in the order of `input_names`, in the layout the file has (images as [N, C, H, W]). It runs
    node by node, inside `framework.program` it is traced, and its parameters train like those of any Layer.

    Attributes:
        input_names, output_names: of the graph, in order.
        metadata: the file's own properties.
    """

    def __init__(self, text: ModelText) -> None:
        super().__init__()
        self._tensors: dict[str, tuple[str, Tensor]] = {}  # initializer -> ("parameter" or "buffer", Tensor)
        self._interpreter = Interpreter(text)
        self._text = text
        self.input_names = [p.name for p in text.graph.inputs]
        self.output_names = [p.name for p in text.graph.outputs]
        self.metadata = text.metadata
        self._take_weights()

    def _take_weights(self) -> None:
        """Moves initializers that are weights out of the graph: from here on they are inputs of it."""
        graph = self._text.graph
        kinds = weight_kinds(self._text)
        for name, kind in kinds.items():
            t = (parameter if kind == "parameter" else buffer)(np.array(graph.initializers.pop(name)))
            t.name = name
            self._tensors[name] = (kind, t)
        graph.inputs.extend(Port(name, None, None) for name in kinds)

    @property
    def results(self) -> list[Port]:
        """The same of each output, as far as the file states it."""
        return self._text.graph.outputs

    def _of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        return ((name, t) for name, (k, t) in self._tensors.items() if k == kind)

    @property
    def ports(self) -> list[Port]:
        """Name, type and stated shape of each input."""
        return self._text.graph.inputs[: len(self.input_names)]

    def forward(self, *inputs: Any) -> list[Any]:
        """The graph's outputs, in order.

        Raises:
            AttributeValueError: another number of inputs.
        """
        if len(inputs) != len(self.input_names):
            raise AttributeValueError(f"onnx: got {len(inputs)} inputs; the model takes {self.input_names}")
        return self._interpreter.run([*inputs, *(t for _, t in self._tensors.values())])

    def trace(self, shapes: Mapping[str, Sequence[int]] | None = None, pass_names: Sequence[str] = ()) -> Program:
        """The graph as a Program; see `load`."""
        inputs = [_example(p, (shapes or {}).get(p.name)) for p in self.ports]
        return self._compiled(inputs, pass_names).program

    def _compiled(self, inputs: Sequence[Tensor], pass_names: Sequence[str]) -> CompiledProgram:
        for port, t in zip(self.ports, inputs, strict=True):
            t.name = port.name
        with no_grad():
            return program(self.forward, pass_names=pass_names).program_for(*inputs)


def weight_kinds(text: ModelText) -> dict[str, str]:
    """ "parameter" or "buffer" for each initializer that is a weight, by how all its readers use it."""
    found = {n: a.dtype.name for n, a in text.graph.initializers.items() if a.ndim > 0}
    floats = {name for name, dtype in found.items() if dtype in FLOATS}
    uses: dict[str, set[str]] = {name: set() for name, dtype in found.items() if dtype in (*FLOATS, *_WHOLE)}
    inner = _names_inside(text)
    for node in text.graph.nodes:
        for i, name in enumerate(node.inputs):
            if name in uses:
                is_weight = node.domain == "" and name in floats and i in _WEIGHT_INPUTS.get(node.op, ())
                is_buffer = node.domain == "" and i in _BUFFER_INPUTS.get(node.op, ())
                uses[name].add("parameter" if is_weight else "buffer" if is_buffer else "constant")
    for port in text.graph.outputs:
        uses.pop(port.name, None)
    return {
        name: "buffer" if "buffer" in kinds else "parameter"
        for name, kinds in uses.items()
        if kinds and "constant" not in kinds and name not in inner
    }


def _names_inside(text: ModelText) -> set[str]:
    """All names that bodies of control flow read."""
    found: set[str] = set()

    def walk(graph: Any, inside: bool) -> None:
        for node in graph.nodes:
            if inside:
                found.update(node.inputs)
            for value in node.attributes.values():
                if hasattr(value, "nodes"):
                    found.update(p.name for p in value.outputs)
                    walk(value, True)

    walk(text.graph, False)
    return found


def _example(port: Port, shape: Sequence[int] | None) -> Tensor:
    if port.dtype is None:
        raise AttributeValueError(f"onnx: input '{port.name}' is no tensor of a type the core has")
    return example("onnx", port.name, port.shape, port.dtype, shape, binding=True)


def open_model(source: Any) -> Model:
    """Opens an ONNX model, in evaluation mode, to run eagerly, fine-tune or trace.

    Args:
        source: a path, the bytes of a file, or an `onnx.ModelProto`.

    Raises:
        CheckpointError: the file is missing, cut off or contradicts itself.
        NotSupportedError: it uses operators or types that are not supported; the message lists all of them.
    """
    model = Model(read_model(source))
    model.eval()
    return model


def load(
    source: Any,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    pass_names: Sequence[str] = IMPORT_PASSES,
) -> Program:
    """An ONNX file as a Program, for `CompiledProgram`, `save_program` and the Predictor.

    Images keep the file's layout [N, C, H, W] at the border; inside they are [N, H, W, C].

    Args:
        source: a path, the bytes of a file, or an `onnx.ModelProto`.
        shapes: shape by input name, where the file leaves extents open; an open batch is 1 by default. The Program
            also takes other shapes unless the graph computes with shapes (`program.shape_reads` then says where).
        pass_names: rewrites to run; none keeps weights as states under their names in the file.

    Raises:
        CheckpointError, NotSupportedError: as in `open_model`; also where a shape depends on the data.
        AttributeValueError, ShapeError: an input's shape is open and not given, or does not fit.
    """
    return program_of(open_model(source), shapes, pass_names=pass_names)


def program_of(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None, *, pass_names: Sequence[str] = IMPORT_PASSES
) -> Program:
    """A model that was opened as a Program; see `load`, which raises the same."""
    found = model.trace(shapes, pass_names)
    check_plan(found)
    return found


class Session:
    """Runs a model on arrays: as a Program where that can be, else node by node, which it says once in the log."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._eager = any(p.dtype is None for p in model.ports)
        self._function = program(model.forward, pass_names=IMPORT_PASSES)

    @property
    def is_eager(self) -> bool:
        """Whether it runs node by node."""
        return self._eager

    def kept_bytes(self) -> int:
        """Bytes of the host that its Programs keep from run to run."""
        found: int = self._function.kept_bytes()
        return found

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Outputs as arrays (lists of arrays for sequences)."""
        values = [_in(x) for x in inputs]
        with no_grad():
            if not self._eager:
                try:
                    return [_out(y) for y in self._function(*values)]
                except DataDependent as e:
                    _log.info("%s; running node by node from here on", e)
                    self._eager = True
            return [_out(y) for y in self.model(*values)]


def _in(x: Any) -> Any:
    if x is None or isinstance(x, Tensor):
        return x
    return [_in(v) for v in x] if isinstance(x, (list, tuple)) else to_value(np.asarray(x))


def _out(y: Any) -> Any:
    if isinstance(y, Tensor):
        return y.numpy()
    return [_out(v) for v in y] if isinstance(y, (list, tuple)) else y
