"""The stated error bounds of cpu/vec/vec_math.h, over the whole range of float32 and on every instruction set."""

import numpy as np
import pytest
from scipy import special

from framework import _core, ops, tensor

# Every 10007th bit pattern: about 430,000 numbers, all exponents, both signs, infinities and NaNs among them.
SWEEP = np.arange(0, 2**32, 10_007, dtype=np.uint64).astype(np.uint32).view(np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 88.7, 89.0, -87.4, -103.9], np.float32)
X = np.concatenate([SWEEP, SPECIAL, np.linspace(-20, 20, 40_001, dtype=np.float32)])

# name -> (reference in float64, bound in units in the last place)
BOUNDS = {
    "exp": (np.exp, 1.0),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log2": (np.log2, 2.0),
    "log1p": (np.log1p, 2.0),
    "tanh": (np.tanh, 3.0),
    "sigmoid": (special.expit, 3.0),
    "erf": (special.erf, 3.0),
    "softplus": (lambda x: np.logaddexp(0, x), 3.0),
    "log_sigmoid": (lambda x: -np.logaddexp(0, -x), 3.0),
}


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place; infinite where only one of the two is NaN or infinite."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)), dtype=np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(got.astype(np.float64) - exact) / unit
    return np.where(same, 0.0, np.where(np.isfinite(got) & np.isfinite(rounded), distance, np.inf))


def computed(name: str, x: np.ndarray, isa: str) -> np.ndarray:
    """The operator's result on an instruction set; one without FMA rounds more often."""
    active = _core.active_isa()
    _core.use_isa(isa)
    try:
        return getattr(ops, name)(tensor(x)).numpy()
    finally:
        _core.use_isa(active)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("name", BOUNDS)
def test_error_stays_within_the_stated_bound(name, isa):
    reference, bound = BOUNDS[name]
    got = computed(name, X, isa)
    with np.errstate(all="ignore"):
        error = ulps(got, reference(X.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({X[worst]!r}) = {got[worst]!r} is off by {error[worst]:.2f} ulp"


@pytest.mark.parametrize("isa", _core.supported_isas())
def test_gelu_keeps_its_digits_in_the_lower_tail(isa):
    x = np.linspace(-12, 12, 20_001, dtype=np.float32)
    exact = x.astype(np.float64) * special.ndtr(x.astype(np.float64))
    # x / sqrt(2) is off by 1.3 * 2^-24, and so the exponent -x^2 / 2 by x^2 times that.
    assert (ulps(computed("gelu", x, isa), exact) <= 8 + 1.3 * np.square(x, dtype=np.float64)).all()
