"""What runs a Program: the contract of an executor. The native plan on the CPU is one, XLA another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from framework.graph.ir import Program
    from framework.tensors import Tensor


class Execution(Protocol):
    """A Program that an executor made ready to run."""

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Runs once and returns the results; new values of states are where the executor keeps them."""

    def plan(self, inputs: Sequence[Tensor]) -> None:
        """Does for these inputs what a run would do first: infers shapes, plans memory, compiles. Runs nothing."""

    def memory_report(self, inputs: Sequence[Tensor] | None) -> Any:
        """Where the memory of a run goes, as something that prints; by default of the last run."""

    def watch(self, compiled: Any) -> None:
        """Lets the profiler of this thread find `compiled` by what its operations are reported under."""

    @property
    def plans_made(self) -> int:
        """How often it was made ready for new shapes."""

    def forget_plans(self) -> None:
        """Drops what it keeps for shapes that it has seen; the next run makes it anew."""


class Executor(Protocol):
    """Makes Programs ready for one device.

    Attributes:
        device: its name, such as `cpu`; Programs are traced and kept for each executor of their own.
        devices: how many of them share the work.
        products: how float32 factors of products are taken; see `framework.set_device`.
    """

    device: str
    devices: int
    products: str

    def spread(self, states: Iterable[Tensor]) -> None:
        """Keep these states in parts where several devices share the work; see `framework.devices.spread`."""

    def passes(self, names: Sequence[str]) -> Sequence[str]:
        """Which of these passes pay here, in order. What they cost and gain is the executor's to know."""

    def compile(self, program: Program, loop_steps: int | None) -> Execution:
        """A Program, made ready; `loop_steps`: what its loops may take together in a run, by default any number."""
