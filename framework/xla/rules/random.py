"""Random numbers: Philox4x32-10 (Salmon et al. 2011), bit for bit those of the native core."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from framework.xla.lower import Array, Call, jnp_type, rule, wide

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ROUNDS = 10


def _halves(x: Array) -> tuple[Array, Array]:
    """The lower and upper 32 bits of whole numbers of 64."""
    bits = x.astype(jnp.uint64)
    return bits.astype(jnp.uint32), (bits >> np.uint64(32)).astype(jnp.uint32)


def _blocks(key: Array, blocks: Array) -> tuple[Array, Array, Array, Array]:
    """The four words of each block of a key's stream, uint32 each; blocks: uint64."""
    c0, c1 = _halves(blocks)
    c2, c3 = (jnp.broadcast_to(half, blocks.shape) for half in _halves(key[1]))
    k0, k1 = _halves(key[0])
    for _ in range(_ROUNDS):
        p0, p1 = _MULTIPLIERS[0] * c0.astype(jnp.uint64), _MULTIPLIERS[1] * c2.astype(jnp.uint64)
        (low0, high0), (low1, high1) = _halves(p0), _halves(p1)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return c0, c1, c2, c3


def words(key: Array, n: int) -> Array:
    """The first n words of a key's stream, uint32 [n]."""
    return jnp.stack(_blocks(key, jnp.arange((n + 3) // 4, dtype=jnp.uint64)), -1).ravel()[:n]


def word_at(key: Array, places: Array) -> Array:
    """The words at these places of a key's stream, uint32; chosen without an index, so that a device fuses it."""
    places = places.astype(jnp.uint64)
    c0, c1, c2, c3 = _blocks(key, places >> np.uint64(2))
    odd, late = (places & np.uint64(1)) != 0, (places & np.uint64(2)) != 0
    return jnp.where(late, jnp.where(odd, c3, c2), jnp.where(odd, c1, c0))


def _units(key: Array, n: int, dtype: str) -> Array:
    """Uniform numbers in [0, 1): 24 random bits for float32, 53 for float64."""
    if dtype == "float32":
        return (words(key, n) >> np.uint32(8)).astype(jnp.float32) * np.float32(2**-24)
    pairs = words(key, 2 * n).reshape(n, 2)
    high, low = (pairs[:, 0] >> np.uint32(5)).astype(jnp.float64), (pairs[:, 1] >> np.uint32(6)).astype(jnp.float64)
    return (high * 2.0**26 + low) * 2.0**-53


@rule("rng_next")
def _rng_next(call: Call, state: Array) -> tuple[Array, Array]:
    return state, state + jnp.asarray([0, 1], jnp.int64)


@rule("random_uniform")
def _random_uniform(call: Call, key: Array, *, shape: tuple[int, ...], low: float, high: float, dtype: str) -> Array:
    to = np.dtype(dtype)
    least, bound = to.type(low), to.type(high)
    units = _units(key, math.prod(shape), dtype)
    return jnp.minimum(least + (bound - least) * units, np.nextafter(bound, least)).reshape(shape)


@rule("random_uniform_like")
def _random_uniform_like(call: Call, key: Array, like: Array) -> Array:
    return _units(key, like.size, "float32").reshape(like.shape)


@rule("random_normal")
def _random_normal(call: Call, key: Array, *, shape: tuple[int, ...], mean: float, std: float, dtype: str) -> Array:
    to, n = np.dtype(dtype).type, math.prod(shape)
    units = _units(key, n + n % 2, dtype).reshape(-1, 2)
    radius = to(std) * jnp.sqrt(-2 * jnp.log(units[:, 0] + to(2.0 ** (-24 if dtype == "float32" else -53))))
    angle = to(2 * math.pi) * units[:, 1]
    both = to(mean) + jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], -1)
    return both.ravel()[:n].reshape(shape)


def _long_words(key: Array, n: int) -> Array:
    """Words two by two as numbers of 64 bits, uint64 [n]."""
    pairs = words(key, 2 * n).reshape(n, 2).astype(jnp.uint64)
    return pairs[:, 1] << np.uint64(32) | pairs[:, 0]


@rule("random_integers")
def _random_integers(call: Call, key: Array, *, shape: tuple[int, ...], low: int, high: int, dtype: str) -> Array:
    word = _long_words(key, math.prod(shape))
    span = high - low
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b, u, v = word >> half, word & mask, np.uint64(span >> 32), np.uint64(span & 0xFFFFFFFF)
    middle = a * v + (b * v >> half)
    upper = a * u + (middle >> half) + ((b * u + (middle & mask)) >> half)
    return (upper + np.int64(low).astype(np.uint64)).astype(jnp.int64).astype(jnp_type(dtype)).reshape(shape)


@rule("random_permutation")
def _random_permutation(call: Call, key: Array, like: Array | None = None, *, n: int) -> Array:
    return jnp.argsort(_long_words(key, call.shape[0]), stable=True)


@rule("dropout")
def _dropout(call: Call, x: Array, key: Array, *, p: float) -> Array:
    kept = (words(key, x.size) >> np.uint32(8)) >= np.uint32(math.ceil(p * 2**24))
    y = wide(x)
    return jnp.where(kept.reshape(x.shape), y * np.asarray(1 / (1 - p), y.dtype), 0)
