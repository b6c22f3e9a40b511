"""Calibration reads training batches or files: as many as asked for, what the model reads when it predicts."""

import logging

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, program
from framework.data import DataLoader
from framework.errors import AttributeValueError, ConfigError, DataError
from framework.graph.explanation import explain
from framework.graph.passes import INFERENCE_PASSES
from framework.quantization import AdaRound
from suites.engine.contract.processor import Processor
from suites.engine.predict.quantizing import Quantization, quantize_for


class Images:
    """A task as far as calibration knows it; its third batch is brighter than all before."""

    eval_inputs = ("image",)

    def train_loader(self, *, seed, workers):
        samples = [{"image": np.full(64, v, np.float32), "label": np.float32(0)} for v in (1, 1, 2, 2, 9, 9)]
        return DataLoader(samples, 2)


def range_of(batches):
    return range_by(Quantization("static", batches=batches))


def range_by(how, processor=None):
    with no_grad():
        whole = program(nn.Linear(64, 64), pass_names=INFERENCE_PASSES).program_for(from_numpy(np.ones((2, 64), "f")))
    made = quantize_for(Images(), whole.program, how, processor=processor)
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


class Numbers(Processor):
    """Reads files with a number each, of which 64 make an image."""

    def takes(self, path):
        return path.suffix == ".txt"

    def read(self, path):
        try:
            return float(path.read_text())
        except ValueError:
            raise DataError(f"{path}: holds no number") from None

    def prepare(self, items):
        return {"image": np.array([[v] * 64 for v in items], np.float32)}

    def results(self, outputs, batch):
        return []

    def metadata(self):
        return {}

    def draw(self, item, result):
        return ""

    @classmethod
    def from_metadata(cls, metadata):
        return cls()


def folder_of(path, *texts):
    for i, text in enumerate(texts):
        (path / f"{i}.txt").write_text(text)
    return (str(path),)


def test_files_are_read_in_place_of_training_batches(tmp_path):
    files = folder_of(tmp_path, *map(str, range(20)))
    assert range_by(Quantization("static", calibration=files), Numbers()) == 19
    assert range_by(Quantization("static", calibration=files, inputs=2), Numbers()) == 10  # evenly spread: 0 and 10


def test_a_damaged_file_and_a_small_set_are_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert range_by(Quantization("static", calibration=folder_of(tmp_path, "3", "?")), Numbers()) == 3
    assert "calibration skipped" in caplog.text and "1.txt: holds no number" in caplog.text
    assert "only 1 to calibrate on; ranges may be too narrow, take about 100" in caplog.text


def test_a_set_without_anything_to_read_is_refused(tmp_path):
    for texts in ((), ("?",)):
        with pytest.raises(DataError, match="holds nothing that this model reads; name a folder of its inputs"):
            range_by(Quantization("static", calibration=folder_of(tmp_path, *texts)), Numbers())


def test_files_are_of_mode_static():
    with pytest.raises(AttributeValueError, match="calibration is of mode static, not dynamic"):
        Quantization("dynamic", calibration=("photos",))
    with pytest.raises(AttributeValueError, match="equalization is of mode static, not dynamic"):
        Quantization(equalization="weights")
    with pytest.raises(AttributeValueError, match="adaround is of mode static, not dynamic"):
        Quantization(adaround=AdaRound())
    with pytest.raises(AttributeValueError, match="inputs is 0; calibration needs at least 1"):
        Quantization("static", inputs=0)
