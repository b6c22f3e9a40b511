"""A TensorFlow Lite model as a Layer: its float weights are parameters, its graph is the forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from framework import no_grad, program, tensor
from framework.errors import AttributeValueError
from framework.graph.compiled import CompiledProgram
from framework.graph.examples import example
from framework.graph.files import check_plan
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.nn.layer import Layer, parameter
from framework.tensors import Tensor
from framework.tflite import operators as _operators  # fills the table of converters
from framework.tflite.interpreter import Interpreter
from framework.tflite.reading import ModelText, TensorText, plain_constants, read_model

del _operators

# Inputs of operators that hold weights: a float constant that only stands there is a parameter.
_WEIGHT_INPUTS = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), (1, 2)),
    "TRANSPOSE_CONV": (1, 3),
    "PRELU": (1,),
    "BATCH_MATMUL": (1,),
}


class Model(Layer):
    """A model read from a .tflite file; `open_model` makes one.

    Call it with Tensors in the order of `input_names`, in the layout of the file (images as [N, H, W, C]) and in its
    types: an 8-bit file may take uint8 or int8. It runs node by node; inside `framework.program` it is traced. Float
    weights train like those of any Layer; half-precision ones are held in float32.

    Attributes:
        input_names, output_names: of the graph, in order.
        inputs, outputs: the tensors behind them, with type, stated shape and steps of 8 bits.
        description: the file's own.
    """

    def __init__(self, text: ModelText) -> None:
        super().__init__()
        plain_constants(text)
        self._text = text
        self._interpreter = Interpreter(text)
        self.inputs: list[TensorText] = [text.tensors[i] for i in text.inputs]
        self.outputs: list[TensorText] = [text.tensors[i] for i in text.outputs]
        self.input_names = [t.name for t in self.inputs]
        self.output_names = [t.name for t in self.outputs]
        self.description = text.description
        self._weights: dict[int, Tensor] = {}
        for i in _weights_of(text):
            t = parameter(np.array(text.tensors[i].array, np.float32))
            t.name = text.tensors[i].name
            self._weights[i] = t

    def _of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        found = self._weights if kind == "parameter" else {}
        return ((self._text.tensors[i].name, t) for i, t in found.items())

    def forward(self, *inputs: Any) -> list[Any]:
        """The graph's outputs, in order.

        Raises:
            AttributeValueError: another number of inputs, or one of another type.
        """
        if len(inputs) != len(self.inputs):
            raise AttributeValueError(f"tflite: got {len(inputs)} inputs; the model takes {self.input_names}")
        for x, t in zip(inputs, self.inputs, strict=True):
            if x.dtype != t.dtype:
                raise AttributeValueError(f"tflite: input '{t.name}' is {x.dtype}; the model takes {t.dtype}")
        return self._interpreter.run(inputs, self._weights)

    def trace(self, shapes: Mapping[str, Sequence[int]] | None = None, pass_names: Sequence[str] = ()) -> Program:
        """The graph as a Program; see `load`."""
        unknown = set(shapes or ()) - set(self.input_names)
        if unknown:
            raise AttributeValueError(f"tflite: the model has no input {sorted(unknown)}; it takes {self.input_names}")
        wanted = shapes or {}
        inputs = [
            example("tflite", t.name, t.shape, str(t.dtype), wanted.get(t.name), binding=False) for t in self.inputs
        ]
        return self._compiled(inputs, pass_names).program

    def _compiled(self, inputs: Sequence[Tensor], pass_names: Sequence[str]) -> CompiledProgram:
        for text, t in zip(self.inputs, inputs, strict=True):
            t.name = text.name
        with no_grad():
            return program(self.forward, pass_names=pass_names).program_for(*inputs)

    def in_float(self) -> list[str]:
        """Which nodes of an 8-bit file are computed in float32 between two roundings, as 'OPERATOR name'."""
        return [f"{node.op} {node.name}" for node in self._interpreter.in_float()]


def _weights_of(text: ModelText) -> list[int]:
    """Numbers of the float constants that are weights, by how all their readers use them."""
    uses: dict[int, set[bool]] = {}
    for node in text.nodes:
        for place, i in enumerate(node.inputs):
            uses.setdefault(i, set()).add(place in _WEIGHT_INPUTS.get(node.op, ()))
    for i in text.outputs:
        uses.pop(i, None)
    tensors = text.tensors
    return [i for i, kinds in uses.items() if i >= 0 and kinds == {True} and _is_float(tensors[i])]


def _is_float(t: TensorText) -> bool:
    return t.array is not None and t.dtype == "float32"


def open_model(source: Any) -> Model:
    """Opens a .tflite model, in evaluation mode, to run eagerly, fine-tune or trace.

    Args:
        source: a path, or the bytes of a file.

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
    pass_names: Sequence[str] = INFERENCE_PASSES,
) -> Program:
    """A .tflite file as a Program, for `CompiledProgram`, `save_program` and the Predictor.

    Args:
        source: a path, or the bytes of a file.
        shapes: shape by input name, for open extents, or for another size than the file states.
        pass_names: rewrites to run; none keeps float weights as states under their names in the file.

    Raises:
        CheckpointError, NotSupportedError: as in `open_model`.
        AttributeValueError, ShapeError: an input's shape is open and not given, or does not fit.
    """
    return program_of(open_model(source), shapes, pass_names=pass_names)


def program_of(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None, *, pass_names: Sequence[str] = INFERENCE_PASSES
) -> Program:
    """A model that was opened as a Program; see `load`, which raises the same."""
    found = model.trace(shapes, pass_names)
    check_plan(found)
    return found


class Session:
    """Runs a model on arrays, as a Program that is traced anew for each kind of shapes."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._function = program(model.forward, pass_names=INFERENCE_PASSES)

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Outputs as arrays, in order."""
        with no_grad():
            return [y.numpy() for y in self._function(*(tensor(np.asarray(x)) for x in inputs))]
