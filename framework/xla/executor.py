"""The XLA executor: makes Programs ready for a device, in parts where the host has some to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from framework.graph.executor import Execution
from framework.graph.ir import Program
from framework.tensors import Tensor
from framework.xla.cut import cut
from framework.xla.execution import XlaExecution
from framework.xla.layout import Layout
from framework.xla.parted import PartedExecution

# XLA fuses by itself. These make a Program smaller before it is lowered, whatever runs it; a model that was frozen for
# inference keeps its folded batch norm.
PASSES = (
    "freeze_states",
    "own_captured_constants",
    "fold_batch_norm",
    "fold_constants",
    "merge_equal_operations",
    "drop_dead_code",
)


class XlaExecutor:
    """Compiles Programs for one device with XLA."""

    def __init__(self, device: str, devices: Sequence[Any], products: str = "float32") -> None:
        """`devices`: those of JAX that share the work, of this host and of others; its `devices` counts this host's."""
        self.device, self.products = device, products
        self.layout = Layout(devices)
        self.devices = len(self.layout.own)

    def spread(self, states: Iterable[Tensor]) -> None:
        """See `framework.devices.spread`."""
        self.layout.spread(states)

    def passes(self, names: Sequence[str]) -> Sequence[str]:
        """Those that XLA does not do better itself."""
        return [name for name in names if name in PASSES]

    def compile(self, program: Program, loop_steps: int | None) -> Execution:
        """A Program, made ready; effects run on the host, before and behind the device's part."""
        parts = cut(program)
        if parts is None:
            return self._execution(program)
        return PartedExecution(program, parts, self._execution)

    def _execution(self, program: Program, keeps_states: bool = False) -> XlaExecution:
        return XlaExecution(program, self.layout, self.products, keeps_states)
