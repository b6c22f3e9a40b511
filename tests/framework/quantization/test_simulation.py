"""Training in 8 bits: what is simulated has the bits of the quantised Program, gradients pass roundings, not cuts."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, ops, program
from framework.errors import AttributeValueError, NumericsError, TraceError
from framework.graph.compiled import CompiledProgram
from framework.graph.passes import INFERENCE_PASSES
from framework.onnx import EXPORT_PASSES, export, load
from framework.quantization import Range, Steps, quantize_trained, ranges_of, simulated, trained

PASSES = tuple(name for name in INFERENCE_PASSES if name not in ("fuse_separable", "fuse_chains"))


def normal(*shape, seed=0, scale=1.0):
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


class Images(nn.Layer):
    """Every kind of convolution and of what lies between them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2)
        self.depth = nn.Conv2d(16, 16, 3, groups=16)
        self.point = nn.Conv2d(16, 16, 1)
        self.wide = nn.Conv2d(16, 16, 3, dilation=2, groups=4, bias=False)
        self.left, self.right = nn.Conv2d(16, 8, 1), nn.Conv2d(16, 8, 1)
        self.top = nn.Conv2d(40, 8, 3, padding=(0, 1, 0, 1))
        self.last = nn.Conv2d(8, 4, 1)

    def forward(self, x):
        x = ops.relu(self.stem(x))
        y = self.point(ops.relu6(self.depth(x))) + x
        z = ops.relu(self.wide(ops.leaky_relu(y, slope=0.1)) + y)
        small = ops.resize_nearest(ops.max_pool2d(z, 2), scale=2.0)
        split = self.left(z) + self.right(y)
        x = ops.leaky_relu(self.top(ops.concat([small, z, split], 3)), slope=0.2)
        return self.last(ops.sigmoid(x))


class Rows(nn.Layer):
    """Products with biases, activations, a residual, a shared weight, and something that stays in float32."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(24, 32), nn.Linear(32, 32), nn.Linear(32, 8, bias=False)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        x = ops.gelu(self.a(x))
        x = self.norm(x + self.b(x))
        return self.c(ops.relu(self.b(x)))


def named(layer):
    for name, p in layer.named_parameters():
        p.name = name
    return layer


def traced(function, x, passes=PASSES):
    with no_grad():
        return program(function, pass_names=passes).program_for(framework.from_numpy(x)).program


def factors_of(ranges, seed=None):
    value = np.ones(len(ranges), np.float32)
    if seed is not None:
        value = np.random.default_rng(seed).uniform(0.3, 1.3, len(ranges)).astype(np.float32)
    t = framework.tensor(value)
    t.persistable = t.requires_grad = True
    return t


def bits(layer, x, ranges, factors, **how):
    """What simulation and the kernels give of x."""
    with no_grad():
        found = program(simulated(layer, ranges, lambda: factors, **how))(framework.from_numpy(x)).numpy()
    small = quantize_trained(traced(layer, x), trained(ranges, factors.numpy()), **how)
    (expected,) = CompiledProgram(small).run([framework.from_numpy(x)])
    return found, expected.numpy(), small


CASES = {"images": (Images, normal(2, 20, 24, 3)), "rows": (Rows, normal(7, 24))}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", CASES)
def test_simulation_has_the_bits_of_the_kernels(case, seed):
    make, x = CASES[case]
    layer = named(make())
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    found, expected, small = bits(layer, x, ranges, factors_of(ranges, seed))
    assert found.tobytes() == expected.tobytes()
    names = [op.name for op in small.block]
    assert {"images": names.count("quantized_conv2d") == 8, "rows": names.count("quantized_matmul") == 4}[case]
    other, _, _ = bits(layer, x, ranges, factors_of(ranges))
    assert not np.array_equal(found, other)  # factors count


def with_biases(size):
    layer = named(Images())
    for i, conv in enumerate((layer.stem, layer.depth, layer.point, layer.left, layer.right, layer.top, layer.last)):
        conv.bias.set(framework.from_numpy(normal(conv.out_channels, seed=i, scale=size)))
    return layer


@pytest.mark.parametrize("whole_biases", [True, False])
@pytest.mark.parametrize("size", [0.1, 3e3, 3e5, 1e12])  # large ones are more steps than a file and 32 bits hold
@pytest.mark.parametrize("dead", [False, True])
def test_biases_have_the_bits_of_the_kernels(size, dead, whole_biases):
    layer, x = with_biases(size), normal(2, 20, 24, 3)
    if dead:
        weight = layer.point.weight.numpy().copy()
        weight[3] = 0  # a filter without a step
        layer.point.weight.set(framework.from_numpy(weight))
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    found, expected, _ = bits(layer, x, ranges, factors_of(ranges, 2), whole_biases=whole_biases)
    assert found.tobytes() == expected.tobytes()


def test_a_trained_network_is_read_back_from_onnx_with_the_same_bits(tmp_path):
    layer, x = with_biases(0.1), normal(2, 20, 24, 3)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    found, _, _ = bits(layer, x, ranges, factors_of(ranges, 2))
    small = quantize_trained(traced(layer, x, EXPORT_PASSES), trained(ranges, factors_of(ranges, 2).numpy()))
    export(small, tmp_path / "m.onnx")
    (again,) = CompiledProgram(load(tmp_path / "m.onnx", {"input0": x.shape})).run([framework.from_numpy(x)])
    assert again.numpy().tobytes() == found.tobytes()


def test_a_bias_learns_though_it_is_rounded():
    layer, x = with_biases(0.1), normal(1, 12, 12, 3)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    run = simulated(layer, ranges, lambda: factors_of(ranges))
    program(lambda x: ops.sum(run(x)).backward())(framework.from_numpy(x))
    np.testing.assert_allclose(layer.last.bias.grad.numpy(), [np.prod(layer(framework.from_numpy(x)).shape[:3])] * 4)


@pytest.mark.parametrize("size", [1e-23, 1e-12, 1e12, 1e20])
def test_inputs_of_any_size_have_the_bits_of_the_kernels(size):
    layer, x = named(Images()), normal(2, 20, 24, 3, scale=size)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    found, expected, _ = bits(layer, x, ranges, factors_of(ranges, 1))
    assert np.isfinite(expected).all() and found.tobytes() == expected.tobytes()


def test_other_shapes_than_those_of_calibration_have_the_same_bits():
    layer = named(Images())
    x = normal(1, 16, 16, 3)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    for shape in ((3, 12, 28, 3), (1, 32, 20, 3)):
        found, expected, _ = bits(layer, normal(*shape, seed=1), ranges, factors_of(ranges))
        assert found.tobytes() == expected.tobytes()


def test_one_program_takes_images_of_all_sizes():
    layer = named(Images())
    x = normal(1, 16, 16, 3)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    factors = factors_of(ranges)
    run = program(simulated(layer, ranges, lambda: factors))
    with no_grad():
        shapes = [run(framework.from_numpy(normal(2, side, 16, 3))).shape for side in (16, 24, 40)]
    assert [shape[1] for shape in shapes] == [7, 11, 19]
    assert run.traces_made == 1


def test_gradients_pass_roundings_and_stop_at_cuts():
    x, w = normal(64, 6, scale=2), normal(5, 6, seed=1)
    layer = nn.Linear(6, 5)
    layer.weight.set(framework.tensor(w))
    named(layer)
    first = 0.02  # 127 of them reach to 2.54: some numbers are cut
    ranges, dy = [Range(("weight:x",), Steps(first, 0))], normal(64, 5, seed=2)
    factors = factors_of(ranges)
    run = simulated(layer, ranges, lambda: factors)

    def step(x, dy):
        ops.sum(run(x) * dy).backward()

    given = framework.tensor(x)
    given.requires_grad = True
    program(step)(given, framework.tensor(dy))
    scale = np.float32(first)
    q, inside = np.clip(np.rint(x / scale), -127, 127), np.abs(x / scale) <= 127
    rows = np.abs(w).max(axis=1, keepdims=True) / 127
    rounded = np.rint(w / rows) * rows
    assert 20 < (~inside).sum() < 300
    np.testing.assert_allclose(given.grad.numpy(), dy @ rounded * inside, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.weight.grad.numpy(), dy.T @ (q * scale), rtol=1e-4, atol=1e-4)
    back = dy @ rounded
    of_scale = np.sum(back * np.where(inside, q - x / scale, q))  # Esser et al. 2020, equation 3
    share = 1 / np.sqrt(6 * 255) / scale**2 * scale  # of a factor, for its scale's relative change
    np.testing.assert_allclose(factors.grad.numpy(), [of_scale * share], rtol=2e-3)


def test_layers_that_set_states_and_draw_numbers_do_so_once_a_step():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.drop = nn.Linear(8, 16), nn.BatchNorm(16), nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(self.norm(self.a(x)))

    layer, x = named(Net()), normal(32, 8)
    ranges = ranges_of(traced(layer.eval(), x), [[x]], smallest=0)
    factors = factors_of(ranges)
    run = program(simulated(layer.train(), ranges, lambda: factors))
    one, two = (run(framework.from_numpy(x)).numpy() for _ in range(2))
    assert not np.array_equal(one, two)
    mean = layer.norm.running_mean.numpy()
    want = layer.a(framework.from_numpy(x)).numpy().mean(axis=0)
    np.testing.assert_allclose(mean, want * (1 - 0.9**2), rtol=0.05, atol=0.01)


def test_branches_run_in_8_bits_around_them():
    layer = named(nn.Linear(8, 8))

    def function(x):
        y = layer(x)
        return framework.cond(ops.sum(y) > 0.0, lambda: y * 2.0, lambda: y)

    x = normal(4, 8)
    ranges = ranges_of(traced(function, x), [[x]], smallest=0)
    found, expected, _ = bits(function, x, ranges, factors_of(ranges))
    assert found.tobytes() == expected.tobytes()


def test_what_only_training_has_between_layers_stays_in_float():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 4, 1)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            x = ops.relu(self.a(x))
            return self.c(self.drop(self.b(x)) + x)

    layer, x = named(Net()), normal(2, 8, 8, 3)
    ranges = ranges_of(traced(layer.eval(), x), [[x]], smallest=0)
    factors = factors_of(ranges)
    found, expected, _ = bits(layer, x, ranges, factors)
    assert found.tobytes() == expected.tobytes()
    trains = program(simulated(layer.train(), ranges, lambda: factors))(framework.from_numpy(x)).numpy()
    assert np.isfinite(trains).all() and not np.array_equal(trains, found)


def test_it_is_for_programs_only():
    with pytest.raises(TraceError, match=r"inside of framework\.program"):
        simulated(lambda x: x, [Range(("w:x",), Steps(1.0, 0))], lambda: None)(framework.tensor([1.0]))


def test_ranges_of_another_network_are_refused():
    layer, x = named(Images()), normal(1, 16, 16, 3)
    ranges = ranges_of(traced(layer, x), [[x]], smallest=0)
    less = [Range(tuple(role for role in r.roles if role != "point.weight:y"), r.steps) for r in ranges]
    less = [Range(r.roles[:1] if r.roles[0] == "stem.weight:x" else r.roles, r.steps) for r in less if r.roles]
    assert quantize_trained(traced(layer, x), less)  # another role of the same values is known
    none = [r for r in ranges if "stem.weight:y" not in r.roles]
    with pytest.raises(AttributeValueError, match=r"found no range for stem\.weight:y; its network is another"):
        quantize_trained(traced(layer, x), none)


def test_a_network_with_nothing_to_train_is_refused():
    x = normal(4, 8)
    with pytest.raises(AttributeValueError, match="nothing to train; look at keep and smallest"):
        ranges_of(traced(named(nn.Linear(8, 8)), x), [[x]])


def test_a_nan_in_calibration_is_one_error():
    x = normal(4, 8)
    x[0, 0] = np.nan
    with pytest.raises(NumericsError, match="calibration batch 0"):
        ranges_of(traced(named(nn.Linear(8, 8)), x), [[x]], smallest=0)


def test_a_scale_that_training_drove_below_zero_counts_by_its_magnitude():
    ranges = [Range(("w:x",), Steps(0.5, 0))]
    assert trained(ranges, np.array([-0.5], np.float32))[0].steps.scale == 0.25
    assert trained(ranges, np.array([0.0], np.float32))[0].steps.scale > 0
