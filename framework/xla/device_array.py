"""Data that lies on a device: what stands in a Tensor until somebody reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from framework.errors import StateError
from framework.tensors import from_numpy
from framework.xla.runtime import read


@cache
def _name_of(dtype: Any) -> str:
    """NumPy puts the name together anew each time, and a step makes hundreds of arrays."""
    return str(dtype)


class DeviceArray:
    """An array of the device, as a Tensor holds it; the host sees a copy, made when it is asked for.

    Attributes:
        buffer: the jax.Array; None when a run that failed has used it up.
        shape, dtype, ndim, size, nbytes: as of the core's arrays, read without waiting for the data.
    """

    def __init__(self, buffer: Any, expect_sound: Callable[[], None] | None = None) -> None:
        """`expect_sound` raises where the run that makes the data refused its inputs."""
        self.buffer = buffer
        self.shape: tuple[int, ...] = tuple(buffer.shape)
        self.dtype = _name_of(buffer.dtype)
        self.ndim = len(self.shape)
        self.size = int(buffer.size)
        self.nbytes = int(buffer.nbytes)
        self._expect_sound = expect_sound
        self._lost = ""

    def host(self) -> Any:
        """The data as an array of the core, a copy; waits until it is computed.

        Raises:
            StateError: a run that failed has used the data up, or was to make it.
        """
        self.expect_kept()
        if self._expect_sound is not None:
            self._expect_sound()
        return from_numpy(read(self.buffer)).array()  # a copy: the buffer may be given to a later run

    def expect_kept(self) -> None:
        """Raises StateError when the data was lost."""
        if self.buffer is None:
            raise StateError(self._lost)

    def lose(self, why: str) -> None:
        """Makes every later use an error that says why."""
        self.buffer, self._lost = None, why

    def __getattr__(self, name: str) -> Any:
        """Whatever else an array of the core has, of a copy on the host."""
        if name.startswith("_") or name == "buffer":
            raise AttributeError(name)
        return getattr(self.host(), name)
