"""The interface by which the ONNX project's own tests drive a back end: `onnx.backend.base.Backend`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx.backend.base import Backend, BackendRep

from framework.errors import AttributeValueError
from framework.onnx.model import Session, open_model


class PaddockRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Outputs in the graph's order; `inputs` by position or by name."""
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in self.session.model.input_names]
        elif not isinstance(inputs, Sequence):
            inputs = [inputs]
        return tuple(self.session.run(inputs))


class PaddockBackend(Backend):
    """Runs ONNX models on Paddock's core, on the CPU."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> PaddockRep:
        """Reads and checks a model.

        Raises:
            AttributeValueError: the device is not supported.
            CheckpointError, NotSupportedError: see `framework.onnx.open_model`.
        """
        if not cls.supports_device(device):
            raise AttributeValueError(f"onnx: there is no device '{device}'; there is CPU")
        return PaddockRep(Session(open_model(model)))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepares a model and runs it once."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Runs one node on arrays.

        Args:
            node: an `onnx.NodeProto`.
            inputs: one array for each named input, in order.
            outputs_info: unused; the outputs tell their own types.
        """
        import numpy as np
        from onnx import helper

        arrays = [np.asarray(x) for x in inputs]
        names = [name for name in node.input if name]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in zip(names, arrays, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        return cls.run_model(helper.make_model(graph), arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """CPU only, for now."""
        return device.split(":")[0] == "CPU"


prepare = PaddockBackend.prepare
run_node = PaddockBackend.run_node
run_model = PaddockBackend.run_model
supports_device = PaddockBackend.supports_device
