"""`runtime.weights`: a task begins with the weights of a file, a record or a repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from framework.io import load_tensors
from suites.engine.contract.capabilities import StartsFrom
from suites.engine.weights.eight_bits import put_as
from suites.engine.weights.pretrained import divided, load_what_fits, resolve

if TYPE_CHECKING:
    from suites.engine.contract.task import Task


def start_task(task: Task, source: str, *, eight_bits: bool = False) -> list[str]:
    """Put the weights of `runtime.weights` into a task's model; return lines: where from, and what did not fit.

    Args:
        task: whose model it is.
        source: a file, a record or a repository.
        eight_bits: whether training goes on in 8 bits: where the weights are of such training, the model becomes as
            they say.

    Raises CheckpointError where nothing fits.
    """
    name, part, told = divided(source)
    path, _ = resolve(name)
    words = "".join(f"{sign}{word}" for sign, word in (("#", part), ("@", told)) if word)
    if eight_bits and path.suffix == ".safetensors":
        put_as(task, load_tensors(path))
    start = Path(f"{path}{words}")
    lines = task.start_from(start) if isinstance(task, StartsFrom) else load_what_fits(task.model, start)
    return [f"weights from {path}", *(f"  {line}" for line in lines)]
