"""autocast: what is half, what stays float32, and that gradients and Programs follow."""

import numpy as np
import pytest

import framework
from framework import autocast, nn, ops, program, scan, while_loop
from framework.context import context
from framework.errors import AttributeValueError
from framework.ops import internal
from framework.ops.registry import OPS
from framework.optim import AdamW, LossScaler, Momentum
from framework.precision import HALF_TYPES

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def draw(*shape, seed=0, scale=1.0):
    rng = np.random.default_rng([seed, *shape])
    return framework.tensor((rng.standard_normal(shape) * scale).astype(np.float32))


def parameter(*shape, seed=0, scale=1.0):
    t = draw(*shape, seed=seed, scale=scale)
    t.requires_grad = t.persistable = True
    return t


def wide(t):
    return ops.cast(t, dtype="float64").numpy()


OFFSETS = np.array([0, 3, 7])
CALLS = {
    "matmul": lambda x: ops.matmul(x, parameter(8, 5), parameter(5)),
    "conv2d": lambda x: ops.conv2d(ops.reshape(x, shape=(1, 7, 8, 1)), parameter(3, 3, 3, 1), parameter(3), padding=1),
    "separable_conv2d": lambda x: internal.separable_conv2d(
        ops.reshape(x, shape=(1, 1, 7, 8)), parameter(8, 1, 1, 1), parameter(4, 1, 1, 8), groups=8
    ),
    "conv2d_transpose": lambda x: ops.conv2d_transpose(
        ops.reshape(x, shape=(1, 7, 2, 4)), parameter(4, 2, 2, 3), stride=2
    ),
    "ragged_attention": lambda x: ops.ragged_attention(x, x, x, framework.tensor(OFFSETS), heads=2)[0],
    "ragged_self_attention": lambda x: ops.ragged_self_attention(
        ops.matmul(x, parameter(8, 12)), framework.tensor(OFFSETS), heads=2
    )[0],
    "scaled_dot_product_attention": lambda x: ops.scaled_dot_product_attention(
        *[ops.reshape(ops.matmul(x, parameter(8, 8, seed=i)), shape=(1, 7, 8)) for i in range(3)], heads=2
    )[0],
    "batch_norm": lambda x: ops.batch_norm(x, parameter(8), parameter(8))[0],
    "batch_norm_inference": lambda x: ops.batch_norm_inference(
        x, parameter(8), parameter(8), draw(8), ops.square(draw(8)) + 0.5
    ),
    "layer_norm": lambda x: ops.layer_norm(x, parameter(8), parameter(8))[0],
    "residual_layer_norm": lambda x: internal.residual_layer_norm(x, x, parameter(8), parameter(8))[0],
    "group_norm": lambda x: ops.group_norm(ops.reshape(x, shape=(1, 7, 8)), parameter(8), parameter(8), groups=2)[0],
    "rms_norm": lambda x: ops.rms_norm(x, parameter(8))[0],
}


def test_every_operator_of_the_policy_has_a_call_here():
    assert CALLS.keys() == {name for name, info in OPS.items() if info.precision == "half"}


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("name", CALLS)
def test_an_operator_of_the_policy_gives_half_and_its_parameters_float32_gradients(name, dtype):
    def loss(x, on):
        """The result, and how far it is from some numbers."""
        with autocast(dtype if on else "float32"):
            y = CALLS[name](x)
        return y, ops.mean(ops.square(ops.cast(y, dtype="float32") - draw(*y.shape, seed=5)))

    x = parameter(7, 8)
    x.persistable = False
    inner = x * 1.0  # not a parameter: what a layer before it gave
    y, half = loss(inner, True)
    assert y.dtype == dtype
    half.backward()
    gradient, x.grad = x.grad, None
    assert gradient.dtype == "float32"
    y32, full = loss(x * 1.0, False)
    full.backward()
    # A few roundings of inputs, results and gradients on the way, each relative to the largest number there.
    for got, exact in ((wide(y), wide(y32)), (wide(gradient), wide(x.grad))):
        assert np.abs(got - exact).max() <= 16 * UNIT[dtype] * np.abs(exact).max()


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_losses_reductions_and_powers_are_float32_and_the_rest_follows(dtype):
    x, w = draw(6, 8), parameter(8, 8)
    with autocast(dtype):
        h = x @ w
        assert h.dtype == dtype
        for follows in (ops.gelu(h), h + h, h * 0.5, h[1:3], ops.transpose(h, perm=(1, 0)), ops.concat([h, h], axis=0)):
            assert follows.dtype == dtype
        for stays in (
            ops.mean(h),
            ops.softmax(h),
            ops.exp(h),
            h**2.0,
            ops.square(h),
            h + x,
            ops.concat([h, x], axis=0),
        ):
            assert stays.dtype == "float32"
        assert ops.cross_entropy(h, framework.tensor(np.zeros(6, np.int64))).dtype == "float32"
        with autocast("float32"):
            assert (x @ w).dtype == "float32"
        assert (x @ w).dtype == dtype
    assert (x @ w).dtype == "float32"


def test_recurrent_layers_get_float32():
    layer = nn.LSTM(8, 4)
    nn.init.initialize(layer, 0)
    with autocast("bfloat16"):
        out = layer(draw(7, 8), framework.tensor(OFFSETS))
    assert (out[0] if isinstance(out, tuple) else out).dtype == "float32"


def test_weight_gradients_are_summed_in_float32():
    """1,024 equal products would stop growing at 256 in bfloat16, and overflow in float16."""
    x, w = framework.tensor(np.full((1024, 1), 128.0, np.float32)), parameter(1, 3)
    b = parameter(3)
    with autocast("float16"):
        y = ops.matmul(x, w, b)
    (ops.sum(y) * 128.0).backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((1, 3), 1024 * 128.0 * 128.0, np.float32))
    np.testing.assert_array_equal(b.grad.numpy(), np.full(3, 1024 * 128.0, np.float32))


class Small(nn.Layer):
    """An image classifier with a residual, batch norm and dropout."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.inner, self.inner_norm = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm(16)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        h = ops.relu(self.norm(self.stem(x)))
        h = ops.max_pool2d(ops.relu(self.inner_norm(self.inner(h)) + h), kernel=2)
        return self.out(ops.mean(h, axes=(1, 2)))


def learn(dtype, eager=False, steps=60):
    """Losses of a small classifier of noisy blobs, and the Program if there is one."""
    model = Small()
    nn.init.initialize(model, 0)
    optimizer, scaler = Momentum(model.named_parameters(), lr=0.05), LossScaler() if dtype == "float16" else None
    rng = np.random.default_rng(0)
    means = rng.standard_normal((4, 1, 1, 3))

    def step(x, labels):
        with autocast(dtype):
            loss = ops.mean(ops.cross_entropy(model(x), labels))
        optimizer.zero_grad()
        (scaler.scaled(loss) if scaler else loss).backward()
        factor = scaler.factor(model.parameters()) if scaler else None
        optimizer.step(None, factor)
        if scaler:
            scaler.update(factor)
        return loss

    run, losses = (step if eager else program(step)), []
    for _ in range(steps):
        labels = rng.integers(0, 4, 16)
        x = (means[labels] + rng.standard_normal((16, 8, 8, 3))).astype(np.float32)
        losses.append(run(framework.tensor(x), framework.tensor(labels)).item())
    return losses, run, (framework.tensor(x), framework.tensor(labels))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_classifier_learns_as_well_as_in_float32(dtype):
    full, half = learn("float32")[0], learn(dtype)[0]
    assert np.mean(full[-10:]) < 0.2 * full[0]
    assert np.mean(half[-10:]) < 0.2 * half[0]
    # The first losses differ by the roundings of one forward pass: a few layers of a number near 1.
    assert abs(half[0] - full[0]) <= 8 * UNIT[dtype] * full[0]


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_program_follows_the_eager_steps(dtype):
    """A Program rounds no more often, so the two drift apart by roundings of half."""
    eager, traced = learn(dtype, eager=True, steps=4)[0], learn(dtype, steps=4)[0]
    np.testing.assert_allclose(traced, eager, rtol=32 * UNIT[dtype])


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_step_takes_less_memory(dtype):
    sizes = {}
    for precision in ("float32", dtype):
        _, run, inputs = learn(precision, steps=1)
        big = [framework.tensor(np.zeros((32, 64, 64, 3), np.float32)), framework.tensor(np.zeros(32, np.int64))]
        assert len(inputs) == len(big)
        sizes[precision] = run.program_for(*big).memory_report(big).arena_bytes
    assert sizes[dtype] < 0.75 * sizes["float32"]


def test_a_program_is_traced_again_for_another_precision():
    w = parameter(8, 8)
    f = program(lambda x: x @ w)
    x = draw(4, 8)
    assert f(x).dtype == "float32"
    with autocast("bfloat16"):
        assert f(x).dtype == "bfloat16"
    assert f(x).dtype == "float32"
    assert f.traces_made == 2


def test_a_loop_and_a_scan_keep_the_type_of_their_state():
    w = parameter(4, 4, scale=0.3)

    def run(x):
        with autocast("bfloat16"):
            last, rows = scan(lambda s, row: (s @ w + row, s @ w), x[0] * 0.0, x)
            end = while_loop(lambda t: ops.max(ops.abs(t)) > 0.1, lambda t: (t @ w) * 0.5, last, max_iterations=9)
        return last, rows, end

    x = draw(5, 2, 4)
    for last, rows, end in (run(x), program(run)(x)):
        assert (last.dtype, end.dtype) == ("float32", "float32") and rows.dtype in ("bfloat16", "float32")


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_second_gradients_pass_through_half_values(dtype):
    x, w = parameter(6, 8), parameter(8, 3)
    with autocast(dtype):
        y = ops.tanh(ops.matmul(x * 1.0, w))
    total = ops.sum(ops.square(ops.cast(y, dtype="float32")))
    (slope,) = framework.gradients([total], [x], create_graph=True)
    ops.sum(ops.square(slope)).backward()
    got = wide(w.grad)
    w.grad = x.grad = None
    total = ops.sum(ops.square(ops.tanh(ops.matmul(x, w))))
    (slope,) = framework.gradients([total], [x], create_graph=True)
    ops.sum(ops.square(slope)).backward()
    assert np.abs(got - wide(w.grad)).max() <= 64 * UNIT[dtype] * np.abs(wide(w.grad)).max()


def test_running_statistics_keep_out_what_overflowed():
    norm = nn.BatchNorm(2)
    nn.init.initialize(norm, 0)
    x = framework.tensor(np.array([[1e30, 1.0], [2.0, 3.0]], np.float32))
    with autocast("float16"):
        norm(x * 1.0)
    np.testing.assert_allclose(norm.running_mean.numpy(), [0.0, 0.2], rtol=1e-6)
    assert np.isfinite(norm.running_var.numpy()).all()


def test_a_moving_average_and_weights_stay_float32():
    model = Small()
    nn.init.initialize(model, 0)
    optimizer = AdamW(model.named_parameters())
    with autocast("bfloat16"):
        loss = ops.mean(model(draw(2, 8, 8, 3)))
        loss.backward()
        optimizer.step()
    assert {t.dtype for t in [*model.state_dict().values(), *optimizer.state_dict().values()]} == {"float32", "int64"}


def test_another_type_is_refused_and_an_error_inside_ends_the_block():
    with (
        pytest.raises(AttributeValueError, match="dtype is 'half'; takes 'float32', 'float16', 'bfloat16'"),
        autocast("half"),
    ):
        pass
    with pytest.raises(ZeroDivisionError), autocast("bfloat16"):
        raise ZeroDivisionError
    assert context.cast is None and context.precision == "float32"
