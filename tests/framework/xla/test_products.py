"""How an accelerator takes the factors of products: as they are, or rounded, with sums in float32."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import AttributeValueError
from tests.devices import DEVICE

jax = pytest.importorskip("jax", reason="the extra [xla] is not installed")

from framework.xla import execution  # noqa: E402

U = 2.0**-8  # half a unit of bfloat16's 7 bits and the leading one


def rounded(x):
    return np.asarray(jax.numpy.asarray(x, jax.numpy.bfloat16).astype(jax.numpy.float32))


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(function, *arrays, products="bfloat16"):
    with framework.device(DEVICE, products=products):
        return framework.program(function)(*arrays).numpy()


def test_bfloat16_rounds_the_factors_of_a_matrix_product_and_sums_in_float32():
    a, b = draw(40, 500), draw(500, 30, seed=1)
    exact = rounded(a).astype(np.float64) @ rounded(b)
    found = run(lambda x, y: ops.matmul(x, y), a, b)
    bound = 500 * 2.0**-24 * (np.abs(rounded(a)).astype(np.float64) @ np.abs(rounded(b)))  # of 500 sums in float32
    assert found.dtype == np.float32 and (np.abs(found - exact) <= bound).all()
    assert np.abs(found - a.astype(np.float64) @ b).max() > 10 * bound.max()  # so factors were rounded


def test_bfloat16_rounds_the_factors_of_a_convolution_and_its_result():
    x, w = draw(2, 9, 9, 16), draw(8, 3, 3, 16, seed=1)
    with framework.device("cpu"):
        exact = framework.program(lambda x, w: ops.conv2d(x, w, padding=1))(rounded(x), rounded(w)).numpy()
        size = framework.program(lambda x, w: ops.conv2d(x, w, padding=1))(np.abs(x), np.abs(w)).numpy()
    found = run(lambda x, w: ops.conv2d(x, w, padding=1), x, w)
    assert found.dtype == np.float32
    assert (np.abs(found - exact) <= U * np.abs(exact) + 144 * 2.0**-20 * size).all()
    assert not (found == run(lambda x, w: ops.conv2d(x, w, padding=1), x, w, products="float32")).all()


def test_gradients_of_products_take_rounded_factors_too():
    x, w = draw(2, 9, 9, 4), draw(8, 3, 3, 4, seed=1)

    def gradients(x, w):
        y = ops.conv2d(x, w, padding=1)
        dx, dw = framework.gradients([ops.sum(y * y)], [x, w])
        return ops.concat([ops.reshape(dx, (-1,)), ops.reshape(dw, (-1,))], axis=0)

    def on(products):
        framework_x, framework_w = framework.tensor(x), framework.tensor(w)
        framework_x.requires_grad = framework_w.requires_grad = True
        return run(gradients, framework_x, framework_w, products=products)

    exact, found = on("float32"), on("bfloat16")
    assert 0 < np.abs(found - exact).max() < 8 * U * np.abs(exact).max()


def test_attention_takes_rounded_factors():
    qkv, offsets = draw(11, 3 * 16), np.array([0, 4, 11])
    exact, found = (
        run(lambda x, o: ops.ragged_self_attention(x, o, heads=2)[0], qkv, offsets, products=products)
        for products in ("float32", "bfloat16")
    )
    assert 0 < np.abs(found - exact).max() < 16 * U


def test_products_of_float64_and_what_is_no_product_stay_exact():
    a = np.random.default_rng(0).standard_normal((8, 8))
    np.testing.assert_allclose(run(lambda x: ops.matmul(x, x), a), a @ a, rtol=1e-13, atol=1e-13)
    x = draw(64)
    np.testing.assert_array_equal(run(lambda x: x * x, x), x * x)


@pytest.mark.parametrize(("products", "asked"), [("float32", "highest"), ("tf32", "tensorfloat32")])
def test_xla_is_asked_for_the_precision(monkeypatch, products, asked):
    seen, original = [], jax.default_matmul_precision
    monkeypatch.setattr(execution.jax, "default_matmul_precision", lambda name: seen.append(name) or original(name))
    run(lambda x: ops.matmul(x, x), draw(4, 4), products=products)
    assert seen == [asked]


def test_each_kind_of_product_is_compiled_by_itself():
    x = framework.tensor(draw(16, 16))
    step = framework.program(lambda x: ops.matmul(x, x))
    found = []
    for products in ("float32", "bfloat16", "float32"):
        with framework.device(DEVICE, products=products):
            assert framework.devices.placement() == (DEVICE, 1, products)
            found.append(step(x).numpy())
    assert (found[0] == found[2]).all() and not (found[0] == found[1]).all()


def test_the_cpus_own_kernels_never_round_and_other_names_are_refused():
    for name, products in (("cpu", "bfloat16"), (DEVICE, "int4")):
        with pytest.raises(AttributeValueError, match=f"products is '{products}' with {name}; there are float32, tf32"):
            framework.set_device(name, products=products)


@pytest.mark.parametrize("products", ["float32", "bfloat16"])
def test_mixed_precision_trains_convolutions_of_every_kind_as_the_cpu_does(products):
    """Weights are float32 and what comes to them bfloat16: their casts may be left out."""
    given = [draw(2, 8, 8, 16), draw(16, 3, 3, 16, seed=1) * 0.1, draw(16, 3, 3, 1, seed=2) * 0.3]
    given.append(draw(4, 1, 1, 16, seed=3) * 0.3)

    def step(x, dense, depthwise, point):
        with framework.autocast("bfloat16"):
            y = ops.relu(ops.conv2d(x, dense, padding=1))
            y = ops.conv2d(ops.conv2d(y, depthwise, padding=1, groups=16), point)
            loss = ops.mean(ops.cast(y, dtype="float32") ** 2.0)
        return [loss, *framework.gradients([loss], [dense, depthwise, point])]

    def on(device, products):
        tensors = [framework.tensor(array) for array in given]
        for t in tensors[1:]:
            t.requires_grad = True
        with framework.device(device, products=products):
            return [t.numpy() for t in framework.program(step)(*tensors)]

    for found, native in zip(on(DEVICE, products), on("cpu", "float32"), strict=True):
        assert found.dtype == native.dtype
        assert np.abs(found - native).max() <= 8 * U * np.abs(native).max()  # four roundings on the way, twice each
