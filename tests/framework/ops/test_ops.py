"""Every operator against its reference, numerically differentiated, in all the ways it can run; see harness.py."""

from functools import cache

import numpy as np
import pytest

import framework
import framework.autograd.rules
from framework import _core
from framework.autograd.check import check_gradients
from framework.autograd.rule_table import RULES
from framework.errors import AttributeValueError, GradientError
from framework.ops import dispatch, registry
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS, Sample, Spec, composed, normal, outputs_of
from tests.framework.ops.tolerance import sensitivities

CASES = [pytest.param(s, i, id=f"{s.name}-{i}") for s in SPECS.values() for i in range(len(s.samples))]
ERRORS = [pytest.param(s, bad, id=f"{s.name}-{i}") for s in SPECS.values() for i, bad in enumerate(s.errors)]
FUSED = [p for p in CASES if registry.OPS[p.values[0].name].composition]
FORWARD = [
    pytest.param(*p.values, dtype, id=f"{p.id}-{dtype}")
    for p in CASES
    for dtype in ("float32", "float64")
    if dtype in p.values[0].dtypes
]


def _float_inputs(sample: Sample) -> list[int]:
    return [k for k, x in enumerate(sample.inputs) if x is not None and x.dtype == np.float64]


def _differentiated(sample: Sample) -> list[int]:
    """The inputs to differentiate by; [] where one of them has no elements."""
    chosen = [k for k in _float_inputs(sample) if sample.differentiable is None or k in sample.differentiable]
    return [] if any(sample.inputs[k].size == 0 for k in chosen) else chosen


DIFFERENTIABLE = [p for p in CASES if p.values[0].gradient and _differentiated(p.values[0].samples[p.values[1]])]


def reference_outputs(spec: Spec, sample: Sample) -> list[np.ndarray]:
    out = spec.reference(*sample.inputs, **sample.attrs)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def _rounded(sample: Sample, dtype: str) -> Sample:
    """The sample as the reference sees it: float64 numbers that are exact in the type under test."""
    inputs = [None if x is None else t.numpy() for x, t in zip(sample.inputs, sample.tensors(dtype), strict=True)]
    return Sample([x if x is None or x.dtype.kind != "f" else x.astype(np.float64) for x in inputs], sample.attrs)


@cache
def expected_of(name: str, i: int, dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """A sample's outputs by its reference, and the unit of each element's tolerance; see tolerance.py."""
    spec = SPECS[name]
    rounded = _rounded(spec.samples[i], dtype)
    outputs = reference_outputs(spec, rounded)
    moves = sensitivities(spec.reference, rounded.inputs, rounded.attrs, outputs)
    more = spec.unit(*rounded.inputs, **rounded.attrs) if spec.unit else 0.0
    return outputs, [np.nan_to_num(np.abs(e) + m) + more if m.size else m for e, m in zip(outputs, moves, strict=True)]


def allowed_errors(spec: Spec, dtype: np.dtype, units: np.ndarray) -> np.ndarray:
    """How far each element may be off."""
    limits = np.finfo(dtype)
    return spec.roundings * float(limits.eps) * units + float(limits.tiny)


def compare(spec: Spec, got: np.ndarray, expected: np.ndarray, units: np.ndarray) -> None:
    """Fails where an element is further off than its tolerance, or is no number where it should be one."""
    assert got.shape == expected.shape
    if spec.exact or got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected.astype(got.dtype))
        return
    finite = np.isfinite(expected) & np.isfinite(expected.astype(got.dtype))
    np.testing.assert_array_equal(got[~finite], expected.astype(got.dtype)[~finite])
    error = np.abs(got.astype(np.float64) - expected)[finite]
    allowed = allowed_errors(spec, got.dtype, units)[finite]
    worst = int(np.argmax(error / allowed)) if error.size else 0
    assert (error <= allowed).all(), (
        f"element {np.argwhere(finite)[worst].tolist()}: {got[finite][worst]} and not {expected[finite][worst]}, "
        f"{error[worst] / allowed[worst] * spec.roundings:.3g} roundings off, {spec.roundings:g} are allowed"
    )


def check_forward(spec: Spec, i: int, dtype: str) -> None:
    """Compares a sample's outputs with its reference."""
    got, (expected, units) = spec.samples[i].run(spec.name, dtype), expected_of(spec.name, i, dtype)
    assert len(got) == len(expected)
    for g, e, u in zip(got, expected, units, strict=True):
        compare(spec, g, e, u)


@pytest.mark.parametrize(("spec", "i", "dtype"), FORWARD)
def test_forward_equals_the_reference(spec, i, dtype):
    check_forward(spec, i, dtype)


@pytest.mark.parametrize("isa", [isa for isa in _core.supported_isas() if isa != _core.active_isa()])
@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_forward_equals_the_reference_on_the_other_instruction_sets(spec, isa):
    """What a machine with less, or the same one with AVX2 switched off, computes."""
    before = _core.active_isa()
    _core.use_isa(isa)
    try:
        for i in range(len(spec.samples)):
            for dtype in spec.dtypes:
                check_forward(spec, i, dtype)
    finally:
        _core.use_isa(before)


def _disturbed(spec: Spec, got: np.ndarray, expected: np.ndarray, units: np.ndarray) -> np.ndarray:
    """A result that is four tolerances off, in the element that is allowed the least."""
    wrong = got.copy()
    if spec.exact or got.dtype.kind != "f":
        place = int(np.argmax(np.isfinite(expected)))
        value = wrong.flat[place]
        wrong.flat[place] = not value if got.dtype.kind == "b" else value ^ 1 if got.dtype.kind in "iu" else value + 1
        return wrong
    allowed = allowed_errors(spec, got.dtype, units)
    place = np.unravel_index(np.argmin(np.where(np.isfinite(expected), allowed, np.inf)), expected.shape)
    step = max(allowed[place], float(np.spacing(np.abs(expected[place]).astype(got.dtype))))
    wrong[place] = expected[place] + 4 * step
    return wrong


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_a_result_that_is_a_few_tolerances_off_fails(spec):
    looked = 0
    for i, sample in enumerate(spec.samples):
        expected, units = expected_of(spec.name, i, spec.dtypes[0])
        for got, e, u in zip(sample.run(spec.name, spec.dtypes[0]), expected, units, strict=True):
            if np.isfinite(e).any():
                looked += 1
                with pytest.raises(AssertionError):
                    compare(spec, _disturbed(spec, got, e, u), e, u)
    assert looked, "no sample has an output with a number in it"


@pytest.mark.parametrize("spec", [s for s in SPECS.values() if not s.exact], ids=lambda spec: spec.name)
def test_a_tolerance_is_small_next_to_the_result(spec):
    """Half of the elements of an output must be right to one part in 300 of its largest."""
    for i, sample in enumerate(spec.samples):
        expected, units = expected_of(spec.name, i, spec.dtypes[0])
        for number, (got, e, u) in enumerate(zip(sample.run(spec.name, spec.dtypes[0]), expected, units, strict=True)):
            finite = np.isfinite(e)
            if got.dtype.kind == "f" and finite.any() and np.abs(e[finite]).max() > 0:
                allowed = np.median(allowed_errors(spec, got.dtype, u)[finite])
                assert allowed <= np.abs(e[finite]).max() / 300, f"sample {i}, output {number}"


@pytest.mark.parametrize(("spec", "i"), FUSED)
def test_a_fused_operator_equals_what_it_stands_for(spec, i):
    sample = spec.samples[i]
    got, expected = sample.run(spec.name, "float64"), composed(spec.name)(*sample.inputs, **sample.attrs)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    _, units = expected_of(spec.name, i, "float64")
    for g, e, u in zip(got, expected, units, strict=True):
        compare(spec, g, e, 2 * u)  # both may be off


@pytest.mark.parametrize(("spec", "i"), DIFFERENTIABLE)
def test_gradient_equals_central_differences(spec, i):
    sample = spec.samples[i]
    chosen, fixed = _differentiated(sample), sample.tensors("float64")

    def function(*xs):
        inputs = list(fixed)
        for k, x in zip(chosen, xs, strict=True):
            inputs[k] = x
        return dispatch.call_by_name(spec.name, inputs, **sample.attrs)

    arrays = [sample.inputs[k] for k in chosen]
    try:
        check_gradients(function, arrays, order=2, roundings=max(64.0, spec.roundings))
    except GradientError as error:
        assert str(error).split(":")[0] in RULES.first_order_only, error
        check_gradients(function, arrays, order=1, roundings=max(64.0, spec.roundings))


@pytest.mark.parametrize("spec", [s for s in SPECS.values() if s.gradient], ids=lambda spec: spec.name)
def test_every_float_input_has_a_gradient_or_a_reason_why_not(spec):
    info, rule = registry.OPS[spec.name], RULES.rules[spec.name]
    with_formula = {name for names, _, _ in rule.formulas for name in names}
    for i, arg in enumerate(info.inputs):
        name = arg["name"]
        floats = any(i in _float_inputs(s) for s in spec.samples)
        if floats and not arg["shape_only"] and not rule.through_composition:
            reasons = [(spec.name, name) in declared for declared in (RULES.flat, RULES.held)]
            assert (name in with_formula) + sum(reasons) == 1, f"no gradient by {name}, and no reason"
        else:
            assert (spec.name, name) not in {*RULES.flat, *RULES.held}


def test_a_gradient_that_has_none_itself_is_an_error_and_not_a_zero():
    x = framework.tensor(normal(4, 4), requires_grad=True)
    weight, offsets = framework.tensor(normal(1, 4, 1)), framework.tensor(np.array([0, 4]))
    y = dispatch.call_by_name("lstm", [x, weight, offsets])[0]
    (g,) = framework.gradients([y], [x], [y], create_graph=True)
    with pytest.raises(GradientError, match="lstm_grad: there is no gradient of this gradient: second order back"):
        framework.gradients([g], [x], [g])


def _run_with_gradients(name: str, sample: Sample, inputs: list) -> list:
    """Outputs, and gradients of sum(output^2) in the float inputs, as one flat list."""
    out = dispatch.call_by_name(name, inputs, **sample.attrs)
    outs = list(out) if isinstance(out, tuple) else [out]
    leaves = [x for x in inputs if x is not None and x.requires_grad]
    roots = [o for o in outs if o.requires_grad]
    grads = framework.gradients(roots, leaves, roots) if roots else []
    return outs + [g for g in grads if g is not None]


@pytest.mark.parametrize(("spec", "i"), CASES)
def test_program_gives_the_same_bits_as_eager(spec, i):
    sample, dtype = spec.samples[i], spec.dtypes[0]

    def inputs():
        tensors = sample.tensors(dtype)
        for t, x in zip(tensors, sample.inputs, strict=True):
            if t is not None and spec.gradient and x.dtype == np.float64:
                t.requires_grad = True
        return tensors

    @framework.program
    def traced(given):
        all_inputs = iter(given)
        return _run_with_gradients(spec.name, sample, [None if x is None else next(all_inputs) for x in sample.inputs])

    eager = _run_with_gradients(spec.name, sample, inputs())
    program = traced([t for t in inputs() if t is not None])
    assert len(eager) == len(program)
    for a, b in zip(eager, program, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize(("spec", "i"), CASES)
def test_one_and_two_threads_and_repeated_runs_give_the_same_bits(spec, i):
    before = framework.num_threads()
    try:
        results = []
        for threads in (1, 2, 2):
            framework.set_num_threads(threads)
            results.append(spec.samples[i].run(spec.name, spec.dtypes[0]))
    finally:
        framework.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(("spec", "i"), CASES)
def test_inputs_are_left_as_they_were(spec, i):
    tensors = spec.samples[i].tensors(spec.dtypes[0])
    before = [None if t is None else t.numpy().copy() for t in tensors]
    outputs_of(dispatch.call_by_name(spec.name, tensors, **spec.samples[i].attrs))
    for t, b in zip(tensors, before, strict=True):
        assert t is None or t.numpy().tobytes() == b.tobytes()


@pytest.mark.parametrize(("spec", "bad"), ERRORS)
def test_bad_input_is_refused_with_a_clear_message(spec, bad):
    kind = "float64" if list(spec.dtypes) == ["float64"] else "float32"
    with pytest.raises(bad.error, match=bad.match) as caught:
        dispatch.call_by_name(spec.name, Sample(bad.inputs).tensors(kind), **bad.attrs)
    assert str(caught.value).startswith(spec.name + ":")


@pytest.mark.parametrize("info", [i for i in registry.OPS.values() if i.inputs], ids=lambda i: i.name)
def test_a_required_input_that_is_missing_is_named(info):
    required = [a["name"] for a in info.inputs if not a["optional"]]
    attrs = tuple(SPECS[info.name].samples[0].attrs.get(a["name"], a["default"]) for a in info.attrs)
    with pytest.raises(AttributeValueError, match=f"{info.name}: input '{required[0]}' is missing"):
        dispatch.apply(info, [None] * len(info.inputs), attrs)


@pytest.mark.parametrize("info", registry.OPS.values(), ids=lambda i: i.name)
def test_every_operator_is_complete(info):
    assert info.doc, "no documentation"
    assert all(a["doc"] for a in info.attrs), "an attribute without documentation"
    assert info.native.has_shape_rule and info.native.has_cpu_kernel
    assert info.name in SPECS, "no test object in tests/framework/ops/specs/"
    spec = SPECS[info.name]
    assert len(spec.samples) >= 3 and len(spec.errors) >= 1
    declared = [RULES.rules, RULES.without_gradient, RULES.first_order_only]
    assert sum(info.name in d for d in declared) == 1, "needs one gradient rule, no_gradient or first_order_only"
    assert spec.gradient == (info.name in RULES)


def test_every_spec_names_an_operator():
    assert set(SPECS) <= set(registry.OPS)
