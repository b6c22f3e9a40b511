"""A run folder keeps what repeats the run, never mixes two runs, and settings out of range are refused."""

import json
from pathlib import Path

import pytest

from framework.errors import AttributeValueError, CheckpointError, ConfigError
from suites.engine.config import Config, load_config
from suites.engine.config.settings import (
    CheckpointSettings,
    EarlyStopSettings,
    EmaSettings,
    EvaluationSettings,
    Runtime,
)
from suites.engine.run.folder import RunFolder, best_weights, different_keys

VALUES = {"suite": "detection", "model": {"size": 3}, "data": [1, 2]}


def config(**changes):
    return Config.from_dict({**VALUES, **changes})


def test_a_run_can_be_repeated_from_its_folder(tmp_path):
    run = RunFolder.create(tmp_path / "a", config())
    saved = load_config(run.config, check=False)
    assert saved.as_dict() == VALUES
    environment = json.loads(run.environment.read_text())
    assert environment["config_sha256"] == saved.digest() == config().digest()
    assert environment["packages"]["numpy"] and environment["threads"] >= 1 and environment["command"]
    assert run.weights.is_dir() and run.pictures.is_dir()


def test_an_existing_run_is_not_overwritten_unless_asked(tmp_path):
    run = RunFolder.create(tmp_path / "a", config())
    (run.weights / "best.safetensors").write_text("precious")
    run.close()
    with pytest.raises(ConfigError, match="a holds a run already; continue it with --resume"):
        RunFolder.create(tmp_path / "a", config())
    assert (run.weights / "best.safetensors").exists()
    RunFolder.create(tmp_path / "a", config(model={"size": 4}), overwrite=True)
    assert not (run.weights / "best.safetensors").exists()
    assert load_config(run.config, check=False).get("model.size") == 4


@pytest.mark.parametrize("named", ["{}", "{}/", "{}/weights/best.safetensors", "{}/../a"])
def test_a_run_that_the_new_one_begins_with_is_not_overwritten(tmp_path, named):
    run = RunFolder.create(tmp_path / "a", config())
    (run.weights / "best.safetensors").write_text("precious")
    run.close()
    distil = {"teachers": [str(tmp_path / "other"), named.format(tmp_path / "a")]}
    with pytest.raises(ConfigError, match=r"distil.teachers\[1\] is .*which is in .*a, the run that would be replaced"):
        RunFolder.create(tmp_path / "a", config(distil=distil), overwrite=True)
    assert (run.weights / "best.safetensors").exists()
    RunFolder.create(tmp_path / "b", config(distil=distil), overwrite=True).close()
    plain = config(note="", long="x" * 5000, model={"name": str(tmp_path)})  # the folder of all runs, and no paths
    RunFolder.create(tmp_path / "a", plain, overwrite=True).close()


def test_a_run_called_as_its_suite_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        RunFolder.create(Path("toy"), config(suite="toy", model={"type": "toy"}), overwrite=True).close()


def test_a_start_that_was_killed_before_its_config_stood_is_made_again(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.config.yml.k1ll3d.part").write_text("suite: det")
    RunFolder.create(tmp_path / "a", config()).close()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        ".lock",
        "config.yml",
        "environment.json",
        "pictures",
        "weights",
    ]


def test_a_folder_that_is_no_run_is_never_removed(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="is not empty and is no run"):
            RunFolder.create(tmp_path / "photos", config(), overwrite=overwrite)
    assert (tmp_path / "photos/cat.jpg").exists()


def test_only_the_same_config_resumes(tmp_path):
    RunFolder.create(tmp_path / "a", config()).close()
    run = RunFolder.reopen(tmp_path / "a", config())
    assert run.path == tmp_path / "a"
    with pytest.raises(CheckpointError, match=r"another config \(different: model\.size\)"):
        RunFolder.reopen(tmp_path / "a", config(model={"size": 4}))


def test_resuming_nothing_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="no run to resume; start one without --resume"):
        RunFolder.reopen(tmp_path / "a", config())


def test_best_weights_come_before_last(tmp_path):
    run = RunFolder.create(tmp_path / "a", config())
    with pytest.raises(CheckpointError, match="no weights yet; train first"):
        best_weights(run)
    for name in ("last", "best"):
        (run.weights / f"{name}.safetensors").touch()
        assert best_weights(run).stem == name


def test_differences_name_the_deepest_key():
    a = {"x": {"y": 1, "z": [1]}, "w": 1}
    assert different_keys(a, {"x": {"y": 1, "z": [2]}, "v": 3}) == ["x.z", "w", "v"]
    assert different_keys({"x": 1}, {"x": 1.0}) == ["x"]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Runtime(), "needs either epochs or steps"),
        (lambda: Runtime(epochs=3, steps=5), "needs either epochs or steps.*it has both, 3 and 5: set one to null"),
        (lambda: Runtime(epochs=0), "runtime: epochs is 0; it must be 1 or more"),
        (lambda: Runtime(steps=1, workers=-1), "workers is -1; it must be 0 or more"),
        (lambda: Runtime(steps=1, threads=0), "threads is 0; it must be 1 or more"),
        (lambda: Runtime(steps=1, clip_norm=0.0), "clip_norm is 0.0; it must be above 0"),
        (lambda: Runtime(steps=1, log_every=0), "log_every is 0"),
        (lambda: Runtime(epochs=1, least_steps=-1), "runtime: least_steps is -1"),
        (lambda: CheckpointSettings(every=0), "runtime.checkpoint: every is 0"),
        (lambda: EvaluationSettings(pictures=-1), "runtime.evaluation: pictures is -1"),
        (lambda: EarlyStopSettings(patience=0), "runtime.early_stop: patience is 0"),
        (lambda: EmaSettings(decay=1.0), r"runtime.ema: decay is 1.0; it must be in \[0, 1\)"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(AttributeValueError, match=message):
        make()


def test_the_length_of_a_run():
    assert Runtime(epochs=3).total_steps(25) == 75
    assert Runtime(steps=40).total_steps(25) == 40
    assert Runtime(epochs=3, least_steps=100).total_steps(25) == 100
    assert Runtime(epochs=3, least_steps=100).total_steps(50) == 150
