"""framework/native/ops/random.cc, against Philox4x32-10 written in NumPy from the paper (Salmon et al. 2011)."""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec

LOW32 = np.uint64(0xFFFFFFFF)


def philox_words(key, blocks):
    """uint64 [blocks, 4] holding the 32-bit words of blocks 0, 1, ... of a key's stream."""
    seed, call = (np.uint64(int(k) % 2**64) for k in key)
    shift = np.uint64(32)
    k0, k1 = seed & LOW32, seed >> shift
    index = np.arange(blocks, dtype=np.uint64)
    c = [index & LOW32, index >> shift, np.full_like(index, call & LOW32), np.full_like(index, call >> shift)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> shift) ^ c[1] ^ k0, b & LOW32, (a >> shift) ^ c[3] ^ k1, a & LOW32]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & LOW32, (k1 + np.uint64(0xBB67AE85)) & LOW32
    return np.stack(c, axis=-1)


def _units(key, n, dtype):
    """At least n uniform numbers, a whole number of blocks."""
    if dtype == "float32":
        return (philox_words(key, -(-n // 4)) >> np.uint64(8)).ravel() / 2.0**24
    words = philox_words(key, -(-n // 2)).reshape(-1, 2)
    return ((words[:, 0] >> np.uint64(5)) * 2.0**26 + (words[:, 1] >> np.uint64(6))) / 2.0**53


def _uniform(key, shape, low=0.0, high=1.0, dtype="float32"):
    n = int(np.prod(shape))
    return (low + (high - low) * _units(key, n, dtype)[:n]).reshape(shape).astype(dtype)


def _normal(key, shape, mean=0.0, std=1.0, dtype="float32"):
    n = int(np.prod(shape))
    u = _units(key, n, dtype).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log(u[:, 0] + (2.0**-24 if dtype == "float32" else 2.0**-53)))
    angle = 2 * np.pi * u[:, 1]
    y = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).ravel()[:n]
    return (mean + std * y).reshape(shape).astype(dtype)


def _dropout(x, key, p):
    kept = _units(key, x.size, "float32")[: x.size] >= p
    return np.where(kept.reshape(x.shape), x / (1 - p), 0.0)


def _key(seed=1234567890123456789, call=7):
    return np.array([seed, call], dtype=np.int64)


KEY_ERRORS = [
    Bad([np.zeros(3, np.int64)], ShapeError, r"key has shape \[3\] but must have \[2\]", {"shape": (2,)}),
    Bad([np.zeros(2)], DTypeError, "key is float32 but must be int64", {"shape": (2,)}),
    Bad([_key()], AttributeValueError, "negative extent", {"shape": (-2,)}),
    Bad([_key()], DTypeError, "dtype is int32 but must be float32 or float64", {"shape": (2,), "dtype": "int32"}),
]

spec(
    "rng_next",
    reference=lambda state: (state, np.array([state[0], state[1] + 1])),
    exact=True,
    gradient=False,
    samples=[Sample([_key()]), Sample([_key(-1, 0)]), Sample([_key(0, 2**40)])],
    errors=[Bad([np.zeros(2, np.int32)], DTypeError, "state is int32 but must be int64")],
)
spec(
    "random_uniform_like",
    reference=lambda key, like: _uniform(key, like.shape),
    exact=True,
    gradient=False,
    samples=[
        Sample([_key(), normal(3, 5, 7)]),
        Sample([_key(-5, 2**40), normal(9001)]),
        Sample([_key(), normal(0, 4)]),
    ],
    errors=[
        Bad([np.zeros(3, np.int64), normal(2)], ShapeError, r"key has shape \[3\] but must have \[2\]"),
        Bad([np.zeros(2), normal(2)], DTypeError, "key is float32 but must be int64"),
    ],
)
spec(
    "random_uniform",
    reference=_uniform,
    roundings=1,
    unit=lambda key, low=0.0, high=1.0, **_: max(abs(low), abs(high)),  # low is added
    gradient=False,
    samples=[
        Sample([_key()], {"shape": (3, 5, 7)}),
        Sample([_key(-5, 2**40)], {"shape": (70001,), "low": -2.0, "high": 3.0}),
        Sample([_key()], {"shape": (0, 4)}),
        Sample([_key(3)], {"shape": (12345,), "dtype": "float64"}),
    ],
    errors=[*KEY_ERRORS, Bad([_key()], AttributeValueError, "low is 2 but high is 1",
                             {"shape": (2,), "low": 2.0, "high": 1.0})],
)  # fmt: skip
spec(
    "random_normal",
    reference=_normal,
    # The float angle 2 pi u carries an error of pi eps, times a radius of up to 5.8.
    roundings=8 * np.pi,
    unit=lambda key, mean=0.0, std=1.0, **_: abs(mean) + std,  # the cosine may be near 0
    gradient=False,
    samples=[
        Sample([_key()], {"shape": (3, 5, 7)}),
        Sample([_key(-5, 2**40)], {"shape": (30001,), "mean": -2.0, "std": 3.0}),
        Sample([_key()], {"shape": (0, 4)}),
        Sample([_key(3)], {"shape": (12345,), "dtype": "float64"}),
    ],
    errors=[*KEY_ERRORS, Bad([_key()], AttributeValueError, "std is -1", {"shape": (2,), "std": -1.0})],
)
spec(
    "dropout",
    reference=_dropout,
    roundings=2,
    samples=[
        Sample([normal(3, 5), _key()], {"p": 0.5}),
        Sample([normal(20001), _key(-5, 2**40)], {"p": 0.1}),
        Sample([normal(7), _key()], {"p": 0.0}),
        Sample([np.zeros((0, 4)), _key()], {"p": 0.3}),
    ],
    errors=[
        Bad([normal(3), _key()], AttributeValueError, r"p is 1 but must lie in \[0, 1\)", {"p": 1.0}),
        Bad([normal(3), _key()[:1]], ShapeError, r"key has shape \[1\]", {"p": 0.5}),
    ],
)


def _long_words(key, n):
    words = philox_words(key, -(-n // 2)).astype(object).reshape(-1, 2)
    return [int(high) << 32 | int(low) for low, high in words[:n]]


def _integers(key, shape, low, high, dtype="int64"):
    numbers = [low + (w * (high - low) >> 64) for w in _long_words(key, int(np.prod(shape)))]
    return np.array(numbers, dtype).reshape(shape)


def _permutation(key, like=None, n=-1):
    n = n if like is None else like.shape[0]
    return np.array(sorted(range(n), key=_long_words(key, n).__getitem__), np.int64)


spec(
    "random_integers",
    reference=_integers,
    exact=True,
    gradient=False,
    samples=[
        Sample([_key()], {"shape": (3, 5, 7), "low": 0, "high": 10}),
        Sample([_key(-5, 2**40)], {"shape": (9001,), "low": -(2**63), "high": 2**63 - 1}),
        Sample([_key()], {"shape": (0, 4), "low": 0, "high": 1}),
        Sample([_key(3)], {"shape": (12,), "low": -3, "high": 4, "dtype": "int32"}),
    ],
    errors=[
        *(Bad(b.inputs, b.error, b.match, b.attrs | {"low": 0, "high": 2}) for b in KEY_ERRORS[:3]),
        Bad([_key()], AttributeValueError, "low is 2 but must lie below high, which is 2",
            {"shape": (2,), "low": 2, "high": 2}),
        Bad([_key()], DTypeError, "dtype is float32 but must be int32 or int64",
            {"shape": (2,), "low": 0, "high": 2, "dtype": "float32"}),
        Bad([_key()], AttributeValueError, "do not fit int32",
            {"shape": (2,), "low": 0, "high": 2**31 + 1, "dtype": "int32"}),
    ],
)  # fmt: skip
spec(
    "random_permutation",
    reference=_permutation,
    exact=True,
    gradient=False,
    samples=[
        Sample([_key(), None], {"n": 10}),
        Sample([_key(-5, 2**40), None], {"n": 9001}),
        Sample([_key(), normal(7, 2)]),
        Sample([_key(), None], {"n": 0}),
    ],
    errors=[
        Bad([_key()], AttributeValueError, "takes either n or like"),
        Bad([_key(), normal(3)], AttributeValueError, "takes either n or like", {"n": 3}),
        Bad([_key(), normal()], ShapeError, "like has 0 axes"),
        Bad([_key()], AttributeValueError, "n is -2 but must be 0 or more", {"n": -2}),
    ],
)
