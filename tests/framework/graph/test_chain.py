"""fuse_chains: what becomes one pass over memory, what may not, and that results keep their bits."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.graph import passes
from framework.graph.files import load_program, save_program
from framework.ops import internal
from framework.ops.compositions import composition_of
from framework.ops.registry import OPS
from framework.ops.tape import parse_tape, tape_text

RNG = np.random.default_rng(0)
FUSE = ("merge_equal_operations", "drop_dead_code", "fuse_chains")
UNARY = ("exp", "sigmoid", "tanh", "relu", "square", "neg", "abs", "softplus", "gelu", "erf")
BINARY = ("add", "sub", "mul", "maximum", "minimum")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def compare(function, *arrays, names=FUSE):
    """The fused Program, after checking that it gives the bits of the plain one and fits other shapes."""
    plain, fused = framework.program(function, pass_names=()), framework.program(function, pass_names=names)
    for a, b in zip(results(plain, arrays), results(fused, arrays), strict=True):
        assert a.tobytes() == b.tobytes()
    return fused.program_for(*arrays).program


def results(f, arrays):
    out = f(*arrays)
    return [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]


def names(program) -> list[str]:
    return [op.name for op in program.block]


def tape(program) -> str:
    (chain,) = [op for op in program.block if op.name == "chain"]
    return chain.attr("tape")


def test_a_chain_before_and_after():
    f = lambda x, t: ops.sigmoid(x) - t  # noqa: E731
    x, t = floats(100, 70), floats(100, 70)
    before = framework.program(f, pass_names=()).program_for(x, t).program
    assert names(before) == ["sigmoid", "sub"]
    after = compare(f, x, t)
    assert names(after) == ["chain"] and tape(after) == "sigmoid(x0); sub(t0, x1)"


def test_a_losss_gradient_is_one_pass_and_needs_no_spread_out_number():
    def f(x, t):
        x.requires_grad = True
        return framework.gradients([ops.mean(ops.sigmoid_cross_entropy(x, t))], [x])[0]

    program = compare(f, floats(5, 700), floats(5, 700))
    assert "unreduce(x0, like, average=true)" in tape(program)
    assert not {"sigmoid", "sub", "mul", "unreduce"} & set(names(program))


def test_a_tree_with_a_value_read_twice_inside_is_one_chain():
    f = lambda x: 0.5 * x * (1.0 + ops.tanh(0.8 * (x + 0.04 * x * x * x)))  # noqa: E731
    program = compare(f, floats(30, 100))
    assert names(program) == ["chain"] and len(parse_tape(tape(program))) == 9


def test_attention_masks_and_vectors_broadcast_inside():
    mask, scale, offset = floats(4, 1, 1, 30) > 0, floats(30), floats(7, 1)

    def f(x, mask, scale, offset):
        return ops.where(mask, x * scale + offset, -1e9)

    assert names(compare(f, floats(4, 3, 7, 30), mask, scale, offset)) == ["chain"]


def test_what_others_read_stays_and_the_near_miss_says_who():
    def f(x):
        y = ops.exp(x)
        return ops.neg(y), ops.sum(y)

    program = compare(f, floats(4, 50))
    assert names(program) == ["exp", "neg", "sum"]
    f = framework.program(f, pass_names=FUSE)
    (line,) = f.explain(floats(4, 50))["fuse_chains"].missed
    assert "exp %1 -> neg %2" in line and "%1 is also read by sum %3" in line


def test_results_and_new_values_of_states_are_not_swallowed():
    t = framework.tensor(floats(4, 50))
    t.persistable = True

    def f(x):
        y = ops.exp(x)
        z = ops.neg(y)
        t.set(z)
        return ops.square(z), y

    x = floats(4, 50)
    program = framework.program(f, pass_names=FUSE).program_for(x).program
    assert names(program) == ["exp", "neg", "square"]


def test_a_chain_does_not_keep_inputs_alive_past_other_large_values():
    """Swallowing the add would keep both of its inputs while the matmul's result is made: 3 buffers in place of 2."""
    w = framework.tensor(np.eye(64, dtype=np.float32))

    def f(x):
        s = ops.exp(x) + ops.tanh(x)
        return s * ops.matmul(x, w)

    fused = framework.program(f, pass_names=FUSE)
    x = framework.tensor(floats(500, 64))
    assert names(fused.program_for(x).program) == ["chain", "matmul", "mul"]


def test_numbers_stay_numbers():
    """Arithmetic on 0-d tensors is not spread over the elements it is applied to."""
    f = lambda x, s: ops.exp(x) * ops.exp(ops.neg(s))  # noqa: E731
    program = compare(f, floats(4, 50), np.full((), 0.5, np.float32))
    assert names(program) == ["neg", "exp", "chain"] and tape(program) == "exp(x0); mul(t0, x1)"


def test_one_program_serves_other_shapes():
    f = framework.program(lambda x, s: ops.relu(x * s) + x, pass_names=FUSE)
    for shape in ((2, 5), (700, 19), (1, 3000), (0, 4)):
        x, s = floats(*shape), floats(shape[1])
        np.testing.assert_array_equal(f(x, s).numpy(), np.maximum(x * s, 0) + x)
    assert f.traces_made == 1


def test_it_writes_over_an_input_that_dies():
    f = framework.program(lambda x, t: ops.exp(ops.matmul(x, t)) * 2.0 - 1.0, pass_names=FUSE)
    x, t = framework.tensor(floats(64, 64)), framework.tensor(floats(64, 64))
    result = f(x, t).numpy().copy()
    expected = framework.program(lambda x, t: ops.exp(ops.matmul(x, t)) * 2.0 - 1.0, pass_names=())(x, t).numpy()
    assert result.tobytes() == expected.tobytes()


def test_an_input_whose_place_the_result_takes_may_be_read_by_any_statement():
    """The product dies in the chain, which reads it first, last and in between."""

    def f(x, w):
        p = ops.matmul(x, w)
        y = ops.where(ops.greater(ops.sigmoid(p), 0.5), p * 0.1, ops.neg(p)) - p
        return ops.matmul(y, w)

    program = compare(f, floats(300, 20), floats(20, 20))
    assert names(program) == ["matmul", "chain", "matmul"]


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_give_the_bits_of_their_operators(seed):
    rng = np.random.default_rng(seed)
    shapes = [(int(rng.integers(1, 80)), int(rng.integers(1, 60)), 19)] * 2 + [(19,), (1, 19), (1, 1, 1)]
    shapes.append((shapes[0][1], 1))
    dtype = "float64" if seed % 4 == 0 else "float32"
    arrays = [rng.standard_normal(s).astype(dtype) for s in shapes]

    def f(*xs):
        rng = np.random.default_rng(seed + 100)
        values = [xs[0] + xs[1]]
        for _ in range(int(rng.integers(3, 12))):
            a = values[int(rng.integers(len(values)))]
            b = (values + list(xs))[int(rng.integers(len(values) + len(xs)))]
            kind = rng.integers(4)
            if kind == 0:
                values.append(getattr(ops, UNARY[rng.integers(len(UNARY))])(a))
            elif kind == 3:
                values.append(ops.where(a > b, a, b * 0.5))
            else:
                values.append(getattr(ops, BINARY[rng.integers(len(BINARY))])(a, b))
        total = values[0]
        for v in values[1:]:
            total = total + v * 0.1
        return total

    plain = framework.program(f, pass_names=())(*arrays).numpy()
    fused = framework.program(f, pass_names=FUSE)
    program = fused.program_for(*arrays).program
    assert "chain" in names(program) and len(program.block) < 6
    # exp, gelu and others may overflow; what is not a number then is not in both.
    assert fused(*arrays).numpy().tobytes() == plain.tobytes()


def test_a_tape_reads_as_it_is_written_and_stands_for_its_operators():
    text = "gelu(x0, approximate=true); clip(t0, min=-inf, max=0.5); cast(t1, dtype=float64)"
    assert tape_text(parse_tape(text)) == text
    x = framework.tensor(floats(9, 9))
    composed = composition_of(OPS["chain"])(None, x, tape=text)
    np.testing.assert_array_equal(internal.chain(None, [x], tape=text).numpy(), composed.numpy())


def test_both_default_lists_fuse_chains():
    assert "fuse_chains" in passes.TRAINING_PASSES and "fuse_chains" in passes.INFERENCE_PASSES


HALF = ("bfloat16", "float16")


@pytest.mark.parametrize("half", HALF)
@pytest.mark.parametrize(
    "f",
    [
        lambda x, half: ops.cast(ops.cast(x, dtype=half), dtype="float32"),
        lambda x, half: ops.cast(ops.cast(x * 3.0, dtype=half), dtype="float32") - x,
        lambda x, half: ops.cast(ops.cast(ops.cast(x, dtype="int32"), dtype=half), dtype="float32") * 1.001,
        lambda x, half: ops.cast(ops.cast(x, dtype=half), dtype=HALF[half == HALF[0]]),
        lambda x, half: ops.cast(x * x, dtype=half),
    ],
)
def test_a_cast_that_somebody_wrote_rounds_in_a_chain_too(f, half):
    x = np.concatenate([floats(3000) * 3000, [np.nan, np.inf, -np.inf, 1e30, 1e-30, 70000.0]]).astype(np.float32)
    x = framework.tensor(x)
    for names in (FUSE, passes.TRAINING_PASSES, passes.INFERENCE_PASSES):
        fused = framework.program(lambda x: f(x, half), pass_names=names)
        assert fused(x).numpy().tobytes() == f(x, half).numpy().tobytes()


def test_the_gradient_of_a_cast_that_somebody_wrote_rounds_too():
    def f(x):
        y = ops.cast(ops.cast(x * 3.0, dtype="bfloat16"), dtype="float32") * 1.001
        return framework.gradients([ops.sum(y * y)], [x])[0]

    x = framework.tensor(floats(3000), requires_grad=True)
    np.testing.assert_array_equal(framework.program(f)(x).numpy(), f(x).numpy())


def test_casts_of_the_precision_policy_are_left_out(tmp_path):
    weights = framework.tensor(np.eye(20, dtype=np.float32))
    weights.persistable = True

    def f(x):
        with framework.autocast("bfloat16"):
            return ops.exp(ops.matmul(ops.matmul(x, weights) * 2.0, weights)) * 3.0

    x = framework.tensor(floats(30, 20))
    program = framework.program(f).program_for(x).program
    policy = [op for op in framework.program(f, pass_names=()).program_for(x).program.block if op.name == "cast"]
    assert policy and all(op.attr("elidable") for op in policy)
    assert names(program).count("cast") == 1 < len(policy)  # that of x, which the product reads
    save_program(framework.program(f, pass_names=()).program_for(x).program, tmp_path)
    loaded, _ = load_program(tmp_path)
    assert [op.attr("elidable") for op in loaded.block if op.name == "cast"] == [True] * len(policy)


def test_a_spread_number_whose_cast_changes_nothing_is_still_made():
    """As in the weight of a loss that is returned: rows of ones, cast to the type they have, and summed."""

    @framework.program
    def count(x):
        return ops.sum(ops.cast(ops.full_like(x, value=1.0), "float32"))

    assert float(count(framework.tensor(np.zeros((5,), np.float32)))) == 5.0


def test_what_is_spread_along_one_axis_joins_no_chain_though_the_axis_is_written_as_the_number_0():
    def step(x, taken):
        lost = ops.sum(ops.softplus(ops.logsumexp(ops.where(taken, x * 3.0, -1e9), axes=0)))
        lost.backward()
        return lost, x.grad

    x, taken = floats(8, 2), np.arange(16).reshape(8, 2) % 2 == 0
    found = []
    for run in (step, framework.program(step)):
        given = framework.tensor(x, requires_grad=True)
        found.append(run(given, framework.tensor(taken))[1].numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def gradient_of(f, *arguments):
    """A loss's gradients by all arguments."""
    for t in arguments:
        t.requires_grad = True
    return tuple(framework.gradients([ops.sum(f(*arguments))], list(arguments)))


def sums(program) -> list[str]:
    return [str(op) for op in program.block if op.name == "sum_to"]


def test_a_gradients_sum_that_sums_nothing_is_passed_over_and_shapes_for_which_it_would_are_traced_again():
    def f(a, b, c):
        return gradient_of(lambda a, b, c: ops.sigmoid(ops.tanh(a * b) * c), a, b, c)

    program = compare(f, floats(4, 700), floats(4, 700), floats(4, 700))
    tapes = [op.attr("tape") for op in program.block if op.name == "chain"]
    assert any("mul(" in t and "tanh_grad(" in t for t in tapes) and len(sums(program)) == 3  # results
    traced, plain = framework.program(f, pass_names=FUSE), framework.program(f, pass_names=())
    for rows in ((4, 4, 4), (4, 1, 4), (4, 4, 1), (1, 4, 4), (1, 1, 1), (2, 1, 1), (3, 3, 3)):
        arrays = [floats(n, 700) for n in rows]
        for got, expected, array in zip(results(traced, arrays), results(plain, arrays), arrays, strict=True):
            assert got.shape == array.shape and got.tobytes() == expected.tobytes()
    assert traced.traces_made < 7


def test_who_asks_for_the_shape_of_an_inner_result_gets_that_of_an_input():
    def f(a, b, x):
        y = ops.tanh(a * b + x)  # the gradient asks for the shape of the product
        return (y, *gradient_of(lambda a, b, x: ops.tanh(a * b + x), a, b, x))

    program = compare(f, floats(4, 70), floats(4, 70), floats(4, 70))
    assert "mul(x0, x1); add(t0, x2); tanh(t1)" in [op.attr("tape") for op in program.block if op.name == "chain"]
    traced = framework.program(f, pass_names=FUSE)
    for rows in ((4, 4, 4), (1, 1, 4), (4, 1, 1), (1, 4, 1), (3, 3, 3)):
        arrays = [floats(n, 70) for n in rows]
        plain = framework.program(f, pass_names=())
        for got, expected in zip(results(traced, arrays), results(plain, arrays), strict=True):
            assert got.shape == expected.shape and got.tobytes() == expected.tobytes()


def test_without_gradients_no_shape_is_assumed_since_a_file_is_not_traced_again():
    def f(a, b):
        v = a + b
        return {"y": ops.tanh(v * 2.0), "like": ops.full_like(v, value=3.0)}

    compiled = framework.program(f, pass_names=passes.INFERENCE_PASSES).program_for(floats(1, 8), floats(1, 8))
    assert compiled.program.all_assumptions() == set()


@pytest.mark.parametrize("half", HALF)
def test_a_half_gradients_sum_that_sums_nothing_is_passed_over(half):
    def f(a, b):
        a, b = ops.cast(a, half), ops.cast(b, half)
        return tuple(ops.cast(g, "float32") for g in gradient_of(lambda a, b: ops.sigmoid(ops.tanh(a) * b), a, b))

    plain, fused = framework.program(f, pass_names=()), framework.program(f, pass_names=FUSE)
    for rows in ((3, 3), (3, 1), (1, 3)):
        arrays = [floats(n, 60) for n in rows]
        for got, expected in zip(results(fused, arrays), results(plain, arrays), strict=True):
            np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02)
