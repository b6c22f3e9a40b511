"""One budget of memory over all models of a server: what does not fit is refused with the sums."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Hashable
from pathlib import Path

from framework.errors import CheckpointError
from framework.outside import read_text
from suites.engine.predict.model import Memory

_CGROUP = Path("/sys/fs/cgroup/memory.max")  # of a container, in its own view
_WEIGHTS = ("*.safetensors", "*.safetensors.sealed", "*.onnx")


class OutOfBudget(CheckpointError):
    """A model does not fit beside the others."""


def machine_bytes() -> int:
    """Memory of this machine, or of the container where that is less."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        told = read_text(_CGROUP, "text_bytes").strip()
    except (OSError, CheckpointError):
        return whole
    return min(whole, int(told)) if told.isdigit() else whole


def weight_files(path: Path) -> int:
    """Bytes of the largest weight file of a model, before it is opened: a run has several, of which one is opened."""
    files = [path] if path.is_file() else [file for kind in _WEIGHTS for file in path.glob(kind)]
    return max((file.stat().st_size for file in files), default=0)


def give_back() -> None:
    """Free what nobody refers to any more, and let the system have the pages.

    A model has circles, and its weights lie where Python's collector sees no size. What was freed in the heaps of its
    threads the C library would keep.
    """
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class Budget:
    """Takes in what models need, from any thread.

    Args:
        most: bytes for all.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[str, int]] = {}

    @property
    def held(self) -> int:
        """Bytes that are taken."""
        return sum(size for _, size in self._held.values())

    def expect(self, name: str, size: int) -> None:
        """Raise OutOfBudget where a model whose weights have so many bytes cannot fit."""
        with self._lock:
            self._check(name, size, f"weights of {_mb(size)}, by its files")

    def take(self, key: Hashable, name: str, need: Memory, cache: int = 0) -> None:
        """Count a model that has run once, under `key`; raise OutOfBudget where it does not fit.

        Args:
            key: tells it from others, see `give`.
            name: for messages.
            need: as measured.
            cache: bytes for keys and values.
        """
        told = f"weights of {_mb(need.weights)}, {_mb(need.kept)} of arenas and prepared weights"
        told += f", {_mb(cache)} for keys and values" if cache else ""
        size = need.weights + need.kept + cache
        with self._lock:
            self._check(name, size, told)
            self._held[key] = (name, size)

    def give(self, key: Hashable) -> None:
        """Count it no more."""
        with self._lock:
            self._held.pop(key, None)

    def _check(self, name: str, size: int, told: str) -> None:
        held = self.held
        if held + size <= self.most:
            return
        others = ", ".join(f"{other} {_mb(each)}" for other, each in self._held.values())
        raise OutOfBudget(
            f"{name}: needs {_mb(size)} ({told}); of the {_mb(self.most)} for all models {_mb(held)} are taken"
            f"{f' ({others})' if others else ''}; serve fewer models, or raise --memory-mb"
        )


def _mb(size: int) -> str:
    return f"{size / 2**20:.1f} MB"
