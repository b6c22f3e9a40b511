"""Calibration on inputs that nobody would choose: 8 bits as finite as float32, or one error; no traceback."""

import numpy as np
import pytest

import framework
from framework import no_grad, ops, program
from framework.errors import AttributeValueError, NumericsError
from framework.graph import explain
from framework.graph.compiled import CompiledProgram
from framework.graph.passes import INFERENCE_PASSES
from framework.quantization import METHODS, AdaRound, quantize
from tests.framework.quantization.helpers import constant, normal

CHANNELS = 5
FIRST, DEPTH, LAST = constant(normal(7, 3, 3, CHANNELS)), constant(normal(7, 3, 3, 1)), constant(normal(3, 1, 1, 7))
BIAS, HEAD = constant(normal(7)), constant(normal(3, 4))


def network(x):
    x = ops.relu(ops.conv2d(x, FIRST, BIAS, padding=1))
    x = ops.conv2d(ops.relu6(ops.conv2d(x, DEPTH, padding=1, groups=7)) + x, LAST)
    return ops.matmul(ops.mean(x, axes=[1, 2]), HEAD)


def every_other_channel(x):
    x[..., ::2] = 0
    return x


def one_far_off(x):
    x.flat[0] = 1e6
    return x


INPUTS = {
    "denormal": lambda x: x * np.float32(1e-40),
    "almost 0": lambda x: x * np.float32(1e-33),
    "tiny": lambda x: x * np.float32(1e-20),
    "huge": lambda x: x * np.float32(1e20),
    "beyond all steps": lambda x: x * np.float32(1e35),
    "of one value": lambda x: np.full_like(x, 0.7),
    "all 0": np.zeros_like,
    "negative": lambda x: -np.abs(x),
    "positive": np.abs,
    "of very different channels": lambda x: x * np.geomspace(1e-5, 1e5, CHANNELS, dtype=np.float32),
    "of channels that are 0": every_other_channel,
    "with one value far off": one_far_off,
    "of one pixel": lambda x: x[:1, :1, :1],
    "wide": lambda x: np.tile(x[:1, :1], (1, 1, 20, 1)),
}


def computed(p, x):
    return CompiledProgram(p).run([framework.from_numpy(x)])[0].numpy()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", INPUTS)
def test_8_bits_are_as_finite_and_by_the_whole_range_as_near_as_float32(kind, method):
    x = np.ascontiguousarray(INPUTS[kind](normal(2, 8, 9, CHANNELS)))
    for more in ({}, {"equalization": "activations"}, {"sixteen": lambda op: True}, {"adaround": AdaRound(steps=2)}):
        with no_grad():  # AdaRound learns there too
            whole = program(network, pass_names=INFERENCE_PASSES).program_for(framework.from_numpy(x)).program
            small = quantize(whole, mode="static", calibration=[[x]] * 2, method=method, smallest=1, **more)
        y, wanted = computed(small, x).astype(np.float64), computed(whole, x).astype(np.float64)
        assert np.isfinite(y).all()
        if method == "abs_max" and kind not in ("denormal", "almost 0"):
            assert np.abs(y - wanted).max() <= 0.12 * np.abs(wanted).max()


def test_layers_whose_input_8_bits_have_no_steps_for_are_told():
    x = normal(2, 8, 9, CHANNELS, scale=1e35)
    with no_grad():
        whole = program(network, pass_names=INFERENCE_PASSES).program_for(framework.from_numpy(x)).program
    missed = explain(quantize(whole, mode="static", calibration=[[x]], smallest=1))["quantize"].missed
    assert sum("in calibration, and 8 bits hold up to 1e+30" in line for line in missed) >= 2


@pytest.mark.parametrize("equalization", [None, "weights", "activations"])
def test_what_cannot_be_measured_is_one_error(equalization):
    x = normal(2, 8, 9, CHANNELS)
    with no_grad():
        whole = program(network, pass_names=INFERENCE_PASSES).program_for(framework.from_numpy(x)).program

    def calibrated_on(*batches):
        return quantize(whole, mode="static", calibration=[[b] for b in batches], equalization=equalization)

    with pytest.raises(AttributeValueError, match="calibration batch 1 is empty; leave it out"):
        calibrated_on(x, x[:0])
    for value in (np.nan, np.inf):
        y = x.copy()
        y.flat[-1] = value
        with pytest.raises(NumericsError, match=r"calibration batch 1: the input of .* has a NaN or an infinity"):
            calibrated_on(x, y)
