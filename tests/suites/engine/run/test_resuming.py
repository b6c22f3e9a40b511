"""A run goes on wherever that gives the same numbers, and says what differs; it never loses what it trained."""

import json
import os
import shutil

import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.config import Config
from suites.engine.data.identity import data_digest
from suites.engine.reporting.plots import Matrix, never_predicted
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.folder import RunFolder
from suites.engine.run.ownership import LOCK, Ownership
from suites.engine.train.training import train
from tests.suites.engine import toy

CONFIG = """
suite: toy
data: {samples: 32}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {steps: 8, seed: 3, workers: 0, checkpoint: {every: 2, keep: 9}, evaluation: {every: 0, pictures: 0}}
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "toy.yml").write_text(CONFIG)
    return tmp_path / "toy.yml"


def damage(folder):
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff" if file.read(1) != b"\xff" else b"\x00")


def test_a_step_that_is_damaged_again_and_again_is_passed_over_each_time(tmp_path, config):
    train(config, runs=tmp_path)
    weights = tmp_path / "toy/weights"
    for names in (
        {"step_00000008.damaged"},
        {"step_00000008.damaged", "step_00000008.damaged_2"},
        {"step_00000008.damaged", "step_00000008.damaged_2", "step_00000008.damaged_3"},
    ):
        damage(weights / "step_00000008")
        assert train(tmp_path / "toy", resume=True).step == 8
        assert {path.name for path in weights.glob("*.damaged*")} == names


def test_what_changes_no_number_may_differ_and_is_said(tmp_path, config):
    train(config, runs=tmp_path)
    shutil.rmtree(tmp_path / "toy/weights/step_00000008")
    train(tmp_path / "toy", ["runtime.workers=1", "runtime.checkpoint.every=3", "runtime.threads=1"], resume=True)
    said = "continued with what changes no number: runtime.workers (0 -> 1), runtime.checkpoint.every (2 -> 3)"
    assert said in (tmp_path / "toy/log.txt").read_text()
    assert "workers: 1" in (tmp_path / "toy/config.yml").read_text()


def test_what_changes_numbers_is_refused_and_the_way_out_is_no_command_that_fails(tmp_path, config):
    train(config, runs=tmp_path)
    with pytest.raises(
        CheckpointError, match=r"different: runtime\.seed\).*what the run has \(runtime\.seed: 3\)"
    ) as error:
        train(tmp_path / "toy", ["runtime.seed=4"], resume=True)
    assert "paddock train" not in str(error.value)


class Named:
    """A data set of files, with labels."""

    def __init__(self, root, names, labels=(0, 1)):
        self.root, self.names = root, names
        import numpy as np

        self.labels = np.array(labels)

    def __len__(self):
        return len(self.names)

    def name_of(self, index):
        return f"{self.root}/{self.names[index]}"


def test_a_data_set_is_known_wherever_it_lies_by_names_order_sizes_and_labels(tmp_path):
    for root in ("a", "b/c"):
        (tmp_path / root).mkdir(parents=True)
        for name in ("x.jpg", "y.jpg"):
            (tmp_path / root / name).write_text(name)
    one = data_digest(Named(tmp_path / "a", ["x.jpg", "y.jpg"]))
    assert one == data_digest(Named(tmp_path / "b/c", ["x.jpg", "y.jpg"])) != ""
    assert one != data_digest(Named(tmp_path / "a", ["y.jpg", "x.jpg"]))
    assert one != data_digest(Named(tmp_path / "a", ["x.jpg", "y.jpg"], labels=(1, 0)))
    (tmp_path / "b/c/y.jpg").write_text("longer")
    assert one != data_digest(Named(tmp_path / "b/c", ["x.jpg", "y.jpg"]))
    assert data_digest(iter([1])) == data_digest([1, 2]) == ""


def test_other_data_of_the_same_number_are_refused(tmp_path, config, monkeypatch):
    train(config, runs=tmp_path)
    monkeypatch.setattr(toy.Images, "name_of", lambda self, index: f"other{index}.png")
    with pytest.raises(CheckpointError, match="the training set is another one than this run began with"):
        train(tmp_path / "toy", resume=True)


def test_weights_are_saved_whatever_an_evaluation_says(tmp_path, config, monkeypatch):
    monkeypatch.setattr(toy.Error, "result", lambda self: {"other": 1.0})
    for how in ({}, {"resume": True}):
        with pytest.raises(ConfigError, match="not 'score', which decides the best"):
            train(config, runs=tmp_path, **how)
        assert Checkpoints(tmp_path / "toy/weights").steps()[-1] == 8
        assert (tmp_path / "toy/weights/last.safetensors").is_file()


def test_an_evaluation_set_of_which_too_much_is_damaged_costs_no_training(tmp_path, config, monkeypatch):
    monkeypatch.setattr(toy.Error, "update", lambda self, outputs, batch: (_ for _ in ()).throw(DataError("damaged")))
    with pytest.raises(DataError, match="damaged"):
        train(config, ["runtime.evaluation={every: 6, unit: steps, pictures: 0}"], runs=tmp_path)
    assert Checkpoints(tmp_path / "toy/weights").steps()[-1] == 6


def test_one_damaged_sample_of_a_small_set_is_borne_and_the_figures_say_over_how_many_they_are(tmp_path, config):
    train(config, ["data.damaged=[7]"], runs=tmp_path)
    assert json.loads((tmp_path / "toy/metrics.json").read_text())["skipped"] == 1
    assert "; the figures are over the other 31" in (tmp_path / "toy/log.txt").read_text()


def test_a_lock_that_was_removed_is_taken_again_before_the_owner_writes(tmp_path, caplog):
    run = RunFolder.create(tmp_path / "a", Config.from_dict({"suite": "toy"}))
    (tmp_path / "a" / LOCK).unlink()
    run.write_metrics({"x": 1.0})
    assert "was removed while this run was written; it is locked again" in caplog.text
    with pytest.raises(ConfigError, match="is writing this run"):
        Ownership(tmp_path / "a")
    run.close()


def test_an_owner_whose_lock_another_process_took_writes_nothing_more(tmp_path):
    run = RunFolder.create(tmp_path / "a", Config.from_dict({"suite": "toy"}))
    run.write_metrics({"x": 1.0})
    (tmp_path / "a" / LOCK).unlink()
    other = Ownership(tmp_path / "elsewhere")
    os.link(tmp_path / "elsewhere" / LOCK, tmp_path / "a" / LOCK)
    with pytest.raises(CheckpointError, match=r"its \.lock was removed while this run was written"):
        run.write_metrics({"x": 2.0})
    assert json.loads(run.metrics.read_text()) == {"x": 1.0}
    other.release()
    run.close()


def test_a_folder_that_was_moved_under_a_run_is_not_made_anew(tmp_path):
    run = RunFolder.create(tmp_path / "a", Config.from_dict({"suite": "toy"}))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(CheckpointError, match=rf"a: the folder was moved to {tmp_path}/b while the run was written"):
        run.write_metrics({"x": 1.0})
    assert not (tmp_path / "a").exists()
    run.close()


def test_a_file_system_that_gives_a_lock_to_everybody_is_told(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("framework.system.file_locks.fcntl.flock", lambda fd, how: None)
    Ownership(tmp_path).release()
    assert "this file system gives one lock twice" in caplog.text


def test_classes_that_are_never_predicted_are_named():
    matrix = Matrix(
        "of what", ["cat", "dog", "(background)", "fox"], [[1, 0, 0, 0], [2, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    )
    assert never_predicted([matrix]) == "never predicted, though the evaluation set has them: dog"
    assert never_predicted([Matrix("", ["a", "b"], [[1, 0], [0, 1]])]) == ""
