"""Calibration reads a task's training batches: as many as asked for, and what the model reads when it predicts."""

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, program
from framework.data import DataLoader
from framework.errors import AttributeValueError, ConfigError
from framework.graph.explanation import explain
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.predict.quantizing import Quantization, quantize_for


class Images:
    """A task as far as calibration knows it; its third batch is brighter than all before."""

    eval_inputs = ("image",)

    def train_loader(self, *, seed, workers):
        samples = [{"image": np.full(64, v, np.float32), "label": np.float32(0)} for v in (1, 1, 2, 2, 9, 9)]
        return DataLoader(samples, 2)


def range_of(batches):
    with no_grad():
        whole = program(nn.Linear(64, 64), pass_names=INFERENCE_PASSES).program_for(from_numpy(np.ones((2, 64), "f")))
    made = quantize_for(Images(), whole.program, Quantization("static", batches=batches))
    (line,) = explain(made)["quantize"].matched
    return float(line.split("range ")[1])


def test_as_many_batches_are_read_as_asked_for():
    assert [range_of(n) for n in (1, 2, 5)] == [1, 2, 9]


def test_a_model_that_reads_more_than_training_batches_hold_is_refused(monkeypatch):
    monkeypatch.setattr(Images, "eval_inputs", ("image", "depth"))
    with pytest.raises(ConfigError, match="training batches have no depth, which this model reads when it predicts"):
        range_of(1)


def test_no_batches_are_refused():
    with pytest.raises(AttributeValueError, match="batches is 0; calibration needs at least 1"):
        Quantization("static", batches=0)
