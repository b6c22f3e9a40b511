"""What the current thread does with operators: one object that every room of the core may read.

It stands on the ground floor and imports nothing of the core, so that the rooms need not import each other to ask. Each
field belongs to the room that its comment names; only that room writes it. What lower rooms call of higher ones stands
here too: those put it here when they are imported, and are imported by who asks first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from framework.lazy import Later

operators: Any = Later("framework.ops")  # its functions by their names, for the methods of Tensor
gradients: Any = Later("framework.autograd.rules")  # `remember`, `backward`, `backward_from`: the tape, with all rules


class Context(threading.local):
    """The state of one thread."""

    trace: Any = None  # framework.graph.trace: the Trace that records operators
    grad_enabled: bool = True  # framework.autograd.tape: whether operators are remembered
    precision: str = "float32"  # framework.precision: the type of what lies between layers
    cast: Callable[[Any, Sequence[Any]], Sequence[Any]] | None = None  # framework.precision: casts of inputs
    conv_algorithm: str = "auto"  # framework.ops.algorithm: of convolutions whose call names none
    modes: dict[Any, bool] | None = None  # framework.mode: layers whose train/eval mode was read, while a trace watches
    programs: dict[int, Any] | None = None  # framework.profiler: Programs that run, by the ids of their executables
    blocks: dict[int, Any] | None = None  # framework.profiler: the blocks of those Programs
    executor: Any = None  # framework.devices: the framework.graph.executor.Executor of new Programs; None for the CPU's
    draws_weights: bool = True  # framework.nn.init: whether new parameters get their initial values


context = Context()
