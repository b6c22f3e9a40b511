"""How arrays lie on the devices that share a Program."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from framework.tensors import Tensor


class Layout:
    """How arrays lie on the devices that share a Program: states whole on each, batches split along their first axis.

    The compiler finds out what has to be exchanged. As it splits whole arrays, a mean over the batch is that of all
    devices, and a dropout mask that of one: the numbers do not depend on how many there are, but for roundings.

    The devices may be those of several hosts. Each host has all of a batch and puts its devices' parts there; results
    come whole to each.

    States that were spread lie in parts over the devices of each host, so that a host has all of them.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self.devices = list(devices)
        self.platform: str = self.devices[0].platform
        own = jax.process_index()
        self.own = [each for each in self.devices if each.process_index == own]
        self.many_hosts = len(self.own) < len(self.devices)
        by_host = np.array(self.devices).reshape(-1, len(self.own))
        auto = jax.sharding.AxisType.Auto
        self._mesh = jax.sharding.Mesh(by_host, ("host", "device"), axis_types=(auto, auto))
        self.whole = self._laid_out()
        self.split = self._laid_out(("host", "device"))
        self._spread: dict[int, weakref.ref[Tensor]] = {}

    def _laid_out(self, *axes: Any) -> Any:
        return jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec(*axes))

    def spread(self, states: Iterable[Tensor]) -> None:
        """Keeps these states in parts from now on."""
        for t in states:
            self._spread[id(t)] = weakref.ref(t, partial(_forget, self._spread, id(t)))

    def of_state(self, t: Tensor) -> Any:
        """Whole on each device, or in parts along the first axis whose extent divides by the devices of a host."""
        count, known = len(self.own), self._spread.get(id(t))
        if count > 1 and known is not None and known() is t:
            for axis, extent in enumerate(t.shape):
                if extent and extent % count == 0:
                    return self._laid_out(*[None] * axis, "device")
        return self.whole

    def of_input(self, shape: Sequence[int]) -> Any:
        """Split where the first extent divides by the devices, else whole on each."""
        count = len(self.devices)
        return self.split if count > 1 and shape and shape[0] and shape[0] % count == 0 else self.whole

    def kept(self, x: Any, sharding: Any = None) -> Any:
        """A value of the Program that is to lie so; whole on each device by default."""
        return x if len(self.devices) == 1 else jax.lax.with_sharding_constraint(x, sharding or self.whole)

    def result(self, x: Any) -> Any:
        """A result of the Program: a host can read it only where it lies whole."""
        return self.kept(x) if self.many_hosts else x

    def put(self, array: np.ndarray, sharding: Any) -> Any:
        """An array of the host, which nobody changes any more, on the devices."""
        if not self.many_hosts:
            return jax.device_put(array, sharding)
        return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

    def copied(self, buffer: Any) -> Any:
        """A copy of a state, without a word to other hosts."""
        if not self.many_hosts:
            return jnp.array(buffer, copy=True)
        parts = [jnp.array(shard.data, copy=True) for shard in buffer.addressable_shards]
        return jax.make_array_from_single_device_arrays(buffer.shape, buffer.sharding, parts)


def _forget(known: dict[int, weakref.ref[Tensor]], key: int, gone: object) -> None:
    known.pop(key, None)
