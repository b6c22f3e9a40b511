"""A run on another device: trained, stopped, resumed, evaluated, opened, exported; XLA on the CPU needs none."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, ConfigError, NotSupportedError
from framework.io import load_tensors
from framework.predictor import Predictor
from suites import engine
from suites.engine.config import load_config
from suites.engine.hosts.devices import usable
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.check import check_runs
from suites.engine.train.training import evaluate_weights, train
from tests.devices import DEVICE
from tests.suites.engine import toy
from tests.suites.engine.train.test_training import CONFIG

pytest.importorskip("jax", reason="the extra [xla] is not installed")

ROOT = Path(__file__).parents[4]
XLA = f"runtime.device={DEVICE}"


def write(folder):
    (folder / "toy.yml").write_text(CONFIG)
    return folder / "toy.yml"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """An unbroken run on XLA: 20 steps."""
    folder = tmp_path_factory.mktemp("xla")
    train(write(folder), [XLA], runs=folder)
    return folder / "toy"


def weights(run):
    return {name: t.numpy() for name, t in load_tensors(run / "weights/last.safetensors").items()}


def stopped_at_step_12(folder, overrides):
    """A run that Ctrl-C ended after a checkpoint, as a person would."""

    class Stop(engine.train.hooks.Hook):
        def after_step(self, trainer):
            if trainer.step == 12:
                os.kill(os.getpid(), signal.SIGINT)

    train(write(folder), overrides, runs=folder, hooks=[Stop()])
    return folder / "toy"


def test_a_run_on_xla_has_the_figures_of_one_on_the_cpu(tmp_path, reference):
    """Its weights part from those of the CPU by roundings that training magnifies."""
    train(write(tmp_path), runs=tmp_path)
    native = weights(tmp_path / "toy")
    for name, values in weights(reference).items():
        np.testing.assert_allclose(values, native[name], rtol=1e-3, atol=1e-4, err_msg=name)
    log = (reference / "log.txt").read_text()
    assert f"device: 1 of {DEVICE}" in log and "xla: compiled" in log
    assert json.loads((reference / "environment.json").read_text())["device"] == DEVICE
    assert framework.current_device() == "cpu"


def test_training_twice_gives_the_same_bits(tmp_path, reference):
    train(write(tmp_path), [XLA], runs=tmp_path)
    for name, values in weights(reference).items():
        assert values.tobytes() == weights(tmp_path / "toy")[name].tobytes(), name


def test_a_run_continues_with_the_same_bits_and_on_any_other_device(tmp_path, reference):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    same, other = stopped_at_step_12(tmp_path / "a", [XLA]), stopped_at_step_12(tmp_path / "b", [XLA])
    train(same, resume=True)
    train(other, ["runtime.device=cpu"], resume=True)
    for name, values in weights(reference).items():
        assert values.tobytes() == weights(same)[name].tobytes(), name
        np.testing.assert_allclose(weights(other)[name], values, rtol=1e-3, atol=1e-4)


def test_evaluation_and_loading_take_the_runs_device_or_the_one_that_is_named(reference, caplog):
    figures = evaluate_weights(reference)
    assert figures == pytest.approx(evaluate_weights(reference, device="cpu"), rel=1e-4)
    with caplog.at_level(logging.INFO, "paddock"):
        image = toy.image(3, 20)
        on_xla = engine.load(reference)(image)[0].value
    assert "xla: compiled" in caplog.text
    native = engine.load(reference, device="cpu")(image)[0].value
    assert on_xla["brightness"] == pytest.approx(native["brightness"], rel=1e-4)


def test_an_export_runs_on_a_device(tmp_path, reference):
    export_run(reference, tmp_path / "export")
    native, other = (Predictor(tmp_path / "export", device=device) for device in ("cpu", DEVICE))
    dtype, shape = native.input_types[0]
    x = np.random.default_rng(0).random(shape).astype(dtype)
    np.testing.assert_allclose(other.run([x])[0], native.run([x])[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other.replica().run([x])[0], native.run([x])[0], rtol=1e-5, atol=1e-6)


def test_a_run_and_its_export_take_rounded_factors_where_asked(tmp_path, reference):
    train(write(tmp_path), [XLA, "runtime.products=bfloat16"], runs=tmp_path)
    figures = evaluate_weights(tmp_path / "toy")  # with the run's own products
    assert figures["score"] == pytest.approx(evaluate_weights(reference)["score"], abs=0.05)
    assert figures["score"] != evaluate_weights(tmp_path / "toy", products="float32")["score"]
    assert evaluate_weights(tmp_path / "toy", device="cpu")["score"] == pytest.approx(figures["score"], abs=0.01)
    export_run(reference, tmp_path / "export")
    image = toy.image(3, 20)
    exact, rounded = (
        engine.load(tmp_path / "export", device=DEVICE, products=products)(image)[0].value["brightness"]
        for products in ("float32", "bfloat16")
    )
    assert exact != rounded and rounded == pytest.approx(exact, abs=0.05)
    with pytest.raises(AttributeValueError, match="products is 'bfloat16' with cpu"):
        engine.load(tmp_path / "export", products="bfloat16")


def test_a_served_export_compiles_for_few_numbers_of_rows(tmp_path, reference, caplog):
    export_run(reference, tmp_path / "export")
    native, other = (open_model(tmp_path / "export", device=device) for device in ("cpu", DEVICE))
    (name,) = native.inputs
    dtype, shape = native.types[name]
    images = np.random.default_rng(0).random((8, *shape[1:])).astype(dtype)
    with caplog.at_level(logging.INFO, "paddock"):
        for rows in range(1, 9):
            given = {name: images[:rows]}
            expected, found = native.predict(given), other.predict(given)
            for key, values in expected.items():
                np.testing.assert_allclose(found[key], values, rtol=1e-5, atol=1e-6, err_msg=key)
    assert caplog.text.count("xla: compiled") == 4  # for 1, 2, 4 and 8


def test_gathered_gradients_work_on_a_device(tmp_path):
    train(write(tmp_path), [XLA, "runtime.accumulate=2"], runs=tmp_path)
    assert np.isfinite(weights(tmp_path / "toy")["hidden.weight"]).all()


def test_check_runs_on_the_configs_device(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "paddock"):
        check_runs(load_config(write(tmp_path), [XLA]))
    assert "xla: compiled" in caplog.text


def test_a_device_that_is_not_here_is_an_error_when_asked_for_and_else_the_cpu_is_taken(monkeypatch, caplog):
    def none_here(name, count):
        raise NotSupportedError(f"device: there is no {name}")

    monkeypatch.setattr("framework.xla.runtime.find_devices", none_here)
    monkeypatch.setattr("framework.devices._executors", {})
    with pytest.raises(NotSupportedError, match="there is no gpu"):
        usable("gpu", "cpu")
    assert usable(None, "gpu") == "cpu"
    assert "the run's device is gpu, which is not usable here" in caplog.text


@pytest.mark.parametrize("parts", ["false", "true"])
def test_several_devices_train_to_the_figures_of_one(tmp_path, reference, parts):
    """Roundings of sums that are split in two are magnified by 20 steps."""
    write(tmp_path)
    command = [sys.executable, "-m", "suites.engine.cli", "train", str(tmp_path / "toy.yml"), "--runs", str(tmp_path)]
    done = subprocess.run(
        [
            *command,
            "--import",
            "tests.suites.engine.toy",
            "--device",
            "xla-cpu",
            "--devices",
            "2",
            "-o",
            f"runtime.shard_optimizer={parts}",
        ],
        cwd=ROOT,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "device: 2 of xla-cpu" in done.stdout
    for name, values in weights(tmp_path / "toy").items():
        np.testing.assert_allclose(values, weights(reference)[name], rtol=1e-3, atol=1e-4, err_msg=name)
    step = "weights/step_00000020/optimizer.safetensors"
    found, whole = (load_tensors(run / step) for run in (tmp_path / "toy", reference))
    assert {n: t.shape for n, t in found.items()} == {n: t.shape for n, t in whole.items()}  # a checkpoint is whole


def test_a_batch_that_the_devices_cannot_share_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr("framework.devices.executor_of", lambda name, devices=1, products="float32": None)
    with pytest.raises(ConfigError, match=r"data.train.batch_size is 4, which 3 devices .* take 3 or another multiple"):
        train(write(tmp_path), [XLA, "runtime.devices=3"], runs=tmp_path)


@pytest.mark.parametrize(("device", "devices"), [("cpu", 2), ("xla-cpu", 0)])
def test_a_number_of_devices_that_cannot_be_is_refused(device, devices):
    with pytest.raises(AttributeValueError, match=f"devices is {devices} with device {device}"):
        engine.config.settings.Runtime(epochs=1, device=device, devices=devices)


def test_looking_at_single_operators_is_refused_on_a_device():
    with pytest.raises(AttributeValueError, match="eager and detect_anomaly look at operators one by one"):
        engine.config.settings.Runtime(epochs=1, device="xla-cpu", eager=True)
