"""Convolution in every algorithm and pass, on every instruction set here, against float64 NumPy on random geometries.

Direct algorithms are held to the worst case of a sum of n products in any order, n u / (1 - n u) times the sum of the
products' sizes (Higham, Accuracy and Stability, section 3.1); Winograd to its promise, 1e-5 of the largest output.
"""

from dataclasses import replace

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.ops import internal
from tests.framework.native.conv_reference import PASSES, Case, compute, reference, worst_case


@pytest.fixture(autouse=True)
def restore_settings():
    threads, isa = framework.num_threads(), _core.active_isa()
    yield
    framework.set_num_threads(threads)
    _core.use_isa(isa)


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    kind = ("any", "winograd", "depthwise", "groups", "stem", "dilated")[seed % 6]
    size = lambda most: int(rng.integers(1, most + 1))  # noqa: E731
    pair = lambda most: (size(most), size(most))  # noqa: E731
    C, K, groups = size(70), size(70), 1
    if kind == "depthwise":
        groups = size(70)
        C = K = groups
        K *= int(rng.choice([1, 1, 2]))  # a multiplier of 2 takes the general path
    elif kind == "groups":
        groups = size(4)
        C, K = groups * size(12), groups * size(12)
    elif kind == "stem":
        C = size(4)  # few enough channels for a row of the kernel to be one tap
    R, S, stride, dilation = *pair(5), pair(3), pair(3)
    if kind == "stem":
        dilation = (1, int(rng.choice([1, 1, 2])))
    if kind == "winograd":
        R, S, stride, dilation = 3, 3, (1, 1), (1, 1)
    padding = tuple(int(p) for p in rng.integers(0, 4, 4))
    if kind == "dilated":
        R, S, stride, dilation = 3, 3, (1, 1), pair(5)
        padding = (dilation[0], dilation[0], dilation[1], dilation[1])
    reach = (dilation[0] * (R - 1) + 1, dilation[1] * (S - 1) + 1)
    H = max(size(14), reach[0] - padding[0] - padding[1])
    W = max(size(14), reach[1] - padding[2] - padding[3])
    return Case(size(3), H, W, C, K, R, S, stride, padding, dilation, groups)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(72))
def test_every_algorithm_and_pass_is_right_on_every_instruction_set(seed, dtype):
    case = random_case(seed)
    arrays = [a.astype(dtype) for a in case.arrays(seed)]
    exact = reference(case, *(a.astype(np.float64) for a in arrays))
    sizes = reference(case, *(np.abs(a.astype(np.float64)) for a in arrays))
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        for algorithm in ("direct", "auto", "winograd") if case.winograd else ("direct", "auto"):
            for i, (which, got) in enumerate(zip(PASSES, compute(case, *arrays, algorithm), strict=True)):
                error, bound = np.abs(got - exact[i]), worst_case(case, which, sizes[i], dtype)
                if algorithm != "direct" and case.winograd and dtype == np.float32:
                    bound = np.full_like(error, 1e-5 * np.abs(exact[i]).max())
                assert (error <= bound).all(), f"{isa} {algorithm} {which} {case}: {(error - bound).max()} too far"


@pytest.mark.parametrize("seed", range(30))
def test_bias_residual_and_activation_on_the_way_out_are_right_in_every_algorithm(seed):
    """All are done to a block of outputs while it is in registers, so they meet every edge of the blocks."""
    case = random_case(seed)
    x, w, _ = (a.astype(np.float32) for a in case.arrays(seed))
    bias = np.random.default_rng(seed).standard_normal(case.K).astype(np.float32)
    activation = ("none", "relu", "relu6", "leaky_relu")[seed // 4 % 4]
    dy = np.zeros((case.N, *case.out, case.K))
    residual = np.random.default_rng(seed + 1).standard_normal(dy.shape).astype(np.float32)
    last = seed % 2 == 1
    before = reference(case, x.astype(np.float64), w.astype(np.float64), dy)[0] + bias + (0 if last else residual)
    exact = {
        "none": before,
        "relu": np.maximum(before, 0),
        "relu6": np.clip(before, 0, 6),
        "leaky_relu": np.where(before < 0, 0.25 * before, before),
    }[activation]
    exact = exact + (residual if last else 0)
    sizes = reference(case, np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), dy)[0]
    sizes += np.abs(bias) + np.abs(residual)
    # Bias and residual are two terms more, the slope of 1/4 exact; no activation enlarges an error.
    direct = worst_case(replace(case, C=case.C + 2 * case.groups), "forward", sizes, np.float32)
    attrs = {**case.attrs, "activation": activation, "slope": 0.25, "residual_last": last}
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        for algorithm in ("direct", "auto", "winograd") if case.winograd else ("direct", "auto"):
            y = ops.conv2d(*map(framework.tensor, (x, w, bias, residual)), algorithm=algorithm, **attrs).numpy()
            winograd = algorithm != "direct" and case.winograd
            bound = 1e-5 * np.abs(before).max() if winograd else direct
            assert (np.abs(y - exact) <= bound).all(), f"{isa} {algorithm} {activation} {case}"


@pytest.mark.parametrize("seed", range(30))
def test_transposed_convolution_is_the_gradient_by_the_image_plus_bias(seed):
    case = random_case(seed)
    x, w, dy = (a.astype(np.float32) for a in case.arrays(seed))
    bias = np.random.default_rng(seed).standard_normal(case.C).astype(np.float32)
    top, bottom, left, right = case.padding
    room = (case.H + top + bottom, case.W + left + right)
    reach = (case.dilation[0] * (case.R - 1) + 1, case.dilation[1] * (case.S - 1) + 1)
    rest = tuple((room[i] - reach[i]) % case.stride[i] for i in (0, 1))
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        for algorithm in ("direct", "winograd") if case.winograd else ("direct",):
            attrs = {**case.attrs, "algorithm": algorithm}
            tdy, tw, tx = (framework.tensor(a) for a in (dy, w, x))
            expected = internal.conv2d_grad_input(tdy, tw, tx, **attrs).numpy() + bias
            got = ops.conv2d_transpose(tdy, tw, framework.tensor(bias), output_padding=rest, **attrs).numpy()
            np.testing.assert_array_equal(got, expected, err_msg=f"{isa} {algorithm} {case}")


LARGE = {
    "many tiles": Case(2, 41, 38, 32, 24, 3, 3),
    "few tiles, many channels": Case(1, 9, 7, 96, 272, 3, 3),
    "long sum in slices": Case(2, 64, 60, 20, 24, 1, 1, padding=(0, 0, 0, 0)),
    "strided stem": Case(2, 64, 60, 3, 32, 7, 7, stride=(2, 2), padding=(3, 3, 3, 3)),
    "dilated by 4": Case(2, 33, 33, 64, 48, 3, 3, padding=(4, 4, 4, 4), dilation=(4, 4)),
    "depthwise": Case(2, 40, 44, 80, 80, 3, 3, groups=80),
    "depthwise, mostly border": Case(2, 16, 17, 80, 80, 3, 3, dilation=(12, 6), padding=(12, 12, 6, 6), groups=80),
    "small groups": Case(2, 20, 20, 40, 48, 3, 3, groups=8),
    "few pixels, deep": Case(1, 14, 14, 520, 96, 3, 3, stride=(2, 2)),
    "larger than the caches": Case(1, 224, 226, 4, 64, 1, 1, padding=(0, 0, 0, 0)),
    "depthwise, larger than the caches": Case(1, 160, 162, 128, 128, 3, 3, groups=128),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE.keys())
def test_one_two_and_three_threads_give_the_same_bits(case):
    arrays = [a.astype(np.float32) for a in case.arrays(0)]
    for algorithm in ("direct", "winograd") if case.winograd else ("direct",):
        results = []
        for threads in (1, 2, 3):
            framework.set_num_threads(threads)
            results.append(compute(case, *arrays, algorithm))
        for other in results[1:]:
            for which, a, b in zip(PASSES, results[0], other, strict=True):
                assert np.array_equal(a, b), f"{algorithm} {which}"


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE.keys())
def test_algorithms_agree_where_work_is_shared(case):
    """Large enough for several tasks, depth blocks and slices; small cases above never leave the first."""
    arrays = [a.astype(np.float32) for a in case.arrays(1)]
    exact = reference(case, *(a.astype(np.float64) for a in arrays))
    sizes = reference(case, *(np.abs(a.astype(np.float64)) for a in arrays))
    for i, (which, got) in enumerate(zip(PASSES, compute(case, *arrays, "direct"), strict=True)):
        assert (np.abs(got - exact[i]) <= worst_case(case, which, sizes[i], np.float32)).all(), which
    if case.winograd:
        for i, (which, got) in enumerate(zip(PASSES, compute(case, *arrays, "winograd"), strict=True)):
            assert np.abs(got - exact[i]).max() <= 1e-5 * np.abs(exact[i]).max(), which


# Depthwise cases with the channels of the 1 x 1 convolution that follows: pixels that share a task with another row or
# image, sums in two parts, weights that are too large to read again for every band.
SEPARABLE = {
    "bands across rows and images": (Case(2, 17, 23, 40, 40, 3, 3, groups=40), 24),
    "strided": (Case(1, 40, 44, 96, 96, 3, 3, stride=(2, 2), groups=96), 20),
    "dilated, two parts of the sum": (Case(1, 16, 15, 600, 600, 3, 3, (1, 1), (2, 2, 2, 2), (2, 2), 600), 72),
    "large weights": (Case(1, 9, 8, 640, 640, 3, 3, groups=640), 640),
    "larger than the caches": (Case(1, 160, 162, 32, 32, 3, 3, groups=32), 128),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("case", "K"), SEPARABLE.values(), ids=SEPARABLE.keys())
def test_a_separable_convolution_has_the_bits_of_its_parts_with_any_number_of_threads(case, K, last):
    rng = np.random.default_rng(0)
    shapes = [(K, 1, 1, case.C), (case.C,), (K,), (case.N, *case.out, K)]
    w, depth_bias, bias, residual = (framework.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes)
    x, depth_weight, _ = (framework.tensor(a.astype(np.float32)) for a in case.arrays(0))
    end = {"activation": "leaky_relu", "slope": 0.25, "residual_last": last}
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        depth = ops.conv2d(x, depth_weight, depth_bias, activation="relu6", **case.attrs)
        expected = ops.conv2d(depth, w, bias, residual, **end).numpy()
        for threads in (1, 2, 3):
            framework.set_num_threads(threads)
            inputs = (x, depth_weight, w, depth_bias, bias, residual)
            y = internal.separable_conv2d(*inputs, depth_activation="relu6", **case.attrs, **end).numpy()
            assert np.array_equal(y, expected), f"{isa}, {threads} threads"


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("seed", range(12))
def test_matmul_is_right_on_every_instruction_set(isa, seed):
    rng = np.random.default_rng(seed)
    _core.use_isa(isa)
    M, N, D = (int(v) for v in rng.integers(1, 150, 3))
    if seed % 4 == 0:
        M, N, D = M // 8 + 1, N // 8 + 1, D * 20 + 2048  # a sum long enough to be cut into slices
    a, b = rng.standard_normal((M, D)).astype(np.float32), rng.standard_normal((D, N)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    n, u = D + 1, np.finfo(np.float32).eps / 2
    bound = n * u / (1 - n * u) * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    for ta in (False, True):
        for tb in (False, True):
            left, right = (np.ascontiguousarray(m.T) if t else m for m, t in ((a, ta), (b, tb)))
            y = ops.matmul(framework.tensor(left), framework.tensor(right), transpose_a=ta, transpose_b=tb).numpy()
            assert (np.abs(y - exact) <= bound).all(), f"transposed {ta}, {tb}"
