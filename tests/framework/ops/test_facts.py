"""Facts that operators declare (docs/explanation/operator_facts.md), held against what the operators do."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.ops import dispatch, internal
from framework.ops.registry import OPS
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS, Sample, normal, outputs_of


def declaring(fact):
    return [pytest.param(i, id=i.name) for i in OPS.values() if fact(i)]


def calls(info):
    return [(s, s.tensors(SPECS[info.name].dtypes[0])) for s in SPECS[info.name].samples]


def run(name, inputs, attrs):
    return outputs_of(dispatch.call_by_name(name, inputs, **attrs))


def test_public_operators_are_functions_of_ops_and_internal_ones_of_its_door_only():
    for name, info in OPS.items():
        assert hasattr(ops, name) != info.internal, name
        assert hasattr(internal, name) == info.internal, name
    assert set(internal.__all__) == {name for name, info in OPS.items() if info.internal}
    assert not set(ops.__all__) & set(internal.__all__)


@pytest.mark.parametrize("info", OPS.values(), ids=lambda i: i.name)
def test_what_steps_or_differentiates_is_internal(info):
    if info.derivative_of or info.name.endswith(("_grad", "_step", "_steps")):
        assert info.internal


@pytest.mark.parametrize("info", OPS.values(), ids=lambda i: i.name)
def test_the_precision_policy_fits_what_the_operator_computes(info):
    narrow = [a["name"] for a in info.inputs if a["narrow"]]
    assert bool(narrow) == (info.precision == "half")
    if info.precision != "float32" and info.name != "chain":  # which its own rule lets take half types
        assert info.takes_half or info.moves
    assert not (info.takes_half and info.moves)


@pytest.mark.parametrize("info", declaring(lambda i: i.moves and not i.is_view))
def test_what_moves_elements_gives_half_types_the_bits_of_its_inputs(info):
    """Rounding first and moving then is moving first and rounding then."""
    for sample, inputs in calls(info):
        if info.name == "cast" or not all(x is None or x.dtype == "float32" for x in inputs[:1]):
            continue
        half = [ops.cast(x, dtype="bfloat16") if x is not None and x.dtype == "float32" else x for x in inputs]
        outs = dispatch.call_by_name(info.name, inputs, **sample.attrs)
        halves = dispatch.call_by_name(info.name, half, **sample.attrs)
        if info.name in ("sort", "topk"):  # elements that rounding makes equal may change places: values only
            outs, halves = outs[0], halves[0]
        for a, b in zip(*(o if isinstance(o, tuple) else (o,) for o in (outs, halves)), strict=True):
            expected = ops.cast(a, dtype="bfloat16") if a.dtype == "float32" else a
            np.testing.assert_array_equal(*(ops.cast(v, dtype="float64").numpy() for v in (b, expected)))


@pytest.mark.parametrize("info", declaring(lambda i: i.picks))
def test_what_picks_numbers_gives_the_same_ones_in_8_bits(info):
    tried = 0
    for sample, inputs in calls(info):
        if not all(x is None or x.dtype == "float32" for x in inputs):
            continue
        whole = [None if x is None else np.clip(np.rint(x.numpy() * 40 + 128), 0, 255) for x in inputs]
        for dtype, zero in (("uint8", 0), ("int8", 128)):
            given = [None if x is None else framework.tensor((x - zero).astype(dtype)) for x in whole]
            shifted = [None if x is None else framework.tensor((x - zero).astype(np.float32)) for x in whole]
            for found, wanted in zip(
                run(info.name, given, sample.attrs), run(info.name, shifted, sample.attrs), strict=True
            ):
                assert found.dtype == dtype
                np.testing.assert_array_equal(found.astype(np.float32), wanted)
                tried += 1
    assert tried


@pytest.mark.parametrize("info", declaring(lambda i: i.recompute))
def test_what_is_made_again_has_the_same_bits(info):
    again, names = info.recompute
    assert set(names) <= {a["name"] for a in (*info.inputs, *info.outputs)}
    for sample, inputs in calls(info):
        outs = outputs_of(dispatch.call_by_name(info.name, inputs, **sample.attrs))
        known = dict(zip([a["name"] for a in info.inputs], inputs, strict=False))
        known |= {a["name"]: framework.tensor(y) for a, y in zip(info.outputs, outs, strict=True)}
        given = inputs if again == info.name else [known.get(name) for name in names]
        attrs = {a["name"]: sample.attrs[a["name"]] for a in OPS[again].attrs if a["name"] in sample.attrs}
        assert run(again, given, attrs)[0].tobytes() == outs[0].tobytes()


@pytest.mark.parametrize("info", declaring(lambda i: i.along))
def test_transpositions_pass_what_works_along_axes(info):
    """In a Program with the pass and without: the order of sums differs, in which float64 rounds."""
    attr = next(a for a in info.attrs if a["name"] == info.along)
    assert attr["type"] in ("int", "ints")
    x = normal(3, 4, 5) > 0 if info.name in ("any", "all") else normal(3, 4, 5)
    attrs = {info.along: 1 if attr["type"] == "int" else [1, 2]} | ({"sizes": [1, 4]} if info.name == "split" else {})
    count = 2 if info.inputs[0]["variadic"] else len(info.inputs)

    def function(x):
        turned = ops.transpose(x, perm=[1, 2, 0])
        outs = dispatch.call_by_name(info.name, [turned] * count, **attrs)
        return [ops.copy(o) for o in (outs if isinstance(outs, tuple) else (outs,))]

    sunk = framework.program(function, pass_names=("sink_transposes",))
    assert sunk.explain(x)["sink_transposes"].matched
    for a, b in zip(sunk(x), framework.program(function, pass_names=())(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=64 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("info", declaring(lambda i: i.derivative_of))
def test_a_derivative_is_the_gradient_of_its_function(info):
    function = OPS[info.derivative_of]
    assert len(function.inputs) == 1 and [a["name"] for a in info.inputs][:1] == ["dy"]
    x, dy = (framework.tensor(normal(40, seed=seed)) for seed in (1, 2))
    x.requires_grad = True
    y = dispatch.call_by_name(function.name, [x])
    (expected,) = framework.gradients([y], [x], [dy])
    got = dispatch.call_by_name(info.name, [dy, x if info.inputs[1]["name"] == "x" else y])
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("info", declaring(lambda i: i.heavy))
def test_operations_are_counted_from_shapes_alone(info):
    counts = []
    for sample, inputs in calls(info):
        types = [None if x is None else (x.shape, x.dtype) for x in inputs]
        attrs = info.attr_values(sample.attrs)
        counts.append(info.flops(types, attrs))
        assert counts[-1] >= 0 and counts[-1] % 2 == 0
    assert max(counts) > 0


def test_an_operator_without_a_formula_counts_nothing():
    assert not OPS["add"].heavy and OPS["add"].flops([((3,), "float32")] * 2, ()) == 0


@pytest.mark.parametrize("info", declaring(lambda i: any(a["choices"] for a in i.attrs)))
def test_an_attribute_takes_its_choices_and_nothing_else(info):
    spec = SPECS[info.name]
    for attr in (a for a in info.attrs if a["choices"]):
        assert attr["type"] == "str" and (attr["required"] or attr["default"] in attr["choices"])
        assert info.choices(attr["name"]) == tuple(attr["choices"])
        sample: Sample = spec.samples[0]
        inputs = sample.tensors(spec.dtypes[0])
        listed = ", ".join(f"'{name}'" for name in attr["choices"])
        with pytest.raises(framework.errors.AttributeValueError, match=f"{attr['name']} is 'other'; takes {listed}$"):
            dispatch.call_by_name(info.name, inputs, **(sample.attrs | {attr["name"]: "other"}))


def test_an_operator_ends_in_functions_of_one_input():
    for info in OPS.values():
        for name in info.choices("activation"):
            function = OPS.get({"gelu_tanh": "gelu"}.get(name, name))
            assert name == "none" or (function is not None and len(function.inputs) == 1), (info.name, name)


def test_offsets_are_those_that_kernels_check():
    for info in OPS.values():
        for arg in info.inputs:
            assert arg["offsets"] == (arg["name"] in ("offsets", "k_offsets", "label_offsets")), (
                info.name,
                arg["name"],
            )


@pytest.mark.parametrize("info", declaring(lambda i: i.has_epilogue))
def test_an_epilogue_adds_bias_and_residual_and_ends_in_an_activation(info):
    """The sum and the activation apart give the same numbers, up to the order of a few sums."""
    a, b, bias = (framework.tensor(normal(*shape)) for shape in ((1, 4, 4, 5), (3, 1, 1, 5), (3,)))
    how = {}
    if info.name == "matmul":
        a, b, how = ops.reshape(a, shape=(16, 5)), ops.reshape(b, shape=(3, 5)), {"transpose_b": True}
    plain = dispatch.call_by_name(info.name, [a, b, None, None], **how)
    residual = framework.tensor(normal(*plain.shape, seed=1))
    y = dispatch.call_by_name(info.name, [a, b, bias, residual], activation="relu", **how)
    np.testing.assert_allclose(y.numpy(), ops.relu(plain + bias + residual).numpy(), rtol=1e-5, atol=1e-5)


def test_only_products_have_an_epilogue_and_no_operator_of_the_registry_has_a_table():
    assert {i.name for i in OPS.values() if i.has_epilogue} == {"conv2d", "matmul"}
    assert not any(i.reads_table or i.writes_table for i in OPS.values())


@pytest.mark.parametrize("info", declaring(lambda i: i.rows_step))
def test_a_step_of_rows_has_the_numbers_of_a_step_of_all_rows(info):
    rows_step, unless = info.rows_step
    rows_info = OPS[rows_step]
    assert not unless or unless in {a["name"] for a in info.attrs}
    rng = np.random.default_rng(0)
    tensors = {a["name"]: framework.tensor(np.abs(rng.standard_normal((5, 3)))) for a in info.inputs}
    tensors |= {"lr": framework.tensor(np.float64(0.1)), "step": framework.tensor(np.int64(3))}
    tensors |= {"grad_scale": framework.tensor(np.float64(0.5))}
    gradient = np.zeros((5, 3))
    rows, values = np.array([1, 3]), rng.standard_normal((2, 3))
    gradient[rows] = values
    tensors |= {"grad": framework.tensor(gradient), "rows": framework.tensor(rows)}
    tensors |= {"values": framework.tensor(values)}
    attrs = {unless: 0.0} if unless else {}
    required = {a["name"]: 0.5 for a in info.attrs if a["required"]}
    whole = run(info.name, [tensors[a["name"]] for a in info.inputs], required | attrs)
    some = run(rows_step, [tensors[a["name"]] for a in rows_info.inputs], required | attrs)
    for a, b in zip(whole, some, strict=True):
        np.testing.assert_allclose(a, b, rtol=8 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("info", declaring(lambda i: i.is_elementwise or i.spreads))
def test_the_chain_kernel_knows_what_is_declared_element_wise(info):
    sample = SPECS[info.name].samples[0]
    inputs = [None if x is None else x for x in sample.tensors(SPECS[info.name].dtypes[0])]
    given = [f"{k}={_text(v)}" for k, v in sample.attrs.items()]
    if info.spreads:
        value = framework.tensor(np.float32(2.0))
        arguments = ["x0"] * (len(info.inputs) - 1) + ["like"]
        y = framework.tensor(normal(3, 4).astype(np.float32))
        given = ["value=2.0"] if info.name == "full_like" else []
        got = internal.chain(y, [value], tape=f"{info.name}({', '.join(arguments + given)}); neg(t0)")
        np.testing.assert_array_equal(got.numpy(), np.full((3, 4), -2.0))
        return
    tape = f"{info.name}({', '.join([f'x{i}' for i in range(len(inputs))] + given)})"
    expected = run(info.name, inputs, sample.attrs)[0]
    np.testing.assert_array_equal(outputs_of(internal.chain(None, inputs, tape=tape))[0], expected)


def _text(value):
    return str(value).lower() if isinstance(value, bool) else value
