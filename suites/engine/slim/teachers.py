"""Teachers: trained runs that a student learns from, whatever the suite."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from framework import num_threads, random, set_num_threads
from framework.errors import CheckpointError
from framework.graph.files import is_export
from suites.engine.contract.task import Task
from suites.engine.weights.eight_bits import eight_bits_of


def expect_teacher(path: str, key: str = "distil.teachers", value: str = "[FOLDER]") -> None:
    """Raise CheckpointError where there is neither a run nor an exported model; `key` of a config names it."""
    folder = Path(path)
    if not is_export(folder) and not (folder / "config.yml").is_file():
        found = "holds neither a run nor an exported model" if folder.is_dir() else "does not exist"
        raise CheckpointError(
            f"{key}: {path} {found}; train the teacher first (`paddock train`), or name another with -o '{key}={value}'"
        )


def expect_running_teacher(path: str, otherwise: str = "") -> None:
    """Raise CheckpointError where there is no run, which a training step needs; `otherwise`: what else would do."""
    expect_teacher(path)
    if is_export(path):
        raise CheckpointError(
            f"distil.teachers: {path} is an exported model, which cannot run inside a training step; name its run "
            f"folder{otherwise}"
        )


def in_float32(path: str, teacher: Task) -> list[str]:
    """Return a line where a teacher that runs in the step was trained in 8 bits, which its layers do not compute in."""
    if eight_bits_of(teacher) is None:
        return []
    return [f"distillation: {path} was trained in 8 bits; its layers teach with their numbers in float32"]


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Opening a run sets threads and the random stream as it had them; afterwards they are as before."""
    threads = num_threads()
    try:
        with random.own_stream():
            yield
    finally:
        set_num_threads(threads)
