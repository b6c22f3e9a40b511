"""The Predictor: runs an exported model (`program.json` + `weights.safetensors`) natively, shape by shape."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.context import context
from framework.devices import executor_of
from framework.errors import AttributeValueError, ShapeError
from framework.graph.compiled import CompiledProgram
from framework.graph.executor import Executor
from framework.graph.files import load_program
from framework.graph.ir import Program
from framework.graph.native_executor import NATIVE
from framework.limits import current
from framework.tensors import Tensor, from_numpy


class Predictor:
    """An exported model, ready to run.

    Attributes:
        input_names: names of the inputs, in order.
        input_types: element type and shape of each, as exported; extents may vary unless `fixed_shapes`.
        output_types: the same of each output, in order.
        fixed_shapes: whether the model takes the shapes of its export only.
        extra: what the exporter stored beside the Program, such as preprocessing and class names.
    """

    def __init__(self, folder: Path | str, *, device: str | None = None, products: str = "float32") -> None:
        """Loads and checks the model.

        Args:
            folder: what an exporter wrote.
            device: where it runs, see `framework.set_device`; by default where Programs of this thread do.
            products: of `device`, how an accelerator takes the factors of products; see `framework.set_device`.

        Raises:
            CheckpointError: a file is missing or damaged, or asks for more than `framework.limits` allow.
            NotSupportedError: there is no such device.
            AttributeValueError: products that the device has not.
        """
        program, extra = load_program(folder)
        self._take(program, extra, (context.executor if device is None else executor_of(device, products=products)))

    @classmethod
    def of_program(
        cls,
        program: Program,
        extra: Mapping[str, Any],
        *,
        device: str | None = None,
        products: str = "float32",
    ) -> Predictor:
        """A Predictor of a Program that is in memory already, such as one read from an ONNX file.

        Args:
            program: for inference.
            extra: see the attribute.
            device, products: see the class.
        """
        made = cls.__new__(cls)
        made._take(program, dict(extra), context.executor if device is None else executor_of(device, products=products))
        return made

    def _take(self, program: Program, extra: dict[str, Any], executor: Executor | None) -> None:
        self.extra = extra
        self.input_names = [v.name or f"input{i}" for i, v in enumerate(program.inputs)]
        self.input_types = [(v.dtype, v.shape) for v in program.inputs]
        self.output_types = [(v.dtype, v.shape) for v in program.results]
        self.fixed_shapes = bool(program.shape_reads)
        self._executor = executor or NATIVE
        self._compiled = CompiledProgram(program, loop_steps=current().loop_steps, executor=self._executor)

    def replica(self) -> Predictor:
        """Another Predictor on the same weights, to run at the same time in another thread."""
        other = copy.copy(self)
        other._compiled = CompiledProgram(
            self._compiled.program, loop_steps=self._compiled.loop_steps, executor=self._executor
        )
        return other

    @property
    def weight_bytes(self) -> int:
        """Bytes of its constants and states, which replicas share."""
        program = self._compiled.program
        held = [*program.constants.values(), *(state._data for state in program.states.values())]
        return sum(array.nbytes for array in held)

    def kept_bytes(self) -> int:
        """Bytes of the host that stay from run to run: arenas, and what kernels prepared from constants."""
        return self._compiled.kept_bytes()

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[np.ndarray]:
        """Runs once on arrays or Tensors, given in order or by name; returns arrays.

        Raises:
            AttributeValueError: an input is missing or has no such name.
            ShapeError, DTypeError: an input does not fit the model.
            NotSupportedError: the model's loops take more steps than the limit `loop_steps` at its loading.
        """
        tensors = [x if isinstance(x, Tensor) else from_numpy(np.asarray(x)) for x in self._ordered(inputs)]
        for name, t, (dtype, shape) in zip(self.input_names, tensors, self.input_types, strict=True):
            if t.dtype != dtype or t.ndim != len(shape):
                raise ShapeError(f"predictor: {name} is {t.dtype}{list(t.shape)}; the model takes {dtype}{list(shape)}")
            if self.fixed_shapes and t.shape != shape:
                raise ShapeError(
                    f"predictor: {name} has shape {list(t.shape)}; this model was exported for {list(shape)}"
                )
        return [t.numpy() for t in self._compiled.run(tensors)]

    def _ordered(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        if isinstance(inputs, Mapping):
            if set(inputs) != set(self.input_names):
                raise AttributeValueError(f"predictor: got inputs {sorted(inputs)}; it takes {self.input_names}")
            return [inputs[name] for name in self.input_names]
        if len(inputs) != len(self.input_names):
            raise AttributeValueError(f"predictor: got {len(inputs)} inputs; it takes {self.input_names}")
        return list(inputs)
