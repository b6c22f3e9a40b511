"""What kernels keep of a Program's constants: the same bits as without, in memory that goes with the Program."""

import gc

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.graph import passes


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def state(*shape: int, seed: int = 1) -> framework.Tensor:
    t = framework.tensor(normal(*shape, seed=seed))
    t.persistable = True
    return t


# A function of x and the weight, the weight's shape, and x's shapes in the order in which they come.
CASES = {
    "matmul": (lambda x, w: ops.matmul(x, w), (70, 90), [(5, 70), (1, 70), (64, 70)]),
    "matmul, transposed": (lambda x, w: ops.matmul(x, w, transpose_b=True), (90, 70), [(5, 70), (2, 3, 70)]),
    "matmul with a view that differs by shape": (
        lambda x, w: ops.matmul(x, ops.reshape_like(w, x), transpose_b=True),
        (24, 24),
        [(24, 24), (12, 48), (48, 12)],
    ),
    "pointwise": (lambda x, w: ops.conv2d(x, w), (40, 1, 1, 24), [(1, 9, 9, 24), (2, 5, 7, 24)]),
    "strided": (lambda x, w: ops.conv2d(x, w, stride=2, padding=1), (40, 3, 3, 24), [(1, 9, 9, 24), (1, 3, 2, 24)]),
    "winograd": (lambda x, w: ops.conv2d(x, w, padding=1), (40, 3, 3, 24), [(1, 24, 24, 24), (1, 4, 4, 24)]),
    "grouped": (lambda x, w: ops.conv2d(x, w, groups=3), (33, 3, 3, 8), [(1, 6, 6, 24), (2, 5, 5, 24)]),
    "depthwise": (lambda x, w: ops.conv2d(x, w, groups=24), (24, 3, 3, 1), [(1, 6, 6, 24), (2, 5, 5, 24)]),
    "transposed": (
        lambda x, w: ops.conv2d_transpose(x, w, stride=2),
        (24, 3, 3, 20),
        [(1, 6, 6, 24), (1, 1, 1, 24)],
    ),
}


@pytest.fixture(autouse=True)
def restore_isa():
    isa = _core.active_isa()
    yield
    _core.use_isa(isa)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bits_are_those_of_a_program_that_keeps_nothing(case):
    function, weight_shape, shapes = case
    w = state(*weight_shape)
    kept = framework.program(lambda x: function(x, w), pass_names=("freeze_states",))
    fresh = framework.program(lambda x: function(x, w), pass_names=())
    isas = _core.supported_isas()
    for isa in [*isas, isas[0]]:
        _core.use_isa(isa)
        for i, shape in enumerate([*shapes, *shapes]):
            x = normal(*shape, seed=i)
            assert np.array_equal(kept(x).numpy(), fresh(x).numpy()), f"{isa} {shape}"
    kept.program_for(x).forget_plans()
    assert np.array_equal(kept(x).numpy(), fresh(x).numpy())


def live_bytes() -> int:
    gc.collect()
    return _core.memory_stats()["live"]


def test_what_is_kept_is_made_once_and_freed_with_the_plans_and_the_program():
    w = state(256, 512)
    f = framework.program(lambda x: ops.matmul(x, w), pass_names=passes.INFERENCE_PASSES)
    x = framework.tensor(normal(6, 256))
    f.program_for(x)
    gc.collect()  # what other tests left must not go meanwhile
    before = live_bytes()
    f(x)
    once = live_bytes()
    f(x)
    assert live_bytes() == once
    # The packed copy, and a small arena.
    assert 0.99 * w.numpy().nbytes <= once - before <= 1.25 * w.numpy().nbytes
    f.program_for(x).forget_plans()
    assert live_bytes() - before < 0.25 * w.numpy().nbytes


def test_a_frozen_program_does_not_see_later_changes_of_a_state():
    w = state(3, 5)
    f = framework.program(lambda x: ops.matmul(x, w), pass_names=passes.INFERENCE_PASSES)
    x = normal(2, 3)
    first = f(x).numpy().copy()
    w.numpy()[...] = 0
    assert np.array_equal(f(x).numpy(), first)


def test_kept_bytes_are_those_of_the_arena_and_of_what_was_prepared():
    w = state(256, 512)
    f = framework.program(lambda x: ops.relu(ops.matmul(ops.relu(x), w)), pass_names=passes.INFERENCE_PASSES)
    x = normal(32, 256)
    compiled = f.program_for(x)
    assert compiled.kept_bytes() == 0
    before = live_bytes()
    f(x)
    kept = live_bytes() - before
    assert kept >= w.numpy().nbytes  # the weight in the kernel's own form
    assert compiled.kept_bytes() == pytest.approx(kept, abs=4096) and f.kept_bytes() == compiled.kept_bytes()
    compiled.forget_plans()
    assert compiled.kept_bytes() <= kept - w.numpy().nbytes
