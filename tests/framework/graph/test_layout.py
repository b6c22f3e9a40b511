"""sink_transposes: transpositions meet their inverses and vanish, results stay."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.graph import passes
from framework.graph.compiled import CompiledProgram

TO_FRONT, TO_BACK = (0, 2, 3, 1), (0, 3, 1, 2)


def image() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32)


def sunk(function):
    """Results before and after the pass, and the operators' names after it."""
    x = image()
    program = framework.program(function, pass_names=()).program_for(x).program
    before = [t.numpy().copy() for t in CompiledProgram(program).run([framework.tensor(x)])]
    passes.run(program, ["sink_transposes", "drop_dead_code"])
    after = [t.numpy() for t in CompiledProgram(program).run([framework.tensor(x)])]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # sums may be taken in another order
    return [op.name for op in program.block]


CONSTANT = framework.tensor(np.arange(3, dtype=np.float32).reshape(3, 1, 1))

MIDDLES = {
    "unary": ops.relu,
    "scalar": lambda y: y * 2.0,
    "vector over channels": lambda y: y + CONSTANT,
    "two images": lambda y: y + ops.exp(y),
    "choice": lambda y: ops.where(ops.greater(y, 0.0), y, ops.exp(y)),
    "concat": lambda y: ops.concat([y, ops.relu(y)], axis=1),
    "split": lambda y: ops.split(y, axis=-3, sizes=[1, 2])[1],
    "softmax": lambda y: ops.softmax(y, axis=1),
    "mean": lambda y: ops.mean(y, axes=(2, 3), keepdims=True) * y,
    "pad": lambda y: ops.pad(y, pads=[0, 0, 0, 0, 1, 2, 0, 3]),
    "slice": lambda y: ops.slice(y, starts=[1, 0], ends=[3, -1], axes=[2, -1], steps=[2, 1]),
}


@pytest.mark.parametrize("middle", MIDDLES.values(), ids=MIDDLES.keys())
def test_a_transposition_passes_through_and_meets_its_inverse(middle):
    def f(x):
        y = ops.transpose(ops.square(ops.transpose(x, perm=TO_FRONT)), perm=TO_BACK)  # as a convolution would leave it
        return ops.sqrt(ops.transpose(middle(y), perm=TO_FRONT))

    names = sunk(f)
    # One remains at the border; that of a constant is left to constant folding.
    assert names.count("transpose") == 1 + (middle is MIDDLES["vector over channels"])


def test_a_reduction_that_drops_axes_leaves_the_order_of_the_others():
    def f(x):
        y = ops.transpose(x, perm=TO_BACK)
        return ops.sum(y, axes=(1, 2)), ops.max(y, axes=(0,)), ops.mean(y)

    assert sunk(f).count("transpose") == 1


def test_a_transposition_that_another_operator_needs_is_computed_once():
    def f(x):
        y = ops.transpose(x, perm=TO_BACK)
        return ops.flatten(y), ops.flatten(y, start=0), ops.relu(y)

    assert sunk(f).count("transpose") == 2  # y for both, and relu's result


def test_two_images_of_different_layout_are_left_alone():
    def f(x):
        y = ops.transpose(x, perm=(0, 1, 3, 2))
        return ops.relu(y) + ops.transpose(ops.exp(y), perm=(0, 1, 2, 3))

    sunk(f)
    assert sunk(lambda x: ops.transpose(x, perm=(1, 0, 2, 3)) + ops.reshape(x, shape=(3, 2, 5, 4))) == [
        "reshape",
        "transpose",
        "add",
    ]


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_a_vector_meets_a_transposition_whose_extents_are_0(shape):
    vector = framework.tensor(np.ones(shape[0], np.float32))
    function = framework.program(lambda x: ops.transpose(x) + vector, pass_names=("sink_transposes",))
    assert function(np.ones(shape, np.float32)).shape == shape[::-1]


def test_one_number_of_a_transposed_image_meets_the_image():
    """As dynamic quantisation has it: the range of all, and each number in steps of it."""

    def f(x):
        y = ops.transpose(x, perm=TO_BACK)
        return y / (ops.max(y) - ops.minimum(ops.min(y), 0.0))

    sunk(f)


def test_the_report_says_which_operations_were_moved():
    program = framework.program(
        lambda x: ops.relu(ops.transpose(x, perm=TO_BACK)), pass_names=("sink_transposes",)
    ).program_for(image())
    assert "relu" in program.explain()["sink_transposes"].matched[0]


def random_function(seed):
    """A function of an image: transpositions, reductions, broadcasts, joins and cuts, at random."""
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 1 << 30, 256).tolist()

    def f(x):
        left, pool = list(choices), [x, ops.transpose(x, perm=TO_BACK)]

        def below(n):
            return left.pop() % n

        for _ in range(3 + below(6)):
            y = pool[below(len(pool))]
            axis = below(max(y.ndim, 1))
            kind = below(9)
            if kind < 2:
                perm = sorted(range(y.ndim), key=lambda i: (i * 7 + axis * 3) % 5)
                y = ops.transpose(y, perm=perm) if y.ndim else y
            elif kind == 2:
                reduce = (ops.max, ops.mean, ops.sum)[below(3)]
                y = reduce(y, axes=[] if below(2) else [axis], keepdims=bool(below(2))) if y.ndim else y
            elif kind == 3:
                others = [z for z in pool if z.ndim == 0 or broadcasts(z.shape, y.shape)]
                other = others[below(len(others))] if others else y
                y = (ops.add, ops.maximum, ops.mul)[below(3)](*((y, other) if below(2) else (other, y)))
            elif kind == 4:
                y = ops.concat([y, ops.relu(y)], axis=axis) if y.ndim else y
            elif kind == 5:
                y = ops.slice(y, starts=[0], ends=[1 + below(y.shape[axis])], axes=[axis]) if y.ndim else y
            elif kind == 6:
                y = ops.pad(y, pads=[below(2) for _ in range(2 * y.ndim)]) if y.ndim else y
            elif kind == 7:
                y = ops.softmax(y, axis=axis) if y.ndim else y
            else:
                y = ops.where(ops.greater(y, 0.0), y, ops.exp(ops.minimum(y, 0.0)))
            pool.append(y)
        return pool[-1], pool[len(pool) // 2], pool[-2]

    return f


def broadcasts(a, b):
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(a[::-1], b[::-1], strict=False))


@pytest.mark.parametrize("part", range(4))
def test_random_programs_compute_the_same(part):
    for seed in range(part, 1000, 4):
        sunk(random_function(seed))
