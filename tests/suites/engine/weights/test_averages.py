"""Means of weights: those of NumPy, of a run's checkpoints by the command, and refusals of what has no mean."""

import numpy as np
import pytest

import framework
from framework.errors import CheckpointError, ConfigError
from framework.io import load_tensors, save_tensors
from suites.engine.cli import main
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.weights.averages import average, last_checkpoints

CONFIG = """
suite: toy
imports: [tests.suites.engine.toy]
model: {width: 4}
data: {samples: 12, batch_size: 4}
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 0.1}
runtime: {steps: 6, workers: 0, evaluation: {every: 0}, checkpoint: {every: 2, keep: 3}}
"""


def saved(path, **arrays):
    save_tensors(path, {name: framework.tensor(array) for name, array in arrays.items()})
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "c.yml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "c.yml", "--runs", "runs", "--name", "r"]) == 0
    return tmp_path / "runs" / "r"


def test_means_are_numpys_and_whole_numbers_are_the_last_files(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 4)).astype(np.float32) for _ in range(3)]
    files = [saved(tmp_path / f"{i}.safetensors", w=a, seen=np.array([i])) for i, a in enumerate(arrays)]
    assert average(files, tmp_path / "mean.safetensors") == 1
    found = load_tensors(tmp_path / "mean.safetensors")
    np.testing.assert_array_equal(found["w"].numpy(), np.mean(np.float64(arrays), axis=0).astype(np.float32))
    assert found["seen"].numpy().tolist() == [2]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_mean_of_a_file_with_itself_is_the_file(tmp_path, count):
    array = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    array[:3] = 1e-42, np.finfo(np.float32).max, -0.0
    file = saved(tmp_path / "one.safetensors", w=array)
    average([file] * count, tmp_path / "mean.safetensors")
    assert load_tensors(tmp_path / "mean.safetensors")["w"].numpy().tobytes() == array.tobytes()


def test_a_runs_last_checkpoints_are_averaged_and_evaluated(run, capsys):
    assert main(["average", str(run), "--last", "2"]) == 0
    assert "means of step_00000004, step_00000006" in capsys.readouterr().out
    found = load_tensors(run / "weights" / "averaged.safetensors")
    newest = [load_tensors(folder / "model.safetensors") for folder in last_checkpoints(run, 2)]
    assert found.keys() == newest[0].keys()
    for name, tensor in found.items():
        expected = np.mean([np.float64(each[name].numpy()) for each in newest], axis=0)
        np.testing.assert_array_equal(tensor.numpy(), expected.astype(np.float32))
    assert any((found[name].numpy() != newest[1][name].numpy()).any() for name in found)
    assert main(["eval", str(run), "--weights", str(run / "weights" / "averaged.safetensors")]) == 0


def test_checkpoints_are_named_by_their_steps_or_all_are_taken(run, capsys):
    assert main(["average", str(run), "--step", "2", "--step", "6", "--output", "x.safetensors"]) == 0
    assert "step_00000002, step_00000006" in capsys.readouterr().out
    assert main(["average", str(run)]) == 0
    assert "step_00000002, step_00000004, step_00000006" in capsys.readouterr().out
    assert [path.name for path in last_checkpoints(run)] == [f"step_{n:08d}" for n in (2, 4, 6)]


def test_what_a_run_does_not_have_is_named(run, tmp_path, capsys):
    with pytest.raises(CheckpointError, match=r"has 3 checkpoints \(2, 4, 6\), not 4; runtime.checkpoint.keep"):
        last_checkpoints(run, 4)
    with pytest.raises(CheckpointError, match="no checkpoint of step 5; there are 2, 4, 6"):
        last_checkpoints(run, steps=[5])
    with pytest.raises(CheckpointError, match="no run is in there"):
        last_checkpoints(tmp_path)
    for words in (["--last", "1"], ["--last", "2", "--step", "2"], [str(run), "--last", "2"], [str(run)]):
        assert main(["average", str(run), *words]) == 2
        assert "error: average: " in capsys.readouterr().err


def test_files_of_different_networks_are_refused(tmp_path):
    a = saved(tmp_path / "a.safetensors", w=np.zeros((2, 3), np.float32))
    with pytest.raises(CheckpointError, match=r"'w' is float32 \[2, 3\] in .*a.safetensors but float32 \[3, 2\]"):
        average([a, saved(tmp_path / "b.safetensors", w=np.zeros((3, 2), np.float32))], tmp_path / "m.safetensors")
    with pytest.raises(CheckpointError, match=r"c\.safetensors has 'v' and .*a\.safetensors has not"):
        average([a, saved(tmp_path / "c.safetensors", v=np.zeros(3, np.float32))], tmp_path / "m.safetensors")
    with pytest.raises(ConfigError, match="there are 1 sources"):
        average([a], tmp_path / "m.safetensors")
    with pytest.raises(ConfigError, match="is a source itself"):
        average([a, a], a)
    assert not (tmp_path / "m.safetensors").exists()


def test_tables_of_rows_have_no_mean(tmp_path):
    class Rows:
        def save(self, path):
            path.mkdir()
            (path / "rows").write_text("1")

        def placed(self, path):
            pass

    kept = Checkpoints(tmp_path)
    weights = {"model": {"w": framework.tensor(np.zeros(2, np.float32))}}
    folders = [kept.save(step, weights, {"rows": Rows()}) for step in (1, 2)]
    with pytest.raises(CheckpointError, match="keeps tables of rows"):
        average(folders, tmp_path / "m.safetensors")
