"""How fast layers are with 8 and 16 bits: which have a figure, where it comes from, which stay in float32."""

import itertools

import numpy as np
import pytest

import framework
from framework import _core, ops
from framework.control import while_loop
from framework.quantization import measure_speed, quantize, speed
from framework.quantization.speed import speedups
from tests.framework.native.test_int8_products import instruction_set
from tests.framework.quantization.helpers import constant, normal
from tests.framework.quantization.test_images import filters, traced
from tests.framework.quantization.test_sixteen_bits import ROWS, X, network


def test_layers_with_both_forms_have_a_figure():
    """Depthwise ones too; a product has one by the name of its weights as they were."""
    found = speedups(traced(network, X), [[X]])
    assert sorted(found) == ["depth", "first", "last", "second"] and all(v > 0 for v in found.values())
    for turned in (False, True):
        shape = (64, 128) if turned else (128, 64)
        weight = constant(normal(*shape), "w")
        whole = traced(lambda x, w=weight, t=turned: ops.matmul(x, w, transpose_b=t), ROWS)
        assert list(speedups(whole, [[ROWS]])) == ["w"]


def test_layers_inside_of_control_flow_have_none():
    inner, outer = constant(normal(64, 64, scale=0.1), "inner"), constant(normal(64, 64, scale=0.1), "outer")
    i, x = np.array(0, np.int64), normal(5, 64)

    def f(i, x):
        x = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, ops.matmul(x, inner)), [i, x])[1]
        return ops.matmul(x, outer)

    assert list(speedups(traced(f, i, x), [[framework.from_numpy(i), x]])) == ["outer"]


def clock(monkeypatch, seconds):
    """Lets each operation take what `seconds` says of it."""

    def run_once(timed, inputs):
        timed._seconds.append([seconds(op) for op in timed._ops])
        timed._sizes = [int(np.prod(op.inputs[0].shape)) for op in timed._ops]

    monkeypatch.setattr(speed._Timed, "round", run_once)


def test_the_figure_is_float32_s_time_over_that_of_16_bits(monkeypatch):
    """The median of all rounds."""
    times = iter([6.0, 6.0, 99.0, 6.0, 1.0, 6.0, 6.0])
    weight = constant(normal(64, 128), "w")
    whole = traced(lambda x: ops.matmul(x, weight, transpose_b=True), ROWS)
    clock(monkeypatch, lambda op: next(times) if op.name == "matmul" else 3.0)
    assert speedups(whole, [[ROWS]]) == {"w": 2.0}


def chain(x):
    """Four layers in a row; calibration needs no more to know than that."""
    for weight in WEIGHTS:
        x = ops.relu(ops.conv2d(x, weight, padding=1))
    return x


NAMES = ["a", "b", "c", "d"]
WEIGHTS = [filters(3, 3, 3, seed=i, name=name) for i, name in enumerate(NAMES)]


@pytest.mark.parametrize(
    ("faster", "change", "kept", "best"),
    [
        ("", 0.1, (), 4 / 2.1),  # all gain
        ("a", 0.1, ("a",), 4 / 2.6),  # the rounding moves behind the first layer
        ("ad", 0.1, ("a", "d"), 4 / 3.1),  # the layer before the last gives float32 at once
        ("c", 0.1, ("c",), 4 / 2.7),  # the layer behind one in the middle needs a rounding more
        ("ac", 0.4, ("a", "c"), 4 / 3.8),  # at first "b" is chosen too, and goes back to 8 bits
        ("c", 2.0, ("a", "b", "c", "d"), 1.0),  # rounding may be too dear at all
    ],
)
def test_layers_stay_in_float32_where_that_saves_more_than_changing_over_costs(monkeypatch, faster, change, kept, best):
    """A layer takes 1 in float32, 0.5 in 8 bits, or 2 where float32 is faster."""

    def seconds(op):
        if op.name in ("quantize_linear", "dequantize_linear"):
            return change
        if op.name == "quantized_conv2d":
            return 2.0 if op.inputs[1].name[0] in faster else 0.5
        return 1.0 if op.name == "conv2d" else 0.0

    clock(monkeypatch, seconds)
    found = measure_speed(traced(chain, X), [X])
    assert found.keep == kept and found.best == pytest.approx(best)
    all_small = change + sum(2.0 if name in faster else 0.5 for name in NAMES)
    assert found.speedup == pytest.approx(4 / all_small)
    wanted = {name for name in NAMES if name in faster or (name == "a" and change > 0.5)}  # "a" has the rounding
    assert set(found.slower) == wanted


def test_the_choice_is_the_best_of_all_choices():
    rng = np.random.default_rng(0)
    for _ in range(50):
        names = [str(i) for i in range(int(rng.integers(1, 7)))]
        whole, small, changes = (dict(zip(names, rng.uniform(0, 1, len(names)), strict=True)) for _ in range(3))

        def cost(kept, whole=whole, small=small, changes=changes):
            total, in_float = 0.0, True
            for name, change in changes.items():
                total += change if (name in kept) != in_float else 0
                in_float = name in kept
                total += whole[name] if in_float else small[name]
            return total

        every = [kept for n in range(len(names) + 1) for kept in itertools.combinations(names, n)]
        assert cost(speed._cheapest(whole, small, changes)) == pytest.approx(min(map(cost, every)))


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("seconds", [30.0, 0.0])
def test_what_is_to_be_kept_can_be_kept_on_every_instruction_set(isa, seconds):
    """Also where the time is up at once. Times are real here."""
    with instruction_set(isa):
        found = measure_speed(traced(network, X), [X], keep=["last"], seconds=seconds)
    assert found.speedup > 0 and found.best >= found.speedup
    assert set(found.slower) | set(found.keep) <= {"first", "depth", "second"}
    assert all(0 < ratio < 1 for ratio in found.slower.values())
    got = quantize(traced(network, X), mode="static", calibration=[[X]], keep=[*found.keep, "last"])
    small = {op.inputs[1].name.removesuffix(".int8") for op in got.block if op.name == "quantized_conv2d"}
    assert small == {"first", "depth", "second"} - set(found.keep)


def test_products_of_rows_are_timed_with_dynamic_scales():
    weight = constant(normal(64, 128), "w")
    whole = traced(lambda x: ops.matmul(x, weight, transpose_b=True), ROWS)
    found = measure_speed(whole, [ROWS], mode="dynamic")
    assert set(found.slower) <= {"w"} and set(found.keep) <= {"w"}


def test_a_network_without_layers_of_8_bits_is_as_fast_as_before(monkeypatch):
    clock(monkeypatch, lambda op: 1.0)
    found = measure_speed(traced(network, X), [X], keep=["*"])
    assert (found.slower, found.keep) == ({}, ()) and found.best == found.speedup == 1.0
