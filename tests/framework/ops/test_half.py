"""Half types: conversions round to nearest even; an operator that takes them computes in float32 and rounds once."""

import numpy as np
import pytest

import framework
from framework import ops, program
from framework.errors import DTypeError
from framework.ops import dispatch, registry
from framework.precision import HALF_TYPES
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS, Sample, normal

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # largest relative error of one rounding
LEAST = {"float16": 2.0**-25, "bfloat16": 2.0**-134}  # largest error of one rounding to a subnormal number
TAKING = [name for name, info in registry.OPS.items() if info.takes_half]
ROUNDING_ONCE = [name for name in TAKING if name != "residual_layer_norm"]  # which rounds its sum first


def bits(t):
    """The 16 bits of each element."""
    return t.numpy().view(np.uint16)


def narrowed(x, dtype):
    """float64 arrays as tensors of a half type, others as they are."""
    if x is None:
        return None
    x = np.asarray(x)
    if x.dtype != np.float64:
        return framework.tensor(x)
    return ops.cast(framework.tensor(x.astype(np.float32)), dtype=dtype)


def listed(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def run(name, inputs, sample: Sample):
    return listed(dispatch.call_by_name(name, inputs, **sample.attrs))


def nearest_even_bfloat16(x):
    """The 16 bits of the bfloat16 next to float32 `x`, by whole-number arithmetic on its bits."""
    u = x.view(np.uint32).astype(np.uint64)
    rest, kept = u & 0xFFFF, u >> 16
    up = (rest > 0x8000) | ((rest == 0x8000) & (kept & 1 == 1))
    return np.where(np.isnan(x), kept | 0x40, kept + up).astype(np.uint16)


def hard_values():
    """Numbers of every size, ties between neighbours of both half types, subnormals, infinities and NaN."""
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(20000) * 2.0 ** rng.integers(-45, 40, 20000)
    halves = np.arange(65536, dtype=np.uint16)
    exact = np.concatenate(
        [halves.view(np.float16).astype(np.float32), (halves.astype(np.uint32) << 16).view(np.float32)]
    )
    with np.errstate(all="ignore"):
        ties = (
            exact.view(np.uint32)[:, None] + np.array([0, 0x1000, 0xFFF, 0x1001, 0x8000, 0x7FFF, 0x8001], np.uint32)
        ).view(np.float32)
        edges = np.array(
            [65504, 65519.996, 65520, 1e9, 2.0**-24, 2.0**-25, 3 * 2.0**-26, np.inf, -np.inf, np.nan, 0.0, -0.0]
        )
        return np.concatenate([spread.astype(np.float32), ties.reshape(-1), edges.astype(np.float32)])


def test_narrowing_rounds_to_nearest_even(isa):
    x = hard_values()
    known = ~np.isnan(x)
    half, brain = (ops.cast(framework.tensor(x), dtype=dtype) for dtype in ("float16", "bfloat16"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(bits(half)[known], x.astype(np.float16).view(np.uint16)[known])
    np.testing.assert_array_equal(bits(brain)[known], nearest_even_bfloat16(x)[known])
    for t in (half, brain):
        assert np.isnan(ops.cast(t, dtype="float32").numpy()[~known]).all()


def test_widening_is_exact_for_every_half_number(isa):
    every = np.arange(65536, dtype=np.uint16)
    got = ops.cast(framework.from_numpy(every.view(np.float16).copy()), dtype="float32").numpy()
    np.testing.assert_array_equal(got, every.view(np.float16).astype(np.float32))
    exact = (every.astype(np.uint32) << 16).view(np.float32)
    brain = ops.cast(framework.tensor(exact), dtype="bfloat16")
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(bits(brain)[known], every[known])
    np.testing.assert_array_equal(ops.cast(brain, dtype="float32").numpy()[known], exact[known])


@pytest.mark.parametrize("size", [1, 7, 15, 16, 17, 33])
@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_every_length_is_converted_whole(dtype, size):
    x = normal(size).astype(np.float32)
    back = ops.cast(ops.cast(framework.tensor(x), dtype=dtype), dtype="float32").numpy()
    np.testing.assert_allclose(back, x, rtol=UNIT[dtype], atol=0)


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("name", ROUNDING_ONCE)
def test_an_operator_computes_in_float32_and_rounds_once(name, dtype):
    info = registry.OPS[name]
    for sample in SPECS[name].samples:
        inputs = [narrowed(x, dtype) for x in sample.inputs]
        if not any(t is not None and t.dtype == dtype for t in inputs):
            continue
        wide = [t if t is None or t.dtype != dtype else ops.cast(t, dtype="float32") for t in inputs]
        got, expected = run(name, inputs, sample), run(name, wide, sample)
        data = [
            info.inputs[min(i, len(info.inputs) - 1)]
            for i, t in enumerate(inputs)
            if t is not None and t.dtype == dtype
        ]
        is_half = any(not spec["shape_only"] for spec in data)
        for i, (g, e) in enumerate(zip(got, expected, strict=True)):
            spec = info.outputs[min(i, len(info.outputs) - 1)]
            stays = e.dtype != "float32" or spec["wide"] or not is_half
            assert g.dtype == (e.dtype if stays else dtype), spec["name"]
            if not stays:
                e = ops.cast(e, dtype=dtype)
            np.testing.assert_array_equal(g.array().numpy(), e.array().numpy())


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("name", ROUNDING_ONCE)
def test_an_operator_is_one_rounding_away_from_float64(name, dtype):
    """Beyond what float32 arithmetic loses, which the operators' own tests bound."""
    for sample in SPECS[name].samples:
        inputs = [narrowed(x, dtype) for x in sample.inputs]
        if not any(t is not None and t.dtype == dtype for t in inputs):
            continue
        exact, single = (
            run(name, [t if t is None or t.dtype != dtype else ops.cast(t, dtype=d) for t in inputs], sample)
            for d in ("float64", "float32")
        )
        for g, e, s in zip(run(name, inputs, sample), exact, single, strict=True):
            if g.dtype != dtype:
                continue
            g, e, s = (ops.cast(t, dtype="float64").numpy() for t in (g, e, s))
            fits = np.isfinite(e) & np.isfinite(g)
            error, lost = np.abs(g - e)[fits], np.abs(s - e)[fits]
            assert (error <= UNIT[dtype] * np.abs(e)[fits] + lost * (1 + UNIT[dtype]) + LEAST[dtype]).all()


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_layer_norm_of_a_sum_is_that_of_the_rounded_sum(isa, dtype):
    """So that a Program may normalise the sum again where y is read late, with the same bits."""
    for sample in SPECS["residual_layer_norm"].samples:
        inputs = [narrowed(x, dtype) for x in sample.inputs]
        y, total, mean, rstd = run("residual_layer_norm", inputs, sample)
        x, residual, scale, bias, *key = [*inputs, None, None, None][:5]
        x, residual = (ops.cast(t, dtype="float32") for t in (x, residual))
        if key and key[0] is not None:
            x = ops.dropout(x, key[0], p=sample.attrs["p"])
        np.testing.assert_array_equal(total.numpy(), ops.cast(x + residual, dtype=dtype).numpy())
        eps = {"eps": sample.attrs["eps"]} if "eps" in sample.attrs else {}
        for got, expected in zip((y, mean, rstd), ops.layer_norm(total, scale, bias, **eps), strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_every_elementwise_operator_gives_the_same_bits_in_a_program(dtype):
    for name in TAKING:
        if not registry.OPS[name].is_elementwise or registry.OPS[name].name == "where":
            continue
        for sample in SPECS[name].samples[:2]:
            inputs = [narrowed(x, dtype) for x in sample.inputs]
            if not any(t is not None and t.dtype == dtype for t in inputs):
                continue

            def call(*xs, name=name, sample=sample):
                return dispatch.call_by_name(name, xs, **sample.attrs)

            got, expected = program(call)(*inputs).array().numpy(), call(*inputs).array().numpy()
            np.testing.assert_array_equal(got, expected, err_msg=name)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_chain_of_half_values_is_computed_in_float32_block_by_block(dtype):
    def chained(a, b, row):
        return ops.sigmoid(a * 3.0 + row) - ops.cast(ops.relu(b), dtype=dtype)

    a, b, row = (narrowed(normal(*shape, seed=i), dtype) for i, shape in enumerate([(33, 70), (33, 70), (70,)]))
    traced = program(chained)
    text = str(traced.program_for(a, b, row).program)
    assert text.count("chain(") == 1 and "relu(%" not in text
    got = traced(a, b, row)
    wide = [ops.cast(t, dtype="float64") for t in (a, b, row)]
    exact = (ops.sigmoid(wide[0] * 3.0 + wide[2]) - ops.relu(wide[1])).numpy()
    error = np.abs(ops.cast(got, dtype="float64").numpy() - exact)
    assert (error <= UNIT[dtype] * np.abs(exact) + 1e-6 + LEAST[dtype]).all()  # one rounding, not four


def test_a_number_beside_half_values_is_not_rounded_to_half():
    x = ops.cast(framework.tensor([3.0]), dtype="bfloat16")
    # 0.1 is 0.10009765625 in bfloat16; three times that is past the middle of two neighbours, three times 0.1 is not.
    product = ops.cast(ops.cast(framework.tensor([3 * np.float32(0.1)]), dtype="bfloat16"), dtype="float32")
    assert ops.cast(x * 0.1, dtype="float32").item() == product.item()
    assert ops.equal(x * 0.0 + 1e-40, 0.0).item() is False  # float32 subnormals are those of bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h, b, f: ops.matmul(h, b), "matmul: b is bfloat16 but a is float16; cast one to the other's type"),
        (lambda h, b, f: ops.matmul(h, ops.cast(f, dtype="float64")), "beside which only float32 may stand; use cast"),
        (lambda h, b, f: ops.box_iou(h, h), "boxes|a is float16 but must be float32 or float64; use cast"),
    ],
)
def test_types_that_do_not_fit_are_one_error(call, message):
    f = framework.tensor(normal(4, 4).astype(np.float32))
    with pytest.raises(DTypeError, match=message):
        call(ops.cast(f, dtype="float16"), ops.cast(f, dtype="bfloat16"), f)
