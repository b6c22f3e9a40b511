"""Every operator through XLA, on the CPU: against the references that the native kernels are tested with."""

import numpy as np
import pytest

import framework
from framework.ops import dispatch
from framework.ops.registry import OPS
from tests.devices import DEVICE
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS
from tests.framework.ops.test_ops import allowed_errors, expected_of

jax = pytest.importorskip("jax", reason="the extra [xla] is not installed")

from framework.xla.executor import XlaExecution  # noqa: E402  (after the check)
from framework.xla.lower import RULES  # noqa: E402

# Operators without a rule, which run on the host, and why.
ON_THE_HOST = {
    "crop_masks": "runs of pixels of any number have no fixed shape; once a step, of a few hundred small masks",
    "paste_masks": "draws results for people, after a run",
}
# Samples that XLA computes to other rules: (operator, number).
OTHERWISE = {("quantized_matmul", 11): "XLA counts numbers below 1.2e-38 as 0"}

LOWERED = list(SPECS.values())
# float32 is what people train in, and finds what float64 finds; `make test-slow` looks at both.
CASES = [
    pytest.param(s, i, dtype, id=f"{s.name}-{i}-{dtype}", marks=[pytest.mark.slow] if dtype == "float64" else [])
    for s in LOWERED
    for i in range(len(s.samples))
    for dtype in ("float32", "float64")
    if dtype in s.dtypes and (s.name, i) not in OTHERWISE
]
# XLA's functions (tanh, erf, exp, pow ...) and its trees of sums round more often than the native kernels' do.
MORE_ROUNDINGS = 8


def run(name, sample, dtype):
    """The operator's outputs, computed by XLA."""

    @framework.program
    def function(given):
        left = iter(given)
        return dispatch.call_by_name(name, [None if x is None else next(left) for x in sample.inputs], **sample.attrs)

    with framework.device(DEVICE):
        out = function([t for t in sample.tensors(dtype) if t is not None])
        return [np.array(o.numpy()) for o in (out if isinstance(out, tuple) else (out,))]


# What a kernel computes does not hang on how long LLVM looked at it, and most of a test's time is compilation.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    whole = jax.stages.Lowered.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax.stages.Lowered, "compile", lambda lowered: whole(lowered, compiler_options=QUICK))
        yield


@pytest.mark.parametrize(("spec", "i", "dtype"), CASES)
def test_xla_equals_the_reference(spec, i, dtype):
    outputs, units = expected_of(spec.name, i, dtype)
    got = run(spec.name, spec.samples[i], dtype)
    assert len(got) == len(outputs)
    for g, expected, unit in zip(got, outputs, units, strict=True):
        assert g.shape == expected.shape
        if g.dtype.kind != "f":
            np.testing.assert_array_equal(g, expected.astype(g.dtype))
            continue
        finite = np.isfinite(expected) & np.isfinite(expected.astype(g.dtype))
        np.testing.assert_array_equal(g[~finite], expected.astype(g.dtype)[~finite])
        error = np.abs(g.astype(np.float64) - expected)[finite]
        unit = unit + 1 if spec.name == "crf_loss_grad" else unit  # probabilities less 1 cancel to 0
        allowed = MORE_ROUNDINGS * allowed_errors(spec, g.dtype, unit)[finite]
        assert (error <= allowed).all(), (
            f"{(error / allowed).max() * MORE_ROUNDINGS * spec.roundings:.3g} roundings off"
        )


@pytest.mark.parametrize("name", OPS)
def test_every_operator_has_a_rule_a_composition_or_a_reason(name):
    assert (name in RULES or bool(OPS[name].composition)) != (name in ON_THE_HOST)


def test_reasons_name_operators():
    assert set(ON_THE_HOST) <= set(OPS)
    assert all(ON_THE_HOST.values())


def test_it_was_xla_that_ran():
    double = framework.program(lambda x: x * 2)
    x = framework.tensor(np.ones(3, np.float32))
    with framework.device(DEVICE):
        assert isinstance(double.program_for(x).execution, XlaExecution)
        assert double(x).tolist() == [2, 2, 2]
    assert not isinstance(double.program_for(x).execution, XlaExecution)
