"""Models of click-through rates on a device: the same step, resume, figures and export; XLA on the CPU needs none."""

import json

import numpy as np
import pytest
import yaml

import framework
from framework.errors import ConfigError
from framework.optim import SGD
from suites.ctr.metrics import log_loss
from suites.ctr.train.step import CtrStep
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, open_model, open_run
from suites.engine.predict.items import predict_items
from suites.engine.train.training import evaluate_weights, train
from tests.devices import DEVICE
from tests.suites.ctr.helpers import SCHEMA
from tests.suites.ctr.test_task import MODELS, folder  # noqa: F401  (a fixture)

pytest.importorskip("jax", reason="the extra [xla] is not installed")

XLA = f"runtime.device={DEVICE}"


@pytest.fixture
def single(folder):  # noqa: F811
    """The folder with features of one value a row: all batches have one shape, so that little is compiled."""
    config = json.loads((folder / "config.yml").read_text())
    features = {n: f for n, f in SCHEMA["features"].items() if f["type"] not in ("MultiValued", "Sequence")}
    config["data"]["schema"] = {**SCHEMA, "features": features}
    (folder / "config.yml").write_text(json.dumps(config))
    return folder


def after_a_step(folder, model, device, clip_norm):  # noqa: F811
    """Losses, rows and weights after one step of SGD with a large rate."""
    options = [f"model={json.dumps({'type': model, **MODELS[model]})}", "table.rule={type: SGD}"]
    task = build_task(read_config(folder / "config.yml", options))
    task.begin(None, lambda line: None, 0)
    framework.nn.init.initialize(task.model, 0)
    step = CtrStep(task, SGD(task.model.named_parameters()), clip_norm=clip_norm)
    with task.train_loader(seed=0, workers=0) as loader:
        batch = next(iter(loader))
    with framework.device(device):
        update = step([batch], 0.5)
        losses = {**update.losses, "scores": log_loss(update.arrays["scores"][:, 0], batch["labels"][:, 0])}
    keys = np.unique(np.concatenate([batch[name].ravel() for name in task.model.signs]))
    with framework.no_grad():
        return losses, task.model.table.lookup(keys).numpy(), task.model.table.counts(keys), task.model.state_dict()


@pytest.mark.parametrize("clip_norm", [None, 0.05])
@pytest.mark.parametrize("model", ["LR", "DeepFM", "DIN"])
def test_a_step_gives_the_losses_rows_and_weights_of_the_native_step(folder, model, clip_norm):  # noqa: F811
    """Weights and rows below 1 move by a rate of 0.5 times sums of 32 rows' gradients below 1, in another order: some
    32 roundings of 2^-24 each, and as many of the forward pass."""
    native, found = (after_a_step(folder, model, device, clip_norm) for device in ("cpu", DEVICE))
    for name, value in native[0].items():
        assert found[0][name] == pytest.approx(value, rel=1e-6), name
    bound = {"rtol": 0, "atol": 64 * 2**-24}
    np.testing.assert_allclose(found[1], native[1], **bound)
    np.testing.assert_array_equal(found[2], native[2])
    for name, t in native[3].items():
        np.testing.assert_allclose(found[3][name].numpy(), t.numpy(), err_msg=name, **bound)


def all_rows(run):
    """The rows of a run's last weights as text, sorted."""
    opened = open_run(run, run / "weights" / "last.safetensors")
    opened.model.table.export_text(run / "rows.txt")
    weights = {name: t.numpy().tolist() for name, t in opened.model.state_dict().items()}
    return sorted((run / "rows.txt").read_text().splitlines()), weights


@pytest.mark.slow
def test_a_run_on_a_device_resumes_with_the_same_bits_and_goes_on_on_the_cpu(single):
    train(single / "config.yml", [XLA], runs=single, name="whole")
    for name, device in (("cut", DEVICE), ("moved", "cpu")):
        train(single / "config.yml", [XLA, "runtime.steps=17", "runtime.epochs=null"], runs=single, name=name)
        config = yaml.safe_load((single / name / "config.yml").read_text())
        config["runtime"] |= {"steps": None, "epochs": 2, "device": device}
        (single / name / "config.yml").write_text(yaml.safe_dump(config, sort_keys=False))
        train(single / name, resume=True)
    whole = all_rows(single / "whole")
    assert all_rows(single / "cut") == whole
    assert [row.split()[:3] for row in all_rows(single / "moved")[0]] == [row.split()[:3] for row in whole[0]]
    lines = [(single / name / "progressive.jsonl").read_text() for name in ("whole", "cut")]
    assert lines[0] == lines[1]
    figures = [evaluate_weights(single / "whole", device=device) for device in ("cpu", DEVICE)]
    assert figures[1]["auc"] == pytest.approx(
        figures[0]["auc"], abs=1e-3
    )  # two scores that are equal but for roundings
    assert figures[1]["log_loss"] == pytest.approx(figures[0]["log_loss"], rel=1e-5)


def test_a_run_and_its_export_predict_on_a_device_what_they_do_on_the_cpu(folder):  # noqa: F811
    run = folder / "run"
    train(folder / "config.yml", ["runtime.steps=3", "runtime.epochs=null"], runs=folder, name="run")
    export_run(run, run / "export")
    row = {"user": "u1", "item": "i2", "tags": "t1|t2", "liked": "i2|i4", "price": "3.0"}
    found = [
        predict_items(model.processor, model.inputs, model.predict, [row])[0]
        for path in (run, run / "export")
        for model in (open_model(path, device=device) for device in ("cpu", DEVICE))
    ]
    for scores in found[1:]:
        assert scores == pytest.approx(found[0], rel=1e-5)


def test_threads_of_the_cpu_are_refused_on_a_device(single):
    with pytest.raises(ConfigError, match=rf"runtime\.device: is {DEVICE}, but `hogwild` trains on threads of the CPU"):
        train(single / "config.yml", [XLA, "hogwild={threads: 2}"], runs=single, name="run")
